package head

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

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

// ColdBytes returns the memory that cold runs hold.
func (h *Head) ColdBytes() int64 { return h.coldBytes.Load() }

// Frozen is a container that takes no more samples, to be made a block of.
type Frozen struct {
	head *Head
	c    *Container
}

// Range returns the bounds, both ends included, Unix milliseconds.
func (f *Frozen) Range() (lo, hi int64) { return f.c.lo, f.c.hi }

// Log returns the frames whose samples of the range are all here: those after
// from, up to and including to.
func (f *Frozen) Log() (from, to wal.LSN) { return f.c.opened, f.c.last }

// Samples returns how many samples were put here, those written over included.
func (f *Frozen) Samples() int { return f.c.samples }

// Freeze closes, between two commits, the open containers that pick chooses,
// and returns all that are frozen and not dropped yet, in order of LSN. Their
// samples stay readable; writes to their ranges open successors.
func (h *Head) Freeze(ctx context.Context, pick func(ContainerInfo) bool) ([]*Frozen, error) {
	chosen := map[[2]int64]bool{}
	for _, info := range h.Containers() {
		if !info.Frozen && pick(info) {
			chosen[[2]int64{info.Lo, info.Hi}] = true
		}
	}
	var out []*Frozen
	err := h.between(ctx, func(c *committer) {
		c.freeze(func(box *Container) bool { return chosen[[2]int64{box.lo, box.hi}] })
		for _, box := range h.containers.Load().frozen {
			out = append(out, &Frozen{h, box})
		}
	})
	return out, err
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
		next.frozen = append(next.frozen, box)
		for s := range box.parts {
			if s.liveIn == box {
				s.live, s.liveIn = nil, nil
			}
		}
	}
	slices.SortStableFunc(next.frozen, func(a, b *Container) int { return cmp.Compare(a.last, b.last) })
	h.containers.Store(next)
}

// Drop takes a frozen container out of the head, once a block holds its
// samples, and collects the series that are in no container any more.
func (h *Head) Drop(ctx context.Context, f *Frozen) error {
	var dead []*Series
	err := h.between(ctx, func(c *committer) {
		c.drop(f.c)
		dead = c.collect()
	})
	h.identity.unlist(dead)
	return err
}

// drop takes a frozen container off the list.
func (c *committer) drop(box *Container) {
	h := c.head
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.containers.Load()
	frozen := slices.DeleteFunc(slices.Clone(old.frozen), func(o *Container) bool { return o == box })
	h.containers.Store(&containerList{frozen: frozen, open: old.open})
	box.dropped = true
	box.each(h.release)
	if box.cold != nil {
		h.coldBytes.Add(-int64(box.cold.memory()))
	}
	c.applier.stats.chunks -= box.chunks()
}

// chunks returns how many sealed chunks the container holds.
func (c *Container) chunks() int {
	n := 0
	for _, p := range c.parts {
		n += len(p.chunks)
	}
	return n
}

// Each calls emit for every series, sorted by labels, with its chunks: sealed,
// ascending, disjoint, late samples merged in, cut as a head would have. The
// chunks are borrowed until emit returns; emit's error ends it.
func (f *Frozen) Each(ctx context.Context, emit func(labels.Labels, []chunkenc.Chunk) error) error {
	var list []*Series
	f.c.each(func(s *Series) { list = append(list, s) })
	slices.SortFunc(list, func(a, b *Series) int { return labels.Compare(a.labels, b.labels) })
	a := newApplier(f.head.options)
	var chain []uint32
	for _, s := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var chunks []chunkenc.Chunk
		if f.c.cold != nil {
			chunks, chain = a.sealChain(f.c, s, chain)
		} else {
			chunks = a.finish(f.c, f.c.parts[s])
		}
		if err := emit(s.labels, chunks); err != nil {
			return err
		}
	}
	f.head.options.Metrics.Duplicates.Add(float64(a.stats.duplicates))
	f.head.options.Metrics.Overwritten.Add(float64(a.stats.overwritten))
	return nil
}

// finish returns the chunks of a frozen part with its tail and late samples
// merged in. The part is shared with readers: a copy of it is worked on.
func (a *applier) finish(c *Container, p *part) []chunkenc.Chunk {
	work := *p
	if p.ext != nil {
		work.ext = &partExt{starts: p.ext.starts, hists: p.ext.hists}
		p.ext.late.CopyRange(&work.ext.late, c.lo, c.hi)
	}
	if work.tailLen() > 0 || int(work.open) < len(work.chunks)-1 {
		a.join(c, &work)
	}
	work.tail = nil
	if work.ext != nil {
		work.ext.hists = nil
	}
	if work.lateLen() > 0 {
		a.mergeLate(c, &work)
	}
	if p.ext != nil {
		return a.recut(c, work.chunks)
	}
	return work.chunks
}

// recut cuts chunks as samples in order would have been: while late ones came
// in, the interval was not to be seen, and a series that is cut unlike the
// others of its scrape shares no time column with them.
func (a *applier) recut(c *Container, chunks []chunkenc.Chunk) []chunkenc.Chunk {
	n := 0
	for i := range chunks {
		n += int(chunks[i].N)
	}
	if n < 2 {
		return chunks
	}
	shift := a.shiftFor(c, chunks[len(chunks)-1].MaxT-chunks[0].MinT, n)
	fits := func(i int) bool {
		end := c.slotEnd(chunks[i].MinT, shift)
		return chunks[i].MaxT <= end && (i+1 == len(chunks) || chunks[i+1].MinT > end)
	}
	i := 0
	for i < len(chunks) && fits(i) {
		i++
	}
	if i == len(chunks) {
		return chunks
	}
	runs := a.runs.reset()
	for i := range chunks {
		runs.decode(&a.dec, &chunks[i])
	}
	a.sealed = a.sealed[:0]
	for _, r := range runs.list {
		a.cut(c, r, shift)
	}
	return a.sealed
}

// sealChain returns the chunks of what a cold run holds of s.
func (a *applier) sealChain(c *Container, s *Series, chain []uint32) ([]chunkenc.Chunk, []uint32) {
	a.late = ooo.Buffer{}
	chain = c.cold.copyTo(&a.late, s, c.lo, c.hi, chain)
	a.sealed = a.sealed[:0]
	for _, run := range a.merge(nil, &a.late) {
		shift := uint8(0)
		if n := run.Len(); n > 1 {
			shift = a.shiftFor(c, run.T[n-1]-run.T[0], n)
		}
		a.cut(c, run, shift)
	}
	return a.sealed, chain
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
