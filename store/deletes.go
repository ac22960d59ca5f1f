package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// How a delete goes:
//
//  1. deletes.mu is taken: no block comes on the list until the delete is done, so
//     that all blocks there are were written of frames before it, and all that
//     come later know of it.
//  2. The head logs it as a frame, syncs, and applies it to what it holds.
//  3. The blocks get tombstones, in memory: what is deleted is seen no more.
//  4. The tombstones and the list of remembered deletes are saved: where the list
//     is long, once for several deletes. What is left, or fails, is saved by the
//     next round; until then the log has the delete and is not cut, and a start
//     applies it again. So it is while a damaged block is off the list and still in
//     its place, where it would be without tombstones.
//
// A block that is being written meanwhile was begun without it, and a delete does
// not wait for it. It is written, durably, as it was begun, and gets tombstones of
// what was deleted since when it comes on the list (see publish). Until then no
// delete is saved, and the log is not cut: so where a crash leaves that block
// without its tombstones, a start applies those deletes from the log. A merge reads
// its blocks without what is deleted, so nothing of a delete outlives the merge.

// deletes are what is known of deletes in the running process.
type deletes struct {
	mu      sync.Mutex
	list    []head.Delete // remembered, in order of LSN
	last    atomic.Uint64 // the LSN of the newest delete that the blocks on the list know; changed under mu
	through wal.LSN       // of the newest that they know on disk, too
	evicted wal.LSN       // of the newest that list has no room for
	behind  int           // how many came to list, or went, since it was saved
	writing bool          // a block is being written: nothing is saved
	recent  []head.Delete // since it was begun
	held    int           // the bytes of their matchers
}

const (
	// maxDeletes and maxDeleteBytes bound what is remembered of deletes; the
	// oldest are forgotten first: then healing may refill what they removed. While a
	// block is being written as many are held for it, and the next one is refused.
	maxDeletes, maxDeleteBytes = 10_000, 4 << 20
	// saveShare is the part of the list that is not saved at most: each delete by
	// itself would write all that there are.
	saveShare = 16
	// maxMatcherBytes bounds the matchers of one selector.
	maxMatcherBytes = 64 << 10
)

// BadDeleteError says why a delete cannot be.
type BadDeleteError struct{ Reason string }

func (e *BadDeleteError) Error() string { return "delete: " + e.Reason }

// Delete removes what was acknowledged before it of [minT, maxT] (Unix
// milliseconds, both included) of the series that match all matchers of any
// selector, and nothing later. It is durable and visible when Delete returns nil.
// The error is a *BadDeleteError, as of head.Delete, or a *head.UnavailableError
// where as many deletes as may wait for a block that is being written.
func (s *Store) Delete(ctx context.Context, minT, maxT int64, selectors ...[]*labels.Matcher) error {
	list := make([]head.Delete, len(selectors))
	total := 0
	for i, ms := range selectors {
		size, err := checkMatchers(ms)
		if err != nil {
			return err
		}
		if total += size; total > maxDeleteBytes {
			return &BadDeleteError{fmt.Sprintf("selectors of more than %d bytes at once", maxDeleteBytes)}
		}
		list[i] = head.Delete{MinT: minT, MaxT: maxT, Matchers: ms}
	}
	if len(list) == 0 || minT > maxT {
		return nil
	}
	d := &s.deletes
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.recent) >= maxDeletes || d.held >= maxDeleteBytes {
		return &head.UnavailableError{RetryAfter: maintainEvery, Err: fmt.Errorf("%d deletes wait for the block that is being written", len(d.recent))}
	}
	lsn, err := s.head.Delete(ctx, list)
	if lsn == 0 {
		return err
	}
	s.applyDeletes(list)
	s.o.Metrics.Store.Deletes.Add(float64(len(list)))
	if d.writing {
		d.recent, d.held = append(d.recent, list...), d.held+total
		return err
	}
	if d.behind*saveShare < len(d.list) || s.unmoved() {
		return err
	}
	if e := s.saveDeletes(); e != nil {
		s.log.Error("a delete is in the log, but could not be saved beside the blocks; it is tried again", "frame", lsn, "err", e)
	}
	return err
}

// checkMatchers returns how many bytes the matchers of a selector take, or why a
// delete cannot have it.
func checkMatchers(ms []*labels.Matcher) (size int, err error) {
	for _, m := range ms {
		if !utf8.ValidString(m.Name) || !utf8.ValidString(m.Value) {
			return 0, &BadDeleteError{fmt.Sprintf("matcher %q is not valid UTF-8", m.String())}
		}
	}
	switch size = matcherBytes(ms); {
	case len(ms) == 0:
		return 0, &BadDeleteError{"a selector without a matcher"}
	case size > maxMatcherBytes:
		return 0, &BadDeleteError{fmt.Sprintf("a selector of %d bytes, at most %d", size, maxMatcherBytes)}
	}
	return size, nil
}

// applyDeletes gives the blocks tombstones, in memory, and remembers the deletes.
// A block that cannot be read is noticed thereby and set aside. deletes.mu is held.
func (s *Store) applyDeletes(list []head.Delete) {
	d := &s.deletes
	for _, del := range list {
		for _, b := range *s.blocks.Load() {
			minT, maxT := b.Range()
			if b.After() >= uint64(del.LSN) || minT > del.MaxT || maxT < del.MinT {
				continue
			}
			if err := b.Erase(context.Background(), del.MinT, del.MaxT, del.Matchers...); err != nil {
				s.log.Error("what is deleted of a block is not known", "block", b.Name(), "err", err)
			}
		}
		d.remember(del)
	}
	d.trim()
	for _, del := range list { // once all are known: some may be of one frame
		d.last.Store(max(d.last.Load(), uint64(del.LSN)))
	}
}

// CleanTombstones writes the blocks that have tombstones anew, without what is
// deleted; one of which nothing is left goes. A crash leaves a block as it was or
// as it is to be. It returns early when ctx ends or the store is closed.
func (s *Store) CleanTombstones(ctx context.Context) error {
	ctx, cancel := s.alive(ctx)
	defer cancel()
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	if err := s.setFaultyAside(); err != nil {
		return fmt.Errorf("clean tombstones: %w", err)
	}
	for _, b := range *s.blocks.Load() {
		if b.Tombstones() == 0 {
			continue
		}
		if err := s.merge(ctx, []*block.Block{b}); err != nil {
			s.o.Metrics.Store.CompactionFailures.Inc()
			return fmt.Errorf("clean the tombstones of block %s: %w", b.Name(), err)
		}
	}
	return s.trySaveDeletes()
}

// remember adds a delete to the list, in place of those that it includes; trim is
// to follow, once for several.
func (d *deletes) remember(del head.Delete) {
	d.list = slices.DeleteFunc(d.list, func(o head.Delete) bool {
		return o.LSN <= del.LSN && o.MinT >= del.MinT && o.MaxT <= del.MaxT && slices.EqualFunc(o.Matchers, del.Matchers, sameMatcher)
	})
	d.list = append(d.list, del)
	d.behind++
}

// trim forgets the oldest deletes of a list that is longer than it may be.
func (d *deletes) trim() {
	size := 0
	for i := len(d.list) - 1; i >= 0; i-- {
		size += matcherBytes(d.list[i].Matchers)
		if len(d.list)-i > maxDeletes || size > maxDeleteBytes {
			d.evicted = max(d.evicted, d.list[i].LSN)
			d.list = slices.Clone(d.list[i+1:])
			return
		}
	}
}

// matcherBytes returns how many bytes the matchers of a selector take.
func matcherBytes(ms []*labels.Matcher) (size int) {
	for _, m := range ms {
		size += len(m.Name) + len(m.Value)
	}
	return size
}

func sameMatcher(a, b *labels.Matcher) bool {
	return a.Type == b.Type && a.Name == b.Name && a.Value == b.Value
}

// Deleted returns the ranges of a series that were deleted, as far as that is
// remembered: who fills gaps leaves them as they are.
func (s *Store) Deleted(ls labels.Labels) (out tombstones.Intervals) {
	s.deletes.mu.Lock()
	defer s.deletes.mu.Unlock()
	return erasedBy(s.deletes.list, ls)
}

// erasedBy returns what the deletes remove of a series.
func erasedBy(list []head.Delete, ls labels.Labels) (out tombstones.Intervals) {
	for i := range list {
		if list[i].Matches(ls) {
			out = out.Add(tombstones.Interval{Mint: list[i].MinT, Maxt: list[i].MaxT})
		}
	}
	return out
}

// forgetDeletes lets go of those of a time that neither retention nor a block
// reaches back to: a block that goes beyond the bound is whole until it goes, and
// where its tombstones are lost they are made of this list.
func (s *Store) forgetDeletes(bound int64) {
	d := &s.deletes
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range *s.blocks.Load() {
		minT, _ := b.Range()
		bound = min(bound, minT)
	}
	n := len(d.list)
	d.list = slices.DeleteFunc(d.list, func(del head.Delete) bool { return del.MaxT < bound })
	d.behind += n - len(d.list)
}

// errUnmoved says why a delete must stay in the log.
var errUnmoved = errors.New("save tombstones: a damaged block could not be set aside yet, and would be without them")

// saveDeletes makes durable what is deleted of the blocks, then that it is.
// deletes.mu is held, and no block is being written.
func (s *Store) saveDeletes() error {
	d := &s.deletes
	var errs []error
	stones := 0
	for _, b := range *s.blocks.Load() {
		errs = append(errs, b.SaveTombstones(s.o.FS))
		stones += b.Tombstones()
	}
	s.o.Metrics.Store.Tombstones.Set(float64(stones))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("save tombstones: %w", err)
	}
	last := wal.LSN(d.last.Load())
	if d.through == last && d.behind == 0 || !onDisk(s.o.FS) {
		return nil
	}
	if d.through != last && s.unmoved() { // looked at last: what was listed a moment ago was saved
		return errUnmoved
	}
	if err := s.writeDeletes(last); err != nil {
		return err
	}
	d.through, d.behind = last, 0
	return nil
}

// trySaveDeletes saves what could not be saved before.
func (s *Store) trySaveDeletes() error {
	s.deletes.mu.Lock()
	defer s.deletes.mu.Unlock()
	return s.saveDeletes()
}

// replayHead brings the head to where the log ends, and the blocks to know the
// deletes that a process logged and did not come to save.
func (s *Store) replayHead(ctx context.Context) error {
	d := &s.deletes
	d.mu.Lock()
	defer d.mu.Unlock()
	s.head.Remember(d.list)
	if err := s.head.Replay(ctx, s.coverage().find); err != nil {
		return err
	}
	list := slices.DeleteFunc(s.head.Replayed(), func(del head.Delete) bool { return del.LSN <= d.through })
	s.applyDeletes(list)
	if err := s.saveDeletes(); err != nil {
		s.log.Error("deletes are in the log, but could not be saved beside the blocks; it is tried again", "deletes", len(list), "err", err)
	}
	return nil
}

// restoreTombstones makes the tombstones of blocks anew whose file is damaged, from
// what is remembered; a block is set aside where that is not enough.
func (s *Store) restoreTombstones(known bool) {
	for _, b := range *s.blocks.Load() {
		why := b.LostTombstones()
		if why == nil {
			continue
		}
		err := errForgotten
		if known {
			err = s.eraseRemembered(b, wal.LSN(b.After()))
		}
		if errors.Is(err, errForgotten) {
			b.Corrupt("tombstones", why)
			continue
		}
		// Any other error has taken the block off the list.
		s.log.Error("tombstones of a block are damaged; they are made anew of what is remembered", "block", b.Name(), "err", errors.Join(why, err))
	}
	if err := s.setFaultyAside(); err != nil {
		s.log.Error("it is tried again", "err", err)
	}
}

// errForgotten says that what is remembered does not tell what is deleted of a block.
var errForgotten = errors.New("not all that was deleted of it is remembered")

// eraseRemembered gives a block tombstones, in memory, of all deletes after a frame
// that mean it, as far as they are remembered. deletes.mu is held, or nobody else is there yet.
func (s *Store) eraseRemembered(b *block.Block, after wal.LSN) error {
	d := &s.deletes
	if d.evicted > after {
		return errForgotten
	}
	return eraseAll(b, slices.DeleteFunc(slices.Clone(d.list), func(del head.Delete) bool { return del.LSN <= after }))
}

// eraseAll gives a block tombstones of deletes, in memory.
func eraseAll(b *block.Block, list []head.Delete) error {
	for _, del := range list {
		if err := b.Erase(context.Background(), del.MinT, del.MaxT, del.Matchers...); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a block; publish or abandon ends it. maintenance is held, so
// there is one at a time.
func (s *Store) begin() (*block.Writer, error) {
	w, err := block.Create(s.o.FS, s.blocksDir(), s.buffers)
	if err != nil {
		return nil, err
	}
	s.deletes.mu.Lock()
	defer s.deletes.mu.Unlock()
	s.deletes.writing = true
	return w, nil
}

// written ends what begin began, and returns what was deleted meanwhile. mu is held.
func (d *deletes) written() (recent []head.Delete) {
	recent = d.recent
	d.writing, d.recent, d.held = false, nil, 0
	return recent
}

// abandon ends a block that failed and returns why.
func (s *Store) abandon(w *block.Writer, err error) error {
	s.deletes.mu.Lock()
	s.deletes.written()
	s.deletes.mu.Unlock()
	return s.drop(w, err)
}

// drop is Abort of a block; what cannot be removed of it removeLeft tries again. It
// returns why, and what was refused.
func (s *Store) drop(w *block.Writer, why error) error {
	err := w.Abort()
	if err != nil {
		s.lingering = append(s.lingering, w.Dir())
	}
	return errors.Join(why, err)
}

// publish commits a block, gives it tombstones of what was deleted since it was
// begun, and puts it on the list in the place of old, whose directories are left
// to the caller. The block is nil where it has no samples.
func (s *Store) publish(ctx context.Context, w *block.Writer, ci block.CommitInfo, old []*block.Block) (*block.Block, error) {
	b, err := s.commit(ctx, w, ci)
	d := &s.deletes
	d.mu.Lock()
	recent := d.written()
	if b != nil {
		if err = eraseAll(b, recent); err != nil {
			err = s.reject(b.Dir(), err)
			b.Release()
		}
	}
	if err != nil {
		d.mu.Unlock()
		return nil, err
	}
	var made []*block.Block
	if b != nil {
		s.watch(b)
		s.o.Metrics.Store.WrittenBytes.Add(float64(b.Size()))
		made = []*block.Block{b}
	}
	s.swap(old, made...)
	d.mu.Unlock()
	return b, nil
}

// commit makes a block durable and opens it; it is nil where it has no samples.
func (s *Store) commit(ctx context.Context, w *block.Writer, ci block.CommitInfo) (*block.Block, error) {
	if err := cmp.Or(ctx.Err(), s.ctx.Err()); err != nil { // that of alive follows the store's a moment later
		return nil, s.drop(w, err)
	}
	dir, err := w.Commit(ctx, ci)
	switch {
	case dir == "":
		return nil, err
	case err != nil:
		return nil, s.reject(dir, err)
	}
	return s.openWritten(dir)
}
