package head

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/wal"
	"github.com/rwsink/rwsink/wal/record"
)

// A delete removes what was acknowledged before it of a range of time of some
// series, and nothing later:
//
//  1. It is a frame of the log like a batch, with a number of its own: what is
//     in the head at that moment came before, what is not came later.
//  2. Open containers lose the samples themselves, so that what comes later to
//     the same container is not mistaken for them.
//  3. Frozen containers take no more samples and are read without the lock: what
//     is erased of them is noted beside, and left out by who reads or flushes them.
//
// Replay does the same at the same place of the log. A delete need not be logged
// again when the log is cut: the log goes from its begin, so it has no sample from
// before a delete that is gone. Only damage can take a delete and leave such a
// sample; against that the store remembers deletes beside the log (Remember).
// Exemplars and metadata stay, as in Prometheus.

// Delete removes the samples in [MinT, MaxT] (Unix milliseconds, both included)
// of the series that all matchers match, as far as their frames are not after LSN.
type Delete struct {
	LSN        wal.LSN
	MinT, MaxT int64
	Matchers   []*labels.Matcher
}

// Matches says whether the delete means the series.
func (d *Delete) Matches(ls labels.Labels) bool { return matches(ls, d.Matchers) }

// Delete logs deletes as one frame, applies it to what the head holds, syncs it
// whatever the policy is, and returns its LSN, which the deletes are given. The
// error is an *UnavailableError, unless the deletes are more than a frame can
// hold; where the LSN is 0 nothing was deleted, else the sync failed.
func (h *Head) Delete(ctx context.Context, list []Delete) (lsn wal.LSN, err error) {
	e := h.between(ctx, func(c *committer) { lsn, err = c.delete(list) })
	if e != nil {
		return 0, unavailable(e)
	}
	return lsn, err
}

func (c *committer) delete(list []Delete) (wal.LSN, error) {
	b := record.Batch{Deletes: make([]record.Delete, len(list))}
	for i, d := range list {
		r := record.Delete{MinT: d.MinT, MaxT: d.MaxT, Matchers: make([]record.Matcher, len(d.Matchers))}
		for k, m := range d.Matchers {
			r.Matchers[k] = record.Matcher{Type: m.Type, Name: m.Name, Value: m.Value}
		}
		b.Deletes[i] = r
	}
	payload := record.Append(nil, &b)
	if len(payload) > c.maxPayload {
		return 0, fmt.Errorf("the deletes take %d bytes of log, at most %d", len(payload), c.maxPayload)
	}
	lsn, err := c.logFrame(payload)
	c.head.outage.note(c.head.log, "nothing was deleted", err)
	if err != nil { // as of any group, nothing of it is in the log then
		c.head.options.Metrics.GroupFailures.Inc()
		return 0, unavailable(err)
	}
	c.head.options.Metrics.Groups.Inc()
	for i := range list {
		list[i].LSN = lsn
		c.erase(&list[i])
	}
	if err := c.log.Sync(); err != nil {
		return lsn, unavailable(fmt.Errorf("what was deleted is not durable yet: %w", err))
	}
	return lsn, nil
}

// logFrame writes one frame as a group.
func (c *committer) logFrame(payload []byte) (lsn wal.LSN, err error) {
	if _, err := c.log.Begin(); err != nil {
		return 0, err
	}
	if lsn, err = c.log.Write(wal.ClassWritten, payload); err != nil {
		return 0, err
	}
	return lsn, c.log.Commit()
}

// compileDeletes returns the deletes of a frame; err tells of each that no matcher can be made of.
func compileDeletes(list []record.Delete, lsn wal.LSN) (out []Delete, err error) {
next:
	for _, r := range list {
		d := Delete{LSN: lsn, MinT: r.MinT, MaxT: r.MaxT}
		for _, m := range r.Matchers {
			matcher, e := labels.NewMatcher(m.Type, m.Name, m.Value)
			if e != nil {
				err = errors.Join(err, fmt.Errorf("delete of frame %d: matcher on %q: %w", lsn, m.Name, e))
				continue next
			}
			d.Matchers = append(d.Matchers, matcher)
		}
		out = append(out, d)
	}
	return out, err
}

// eraseStep is of how many series the samples are erased under one lock, so
// that readers need not wait for the last of them.
const eraseStep = 64

// erase takes what d removes out of every container.
func (c *committer) erase(d *Delete) {
	list := c.head.containers.Load()
	if len(list.overlapping(d.MinT, d.MaxT)) == 0 {
		return
	}
	series := c.matching(d.Matchers)
	for step := range slices.Chunk(series, eraseStep) {
		c.head.mu.Lock()
		for _, s := range step {
			for _, box := range list.frozen {
				box.eraseFrozen(s, d.MinT, d.MaxT)
			}
			for _, box := range list.open {
				c.eraseOpen(box, s, d.MinT, d.MaxT)
			}
			if s.containers == 0 {
				s.seen = false
			}
		}
		c.head.mu.Unlock()
	}
}

// matching returns the series that all matchers match.
func (c *committer) matching(ms []*labels.Matcher) []*Series {
	ctx, id := context.Background(), c.head.identity
	id.list(false) // for one of a replay
	p, err := id.postings.Select(ctx, ms...)
	if err != nil {
		panic("BUG: postings in memory cannot be read: " + err.Error())
	}
	all, err := id.all(ctx, p)
	if err != nil {
		panic("BUG: postings in memory cannot be read: " + err.Error())
	}
	return all
}

// eraseFrozen notes what is erased of s in a frozen container. Head.mu is held for writing.
func (c *Container) eraseFrozen(s *Series, lo, hi int64) {
	if !c.overlaps(lo, hi) || !c.has(s) {
		return
	}
	if c.erased == nil {
		c.erased = map[*Series]tombstones.Intervals{}
	}
	// A copy: whoever reads has the list of before.
	c.erased[s] = slices.Clone(c.erased[s]).Add(tombstones.Interval{Mint: lo, Maxt: hi})
}

// gone says whether all that a container holds of s is erased. Head.mu is held.
func (c *Container) gone(s *Series) bool {
	erased := c.erased[s]
	if len(erased) == 0 {
		return false
	}
	if c.cold == nil {
		lo, hi := c.parts.of(s).bounds()
		return tombstones.Interval{Mint: lo, Maxt: hi}.IsSubrange(erased)
	}
	return c.cold.gone(s, erased)
}

// eraseOpen takes the samples of s in [lo, hi] out of an open container, and s
// with the last of them. Head.mu is held for writing.
func (c *committer) eraseOpen(box *Container, s *Series, lo, hi int64) {
	if !box.overlaps(lo, hi) || !box.has(s) {
		return
	}
	empty := false
	if box.cold != nil {
		empty = c.applier.eraseCold(box.cold, s, lo, hi)
		c.head.countCold(box.cold)
	} else if p := box.parts.of(s); c.applier.erase(box, p, lo, hi) {
		empty = true
		box.parts.remove(s)
		s.unlink(p)
	}
	if empty {
		c.head.release(s)
	}
}

// erase takes the samples in [lo, hi] out of p, a part of c. All of p is sealed
// for it. It says whether nothing is left.
func (a *applier) erase(c *Container, p *part, lo, hi int64) (empty bool) {
	if p.tailLen() > 0 {
		a.sealTail(c, p)
	}
	if p.lateLen() > 0 {
		a.mergeLate(c, p)
	}
	before := len(p.chunks)
	p.chunks = a.without(c, p.chunks, p.shift, tombstones.Intervals{{Mint: lo, Maxt: hi}})
	p.open = int32(len(p.chunks))
	a.stats.chunks += len(p.chunks) - before
	if len(p.chunks) == 0 {
		return true
	}
	p.maxT = p.chunks[len(p.chunks)-1].MaxT
	p.slotEnd = c.slotEnd(p.maxT, p.shift)
	return false
}

// without returns chunks without what is erased of them, in memory of their own
// where that is anything.
func (a *applier) without(c *Container, chunks []chunkenc.Chunk, shift uint8, erased tombstones.Intervals) []chunkenc.Chunk {
	if !slices.ContainsFunc(chunks, func(ch chunkenc.Chunk) bool { return touches(erased, ch.MinT, ch.MaxT) }) {
		return chunks
	}
	a.sealed = nil
	for i := range chunks {
		ch := &chunks[i]
		if !touches(erased, ch.MinT, ch.MaxT) {
			a.sealed = append(a.sealed, *ch)
			continue
		}
		runs := a.runs.reset()
		runs.decode(&a.dec, ch)
		for _, run := range runs.list {
			if cutOut(run, erased); run.Len() > 0 {
				a.cut(c, run, shift)
			}
		}
	}
	out := a.sealed
	a.sealed = nil
	return out
}

// touches says whether some of [lo, hi] is erased.
func touches(erased tombstones.Intervals, lo, hi int64) bool {
	return slices.ContainsFunc(erased, func(i tombstones.Interval) bool { return i.Mint <= hi && i.Maxt >= lo })
}

// cutOut takes what is erased out of a run.
func cutOut(run *chunkenc.Samples, erased tombstones.Intervals) {
	for _, i := range erased {
		run.Cut(i.Mint, i.Maxt)
	}
}

// emitWithout returns an emit that leaves out what is erased.
func emitWithout(erased tombstones.Intervals, emit func(*chunkenc.Samples) error) func(*chunkenc.Samples) error {
	if len(erased) == 0 {
		return emit
	}
	return func(run *chunkenc.Samples) error {
		if cutOut(run, erased); run.Len() == 0 {
			return nil
		}
		return emit(run)
	}
}

// Remember tells the head, before Replay, of deletes in order of LSN that are
// known beside the log: of a damaged stretch of it they are all there is.
func (h *Head) Remember(list []Delete) { h.deletes = list }

// Replayed returns, after Replay, the deletes that the log has.
func (h *Head) Replayed() []Delete { return h.deletes }

// erasedBefore applies the remembered deletes that came before the frame lsn.
func (r *replayer) erasedBefore(lsn wal.LSN) {
	for len(r.remembered) > 0 && r.remembered[0].LSN < lsn {
		r.committer.erase(&r.remembered[0])
		r.remembered = r.remembered[1:]
	}
}

// deletes applies those of a frame.
func (r *replayer) deletes(list []record.Delete, lsn wal.LSN) {
	if len(list) == 0 {
		return
	}
	out, err := compileDeletes(list, lsn)
	if err != nil {
		r.head.log.Error("deletes of the log cannot be applied", "err", err)
	}
	for i := range out {
		r.committer.erase(&out[i])
	}
	r.found = append(r.found, out...)
}
