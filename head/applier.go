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
// Head.mu held for writing; a finisher has one of its own, which leaves the parts
// of frozen containers as they are and needs no lock.
type applier struct {
	enc    chunkenc.Encoder
	dec    chunkenc.Decoder
	stream streamReader
	merger ooo.Merger
	late   ooo.Buffer // scratch: what a merge takes out of a part
	probe  ooo.Buffer // scratch: what of it belongs to one chunk, or comes after it
	runs   runList
	sealed []chunkenc.Chunk // scratch
	piece  chunkenc.Samples // scratch: what is sealed
	target int              // samples that a full slot holds at most
	stats  applyStats
	cold   coldReader
	chunk  []byte // scratch: one of a cold run
	sum    uint64 // of ahead, says nothing
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
	// maxHistBytes bounds the bytes of histograms that a tail holds, which large ones
	// reach before it is full of samples.
	maxHistBytes = 64 << 10
	// firstFit is how many samples of a stream tell its interval; twice as many tell it better.
	firstFit = 32
	// closeSpread is the part of a slot over which the series close it, each at its own
	// place there: closing costs thirty times what adding a sample does, and all that
	// send at one interval leave a slot in the same moment.
	closeSpread = 16
	// maxShift bounds how fine a range is cut: slots of a millisecond or less.
	maxShift = 40
)

func newApplier(o Options) *applier {
	return &applier{enc: chunkenc.Encoder{Float: o.Encoding}, target: o.ChunkSamples}
}

// aheadOf is how many samples ahead of placing them ahead looks.
const aheadOf = 32

// ahead loads what placing samples of at most aheadOf series touches first, their
// parts and the ends of their streams. None of it depends on another, so the
// misses of the cache overlap: series that come in no order cost little more
// than those that lie in memory as they come.
func (a *applier) ahead(list []*Series) {
	var parts [aheadOf]*part
	n, sum := 0, uint64(0)
	for _, s := range list {
		if p := s.live; p != nil {
			parts[n%aheadOf] = p
			n++
			sum += uint64(p.slotEnd) + uint64(p.floats.current)
		}
	}
	for _, p := range parts[:n] {
		if at := p.floats.current; at != 0 {
			sum += uint64(p.box.arena.at(at)[0])
		}
	}
	a.sum += sum // what is not used is not loaded
}

// coldAhead is ahead for samples whose ranges are long over: of those, which come
// in any order of time, too, it loads the ends of their streams, and puts their
// containers into boxes, as far as there are any.
func (a *applier) coldAhead(boxes *[aheadOf]*Container, list *containerList, series []*Series, times []int64) {
	var found [aheadOf]*coldSeries
	for i, t := range times {
		box, _ := list.find(t)
		boxes[i%aheadOf] = box
		if box != nil && box.cold != nil {
			found[i%aheadOf] = box.cold.series.of(series[i])
		}
	}
	sum := uint64(0)
	for i, c := range found {
		if c != nil && c.floats.current != 0 {
			sum += uint64(boxes[i].cold.arena.at(c.floats.current)[0])
		}
	}
	a.sum += sum
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
		case s.t > p.slotEnd && s.t > p.closesAt(c):
			a.leaveSlot(c, p, s.t)
		case k != p.kind || a.full(p):
			a.sealTail(c, p)
		case tellsInterval(n):
			a.fitTail(c, p)
		}
		if p.tailLen() > 0 && k != p.kind { // what leaveSlot leaves for the next slot
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

// onlyPushed says whether a float that p takes is only to be added to its tail.
func (a *applier) onlyPushed(p *part) bool {
	return !a.full(p) && !tellsInterval(p.tailLen())
}

// tellsInterval says whether a tail of n samples is looked at for its interval.
func tellsInterval(n int) bool { return n >= firstFit && n&(n-1) == 0 }

// full says whether the tail of p holds as much as one may.
func (a *applier) full(p *part) bool {
	return p.tailLen() >= hardFactor*a.target || p.kind != chunkenc.KindFloat && len(p.ext.hists.data) >= maxHistBytes
}

// closesAt returns the last timestamp that does not close the tail's slot.
func (p *part) closesAt(c *Container) int64 {
	slot := slotLen(c.hi-c.lo+1, p.shift)
	grace := slot / closeSpread / (math.MaxUint8 + 1) * int64(p.place)
	if !p.sorted() {
		grace += slot / 2
	}
	if grace > c.hi-p.slotEnd {
		return c.hi
	}
	return p.slotEnd + grace
}

// addLate puts a sample into p that is not newer than all of it.
func (a *applier) addLate(c *Container, p *part, s *sample) {
	if p.takesLate(s) {
		switch {
		case p.repeats(s):
			a.stats.duplicates++
			return
		case !a.full(p):
			p.push(s)
			return
		}
		a.sealTail(c, p) // up to maxT: s is late now
	}
	late := &p.extended().late
	s.addTo(late)
	n := late.Len()
	if n < minLate || n%minLate != 0 || n < maxLate && n < a.touched(p)/4 {
		return
	}
	if _, latest := late.Bounds(); n >= maxLate && p.tailLen() > 0 && latest >= p.from(len(p.chunks)) {
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

// sealTail turns the tail and the late samples of its time into chunks of the open slot.
func (a *applier) sealTail(c *Container, p *part) {
	a.stats.tailSealed++
	start := len(p.chunks)
	runs := a.runsOf(p, start, (*ooo.Buffer).Take)
	if last := runs[len(runs)-1]; last.Len() > 1 {
		p.shift = max(p.shift, a.shiftFor(c, p.maxT-last.T[0], last.Len()))
	}
	a.sealed = a.sealed[:0]
	for _, r := range runs {
		a.cut(c, r, p.shift)
	}
	p.chunks = append(p.chunks, a.sealed...)
	a.stats.chunks += len(a.sealed)
	p.clearTail()
	p.slotEnd = c.slotEnd(p.maxT, p.shift)
	if p.chunks[p.open].MinT < c.slotStart(p.maxT, p.shift) || a.openSamples(p) >= hardFactor*a.target {
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

// leaveSlot closes the open slot of p, which time has left for t. One that holds less
// than half the target is left for the next to close: only the first of a series, of
// which it may have seen any part, holds so little, and closing costs as much as
// adding dozens of samples (closeSpread).
func (a *applier) leaveSlot(c *Container, p *part, t int64) {
	if int(p.open) == len(p.chunks) && p.tailLen() < a.target/2 {
		p.slotEnd = c.slotEnd(t, p.shift)
		return
	}
	a.closeSlot(c, p)
}

// closeSlot joins what the open slot holds into one chunk, and opens the next
// one: what of the tail is in it already stays there.
func (a *applier) closeSlot(c *Container, p *part) {
	runs := a.runsOf(p, int(p.open), (*ooo.Buffer).Take)
	last, rest := *runs[len(runs)-1], chunkenc.Samples{}
	if n := last.Len(); last.T[n-1] > p.slotEnd && p.kind == last.Kind {
		i := sort.Search(n, func(i int) bool { return last.T[i] > p.slotEnd })
		last, rest = last.Slice(0, i), last.Slice(i, n)
	}
	replaced := len(p.chunks) - int(p.open)
	a.sealed = a.sealed[:0]
	for _, r := range runs[:len(runs)-1] {
		a.cut(c, r, p.shift)
	}
	a.cut(c, &last, p.shift)
	p.chunks = append(p.chunks[:p.open:p.open], a.sealed...)
	a.stats.chunks += len(a.sealed) - replaced
	if n := last.Len(); n >= tailTells && p.shift > a.shiftFor(c, last.T[n-1]-last.T[0], n) {
		p.shift--
	}
	p.clearTail()
	p.open = int32(len(p.chunks))
	if rest.Len() > 0 {
		p.slotEnd = c.slotEnd(rest.T[0], p.shift)
	}
	for i := range rest.T {
		x := sampleOf(&rest, i)
		p.push(&x)
	}
}

// runsOf returns as runs what chunks[i:], the tail and the late samples of their
// time hold: take is what is done to these, which Take takes out of p and
// CopyRange leaves there, as the rest is.
func (a *applier) runsOf(p *part, i int, take func(from, dst *ooo.Buffer, lo, hi int64)) []*chunkenc.Samples {
	runs := a.runs.reset()
	lo := p.from(i)
	for ; i < len(p.chunks); i++ {
		runs.decode(&a.dec, &p.chunks[i])
	}
	a.probe.Reset()
	p.tail(runs, &a.probe, &a.stream, math.MinInt64, math.MaxInt64)
	if p.lateLen() > 0 {
		take(&p.ext.late, &a.probe, lo, p.maxT)
	}
	return a.merge(runs.list, &a.probe)
}

// merge returns runs with the late samples merged in, if there are any.
func (a *applier) merge(runs []*chunkenc.Samples, late *ooo.Buffer) []*chunkenc.Samples {
	if late.Len() == 0 {
		return runs
	}
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

// tailTells is how many samples tell an interval that slots may be made coarser for.
const tailTells = 8

// fitTail makes the slots finer when the stream's interval would overfill
// them, and closes the one that is over then.
func (a *applier) fitTail(c *Container, p *part) {
	if !p.sorted() {
		return // how many of it are of which time is not known yet
	}
	first := p.tailStart()
	shift := a.shiftFor(c, p.maxT-first, p.tailLen())
	if shift <= p.shift {
		return
	}
	p.shift = shift
	if p.slotEnd = c.slotEnd(first, shift); p.maxT > p.slotEnd {
		a.leaveSlot(c, p, p.maxT)
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
		to, ok := p.sealedTo()
		if !ok {
			return // nothing is older
		}
		hi = to
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
