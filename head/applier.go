package head

import (
	"math"
	"slices"
	"sort"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// applier puts samples into parts. It is the committer's (and replay's) and
// holds the scratch memory of sealing and merging. All its methods need
// Head.mu held for writing.
type applier struct {
	enc    chunkenc.Encoder
	dec    chunkenc.Decoder
	merger ooo.Merger
	late   ooo.Buffer // scratch: what a merge takes out of a part
	probe  ooo.Buffer // scratch: what of it belongs to one chunk
	runs   runList
	sealed []chunkenc.Chunk // scratch
	piece  chunkenc.Samples // scratch: what is sealed
	target int              // samples that a full slot holds at most
	stats  applyStats
}

// applyStats count since the last time they were taken.
type applyStats struct {
	duplicates, overwritten int
	chunks                  int // sealed less replaced
	tailSealed, merges      int
}

const (
	// hardFactor times the target is where a chunk is cut although its slot goes on.
	hardFactor = 4
	// slack lets a slot hold a little more than the target, so that jitter
	// around a round interval does not halve the slots: 15 s in 2 h is 240 in a half.
	slack = 16
	// maxLate bounds the late buffer of a part (64 KiB, reached only where the late
	// ones fall among four times as many), minLate is where it may first be merged.
	minLate, maxLate = 16, 4096
	// maxHistTail is how many histograms a tail holds.
	maxHistTail = 16
	// maxShift bounds how fine a range is cut: slots of a millisecond or less.
	maxShift = 40
)

func newApplier(o Options) *applier {
	return &applier{enc: chunkenc.Encoder{Float: o.Encoding}, target: o.ChunkSamples}
}

// add puts a sample into p, which is a part of c.
func (a *applier) add(c *Container, p *part, s *sample) {
	k := s.kind()
	if !p.empty() && s.t <= p.maxT {
		a.addLate(c, p, s)
		return
	}
	if n := p.tailLen(); n > 0 {
		switch {
		case s.t > p.slotEnd:
			a.closeSlot(c, p)
		case k != p.kind || n >= tailSamples || (n >= maxHistTail && k != chunkenc.KindFloat):
			a.sealTail(c, p)
		}
	}
	if p.tailLen() == 0 {
		if int(p.open) < len(p.chunks) && s.t > p.slotEnd {
			a.closeSlot(c, p)
		}
		p.kind = k
		p.slotEnd = c.slotEnd(s.t, p.shift)
	}
	p.push(s)
}

// addLate puts a sample into p that is not newer than all of it.
func (a *applier) addLate(c *Container, p *part, s *sample) {
	if s.kind() == chunkenc.KindFloat {
		switch p.place(s) {
		case placed:
			return
		case duplicate:
			a.stats.duplicates++
			return
		case overwritten:
			a.stats.overwritten++
			return
		}
	}
	late := &p.extended().late
	s.addTo(late)
	n := late.Len()
	if n < minLate || n%minLate != 0 || n < maxLate && n < a.touched(p)/4 {
		return
	}
	if _, latest := late.Bounds(); n >= maxLate && p.tailLen() > 0 && latest >= p.tailFirst() {
		a.sealTail(c, p) // which takes those of its time along
	}
	if late.Len() > 0 {
		a.mergeLate(c, p)
	}
}

// touched returns how many sealed samples a merge of the late ones would decode.
func (a *applier) touched(p *part) int {
	lo, hi := p.ext.late.Bounds()
	n := 0
	for i := len(p.chunks) - 1; i >= 0 && p.chunks[i].MaxT >= lo; i-- {
		if p.chunks[i].MinT <= hi {
			n += int(p.chunks[i].N)
		}
	}
	return n
}

// sealTail turns the tail and the late samples of its time into a chunk of the open slot.
func (a *applier) sealTail(c *Container, p *part) {
	a.stats.tailSealed++
	a.fitShift(c, p)
	if p.kind == chunkenc.KindFloat && int(p.open) == len(p.chunks) && len(p.chunks) == cap(p.chunks) {
		// Room for a slot's small chunks at once.
		grown := make([]chunkenc.Chunk, len(p.chunks), len(p.chunks)+4)
		copy(grown, p.chunks)
		p.chunks = grown
	}
	first := p.tailFirst()
	a.sealed = a.sealed[:0]
	a.seal(c, p, a.tailRun(p), first)
	p.chunks = append(p.chunks, a.sealed...)
	a.stats.chunks += len(a.sealed)
	p.clearTail()
	p.slotEnd = c.slotEnd(p.maxT, p.shift)
	if start := int(p.open); p.chunks[start].MinT < c.slotStart(p.maxT, p.shift) || a.openSamples(p) >= hardFactor*a.target {
		a.closeSlot(c, p)
	}
}

func (a *applier) openSamples(p *part) int {
	n := 0
	for _, ch := range p.chunks[p.open:] {
		n += int(ch.N)
	}
	return n
}

// closeSlot joins what the open slot holds, and opens the next one.
func (a *applier) closeSlot(c *Container, p *part) {
	a.join(c, p)
	a.relaxShift(c, p)
	p.clearTail()
	p.open = int32(len(p.chunks))
}

// join makes one chunk of the small chunks of the open slot, the tail and the
// late samples of their time. The tail stays as it is.
func (a *applier) join(c *Container, p *part) {
	runs := a.runs.reset()
	for i := int(p.open); i < len(p.chunks); i++ {
		runs.decode(&a.dec, &p.chunks[i])
	}
	if p.tailLen() > 0 {
		p.appendTail(runs.next(p.kind))
	}
	first := runs.list[0].T[0]
	replaced := len(p.chunks) - int(p.open)
	a.sealed = a.sealed[:0]
	a.seal(c, p, runs.list, first)
	p.chunks = append(p.chunks[:p.open:p.open], a.sealed...)
	a.stats.chunks += len(a.sealed) - replaced
}

// tailRun returns the tail as a run.
func (a *applier) tailRun(p *part) []*chunkenc.Samples {
	runs := a.runs.reset()
	p.appendTail(runs.next(p.kind))
	return runs.list
}

// seal appends to a.sealed the chunks of runs and of the late samples of their
// time, which are taken out of p.
func (a *applier) seal(c *Container, p *part, runs []*chunkenc.Samples, first int64) {
	if p.lateLen() > 0 {
		a.probe.Reset()
		p.ext.late.Take(&a.probe, first, p.maxT)
		if a.probe.Len() > 0 {
			runs = a.merge(runs, &a.probe)
		}
	}
	for _, r := range runs {
		a.cut(c, r, p.shift)
	}
}

func (a *applier) merge(runs []*chunkenc.Samples, late *ooo.Buffer) []*chunkenc.Samples {
	out, stats := a.merger.Merge(runs, late)
	a.stats.merges++
	a.stats.duplicates += stats.Duplicates
	a.stats.overwritten += stats.Overwritten
	return out
}

// cut seals a run, cut at the ends of slots, and in halves where a slot holds too much.
func (a *applier) cut(c *Container, s *chunkenc.Samples, shift uint8) {
	hard := hardFactor * a.target
	for i, n := 0, s.Len(); i < n; {
		end := c.slotEnd(s.T[i], shift)
		j := n
		if s.T[n-1] > end {
			j = i + sort.Search(n-i, func(k int) bool { return s.T[i+k] > end })
		}
		if piece := s.Slice(i, j); j-i > hard && shift < maxShift {
			a.cut(c, &piece, shift+1)
		} else {
			a.piece = piece
			a.sealed = a.enc.Seal(a.sealed, &a.piece)
		}
		i = j
	}
}

// fitShift makes the slots finer when the tail's interval would overfill them.
func (a *applier) fitShift(c *Container, p *part) {
	if n := p.tailLen(); n > 1 {
		p.shift = max(p.shift, a.shiftFor(c, p.maxT-p.tailFirst(), n))
	}
}

// relaxShift makes the slots coarser when even then the tail's interval fills them no more than it should.
func (a *applier) relaxShift(c *Container, p *part) {
	if n := p.tailLen(); n >= tailSamples/4 && p.shift > a.shiftFor(c, p.maxT-p.tailFirst(), n) {
		p.shift--
	}
}

// shiftFor returns the coarsest cut into slots in which n samples over span
// milliseconds, were they to go on, fill a slot with about the target at most.
func (a *applier) shiftFor(c *Container, span int64, n int) (shift uint8) {
	most := max(1, int64(a.target+a.target/slack))
	for shift < maxShift && slotLen(c.hi-c.lo+1, shift)/most > span/int64(n-1) {
		shift++
	}
	return shift
}

// mergeLate merges the late samples that are older than the tail into the
// chunks that they fall into or next to; one that has no chunk in its slot
// starts a new one. Each touched chunk is decoded and sealed once.
func (a *applier) mergeLate(c *Container, p *part) {
	hi := p.maxT
	if p.tailLen() > 0 {
		if hi = p.tailFirst(); hi == math.MinInt64 {
			return // nothing is older
		}
		hi--
	}
	late := &a.late
	late.Reset()
	p.ext.late.Take(late, math.MinInt64, hi)
	if late.Len() == 0 {
		return
	}
	if p.lateLen() == 0 {
		p.ext.late = ooo.Buffer{} // give its memory back: the next late sample may be long in coming
	}
	a.merger.Sort(late)
	a.sealed = a.sealed[:0]
	open, from := 0, int64(math.MinInt64) // from is where the chunk before ends
	for i := range p.chunks {
		ch := &p.chunks[i]
		start, end := max(from, c.slotStart(ch.MinT, p.shift)), c.slotEnd(ch.MaxT, p.shift)
		if i+1 < len(p.chunks) {
			end = min(end, p.chunks[i+1].MinT-1)
		}
		if from < start {
			a.mergeInto(c, p, late, nil, from, start-1)
		}
		if i == int(p.open) {
			open = len(a.sealed)
		}
		a.mergeInto(c, p, late, ch, start, end)
		if from = end; from < math.MaxInt64 {
			from++
		}
	}
	if int(p.open) == len(p.chunks) {
		open = len(a.sealed)
	}
	a.mergeInto(c, p, late, nil, from, hi)
	a.stats.chunks += len(a.sealed) - len(p.chunks)
	p.chunks = slices.Clone(a.sealed)
	p.open = int32(open)
}

// mergeInto seals what ch (or no chunk) and the late samples in [lo, hi] are together.
func (a *applier) mergeInto(c *Container, p *part, late *ooo.Buffer, ch *chunkenc.Chunk, lo, hi int64) {
	a.probe.Reset()
	if lo <= hi {
		late.Take(&a.probe, lo, hi)
	}
	if a.probe.Len() == 0 {
		if ch != nil {
			a.sealed = append(a.sealed, *ch)
		}
		return
	}
	runs := a.runs.reset()
	if ch != nil {
		runs.decode(&a.dec, ch)
	}
	for _, r := range a.merge(runs.list, &a.probe) {
		a.cut(c, r, p.shift)
	}
}
