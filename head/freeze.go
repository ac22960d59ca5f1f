package head

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
	"github.com/rwsink/rwsink/wal"
)

// ContainerInfo says what a container is, for whoever plans flushes.
type ContainerInfo struct {
	Lo, Hi  int64   // both ends included, Unix milliseconds
	First   wal.LSN // the first frame that put samples here
	Samples int
	Newest  int64 // the newest timestamp put here
	Bytes   int   // of a cold run; 0 for a near container
	Cold    bool
	Frozen  bool
	Quiet   time.Duration // since a sample was last put here
}

// Containers describes the containers, frozen ones first.
func (h *Head) Containers() []ContainerInfo {
	h.mu.RLock()
	defer h.mu.RUnlock()
	list, mono := h.containers.Load(), h.clock.mono()
	var out []ContainerInfo
	for _, c := range slices.Concat(list.frozen, list.open) {
		info := ContainerInfo{
			Lo: c.lo, Hi: c.hi, First: c.first, Samples: c.samples, Newest: c.newest,
			Cold: c.cold != nil, Frozen: c.frozen, Quiet: mono - time.Duration(c.touchedMs)*time.Millisecond,
		}
		if c.cold != nil {
			info.Bytes = c.cold.memory()
		}
		out = append(out, info)
	}
	return out
}

// Frozen is a container that takes no more samples, to be made a block of. Those
// of one Freeze share scratch memory and serve one goroutine.
type Frozen struct {
	head *Head
	c    *Container
	fin  *finisher
}

// Range returns the bounds, both ends included, Unix milliseconds.
func (f *Frozen) Range() (lo, hi int64) { return f.c.lo, f.c.hi }

// Log returns the frames whose samples of the range are all here: those after
// from, up to and including to.
func (f *Frozen) Log() (from, to wal.LSN) { return f.c.opened, f.c.last }

// Samples returns how many samples were put here, those written over included.
func (f *Frozen) Samples() int { return f.c.samples }

// ColdBytes returns the memory of a cold run, 0 of a near container.
func (f *Frozen) ColdBytes() int64 {
	if f.c.cold == nil {
		return 0
	}
	return int64(f.c.cold.memory())
}

// Freeze closes, between two commits, the open containers that pick chooses,
// and returns all that are frozen and not dropped yet, in order of LSN. Their
// samples stay readable; writes to their ranges open successors. The series let go of
// their parts piece by piece.
func (h *Head) Freeze(ctx context.Context, pick func(ContainerInfo) bool) ([]*Frozen, error) {
	chosen := map[[2]int64]bool{}
	for _, info := range h.Containers() {
		if !info.Frozen && pick(info) {
			chosen[[2]int64{info.Lo, info.Hi}] = true
		}
	}
	var out []*Frozen
	fin := newFinisher(h.options)
	err := h.between(ctx, func(c *committer) {
		c.freeze(func(box *Container) bool { return chosen[[2]int64{box.lo, box.hi}] })
		for _, box := range h.containers.Load().frozen {
			out = append(out, &Frozen{h, box, fin})
		}
	})
	for _, f := range out {
		if err = errors.Join(err, h.unlink(ctx, f.c)); err != nil {
			return nil, err
		}
	}
	return out, err
}

// unlink takes the parts of a frozen container out of the series, unless that is done.
func (h *Head) unlink(ctx context.Context, box *Container) error {
	if box.cold != nil || box.unlinked.Load() {
		return nil
	}
	err := h.inPieces(ctx, box, func(c *committer, some []*Series) {
		for _, s := range some {
			box.unlink(s)
		}
	})
	if err == nil {
		box.unlinked.Store(true)
	}
	return err
}

// unlink takes the part of s out of s, if there is one.
func (c *Container) unlink(s *Series) {
	if p := c.parts.of(s); p != nil {
		s.unlink(p)
	}
}

// piece is how many series are seen to between two commits, about a millisecond: what
// is to be done for each series of a container must not make writes wait for all of them.
const piece = 4096

// inPieces calls f for the series of a frozen container, some at a time, between two
// commits, with Head.mu held for writing.
func (h *Head) inPieces(ctx context.Context, box *Container, f func(c *committer, some []*Series)) (err error) {
	some := make([]*Series, 0, piece)
	next := func() {
		if err == nil && len(some) > 0 {
			err = h.between(ctx, func(c *committer) {
				h.mu.Lock()
				defer h.mu.Unlock()
				f(c, some)
			})
		}
		some = some[:0]
	}
	box.each(func(s *Series) { // which does not change any more
		if some = append(some, s); len(some) == piece {
			next()
		}
	})
	next()
	return err
}

// freeze moves the chosen containers among the frozen ones.
func (c *committer) freeze(chosen func(*Container) bool) {
	c.head.mu.Lock()
	defer c.head.mu.Unlock()
	c.freezeLocked(chosen)
}

// freezeLocked is freeze for a caller that holds Head.mu for writing.
func (c *committer) freezeLocked(chosen func(*Container) bool) {
	h := c.head
	old := h.containers.Load()
	next := &containerList{frozen: slices.Clone(old.frozen)}
	for _, box := range old.open {
		if !chosen(box) {
			next.open = append(next.open, box)
			continue
		}
		box.frozen = true
		if c.recent == box {
			c.recent = nil
		}
		next.frozen = append(next.frozen, box)
	}
	slices.SortStableFunc(next.frozen, func(a, b *Container) int { return cmp.Compare(a.last, b.last) })
	h.containers.Store(next)
}

// Drop takes a frozen container out of the head, once a block holds its
// samples. Where series that are in no container any more stand in the way of
// others, it collects them.
func (h *Head) Drop(ctx context.Context, f *Frozen) error {
	if err := h.unlink(ctx, f.c); err != nil {
		return err
	}
	chunks := f.c.chunks()
	if err := h.between(ctx, func(c *committer) { c.drop(f.c, chunks) }); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // it is dropped: the series that it held must not stay for ever
	if err := h.inPieces(ctx, f.c, func(_ *committer, some []*Series) {
		for _, s := range some {
			h.release(s)
		}
	}); err != nil {
		return err
	}
	var dead []*Series
	err := h.between(ctx, func(c *committer) {
		if h.crowded() {
			dead = c.collect()
		}
	})
	h.identity.unlist(dead)
	return err
}

// drop takes a frozen container off the list.
func (c *committer) drop(box *Container, chunks int) {
	h := c.head
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.containers.Load()
	frozen := slices.DeleteFunc(slices.Clone(old.frozen), func(o *Container) bool { return o == box })
	h.containers.Store(&containerList{frozen: frozen, open: old.open})
	box.dropped = true
	if box.cold != nil {
		h.coldBytes.Add(-int64(box.cold.counted))
	}
	c.applier.stats.chunks -= chunks
}

// chunks returns how many sealed chunks the container holds.
func (c *Container) chunks() int {
	n := 0
	c.parts.each(func(p *part) { n += len(p.chunks) })
	return n
}

// Each calls emit for every series, sorted by labels, with its chunks: sealed,
// ascending, disjoint, late samples merged in, cut by a Sealer. The chunks are
// borrowed until emit returns; emit's error ends it. What was deleted before the
// call is left out; of a series nothing may be left.
func (f *Frozen) Each(ctx context.Context, emit func(labels.Labels, []chunkenc.Chunk) error) error {
	var list []*Series
	f.c.each(func(s *Series) { list = append(list, s) })
	slices.SortFunc(list, func(a, b *Series) int { return labels.Compare(a.labels, b.labels) })
	f.head.mu.RLock()
	erased := maps.Clone(f.c.erased)
	f.head.mu.RUnlock()
	fin := f.fin
	fin.applier.stats = applyStats{}
	for _, s := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var chunks []chunkenc.Chunk
		if f.c.cold != nil {
			chunks = fin.coldSeries(f.c, s)
		} else {
			chunks = fin.part(f.c.parts.of(s))
		}
		if in := erased[s]; len(in) > 0 {
			chunks = fin.without(chunks, in)
		}
		if err := emit(s.labels, chunks); err != nil {
			return err
		}
	}
	f.head.options.Metrics.Duplicates.Add(float64(fin.applier.stats.duplicates))
	f.head.options.Metrics.Overwritten.Add(float64(fin.applier.stats.overwritten))
	return nil
}

// finisher makes the chunks of a block of what a frozen container holds.
type finisher struct {
	applier *applier
	seal    *Sealer
	out     []chunkenc.Chunk
}

func newFinisher(o Options) *finisher { return &finisher{applier: newApplier(o), seal: NewSealer(o)} }

// part returns the chunks of a part with its tail and late samples merged in.
// The part is shared with readers, and stays as it is.
func (f *finisher) part(p *part) []chunkenc.Chunk {
	if p.tailLen() == 0 && p.lateLen() == 0 && f.seal.settled(p.chunks) {
		return p.chunks
	}
	f.out = f.out[:0]
	from := 0
	if p.kind != chunkenc.KindFloat && p.lateLen() == 0 && f.seal.settled(p.chunks[:p.open]) {
		from = int(p.open) // histograms take long to decode and to seal
		f.out = append(f.out, p.chunks[:from]...)
	}
	return f.sealAll(f.applier.runsOf(p, from, (*ooo.Buffer).CopyRange))
}

// coldSeries returns the chunks of a series of a cold run.
func (f *finisher) coldSeries(c *Container, s *Series) []chunkenc.Chunk {
	a := f.applier
	a.late.Reset()
	runs := a.runs.reset()
	a.cold.copy(runs, &a.late, c.cold, s, math.MinInt64, math.MaxInt64)
	f.out = f.out[:0]
	return f.sealAll(a.merge(runs.list, &a.late))
}

// without returns chunks without what is erased of them.
func (f *finisher) without(chunks []chunkenc.Chunk, erased tombstones.Intervals) []chunkenc.Chunk {
	runs := f.applier.runs.reset()
	for i := range chunks {
		runs.decode(&f.applier.dec, &chunks[i])
	}
	f.out = f.out[:0]
	for _, r := range runs.list {
		if cutOut(r, erased); r.Len() > 0 {
			f.out = f.seal.Seal(f.out, r)
		}
	}
	return f.out
}

func (f *finisher) sealAll(runs []*chunkenc.Samples) []chunkenc.Chunk {
	for _, r := range runs {
		f.out = f.seal.Seal(f.out, r)
	}
	return f.out
}

// between runs f on the committer's goroutine, between two groups.
func (h *Head) between(ctx context.Context, f func(*committer)) error {
	done := make(chan struct{})
	h.intake.RLock()
	if err := h.state; err != nil {
		h.intake.RUnlock()
		return err
	}
	select {
	case h.control <- func(c *committer) { f(c); close(done) }:
		h.intake.RUnlock()
	case <-ctx.Done():
		h.intake.RUnlock()
		return ctx.Err()
	}
	<-done
	return nil
}
