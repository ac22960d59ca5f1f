package head

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// A part holds the samples of one series in one container:
//
//		chunks            sealed, ascending, disjoint; those from open on are of the
//		                  open slot
//		floats or hists   newer than every chunk: the tail, a stream of one kind in
//		                  order of arrival
//		late              samples that found no place there, in order of arrival
//
//	 1. A sample newer than all goes to the tail. When time has left the slot, by a
//	    little that differs from series to series, the tail, the late samples of its
//	    time and what the open slot holds become one chunk. A tail that is full before
//	    that is sealed and counts to the open slot; one that is short, as that of a
//	    series that began late in the slot, is left for the next to close.
//	 2. A sample that is not newer than all, but newer than the chunks and of the
//	    tail's kind, goes to the stream all the same: it is merged when the tail is
//	    sealed or read. A slot with such samples stays open for half its length more,
//	    for those that are still to come.
//	 3. Everything else waits in late, until there is enough of it to pay for
//	    decoding and sealing again the chunks that it falls into.
//
// Chunks are never changed in place, so that a reader that has copied the
// slice header under Head.mu may go on without the lock.
type part struct {
	// What every sample touches stands together: two cache lines at most.
	box     *Container
	floats  stream
	maxT    int64 // the newest timestamp; valid when not empty
	slotEnd int64 // last millisecond of the tail's slot
	open    int32 // the first of chunks that belongs to the open slot
	shift   uint8 // the range is cut into 2^shift slots
	kind    chunkenc.Kind
	place   uint8    // of the series among those that close a slot one after the other
	ext     *partExt // nil while there are only floats without start timestamps, none older than the chunks

	chunks []chunkenc.Chunk
	older  *part // the series' part of the open near container before
	series *Series
}

// sample is one sample on its way into a part: a float, or a histogram when h or fh is set.
type sample struct {
	t, st int64
	v     float64
	h     *histogram.Histogram
	fh    *histogram.FloatHistogram
}

func (s *sample) kind() chunkenc.Kind {
	switch {
	case s.h != nil:
		return chunkenc.KindHistogram
	case s.fh != nil:
		return chunkenc.KindFloatHistogram
	}
	return chunkenc.KindFloat
}

// sampleOf returns sample i of a run.
func sampleOf(run *chunkenc.Samples, i int) sample {
	x := sample{t: run.T[i]}
	if len(run.ST) > 0 {
		x.st = run.ST[i]
	}
	switch run.Kind {
	case chunkenc.KindFloat:
		x.v = run.V[i]
	case chunkenc.KindHistogram:
		x.h = run.H[i]
	default:
		x.fh = run.FH[i]
	}
	return x
}

// addTo adds the sample to a late buffer.
func (s *sample) addTo(b *ooo.Buffer) {
	if s.kind() == chunkenc.KindFloat {
		b.Float(s.t, s.st, s.v)
		return
	}
	b.Histogram(s.t, s.st, s.h, s.fh)
}

// partExt is what most parts do not need.
type partExt struct {
	starts []int64    // start timestamps of the stream of floats, or none
	hists  histStream // the tail, when it is of histograms
	late   ooo.Buffer
}

func (p *part) extended() *partExt {
	if p.ext == nil {
		p.ext = &partExt{}
	}
	return p.ext
}

func (p *part) lateLen() int {
	if p.ext == nil {
		return 0
	}
	return p.ext.late.Len()
}

func (p *part) tailLen() int {
	if p.kind == chunkenc.KindFloat {
		return int(p.floats.n)
	}
	return int(p.ext.hists.n)
}

func (p *part) empty() bool { return p.tailLen() == 0 && len(p.chunks) == 0 }

// sealedTo returns where the chunks end: the tail is newer.
func (p *part) sealedTo() (t int64, ok bool) {
	if n := len(p.chunks); n > 0 {
		return p.chunks[n-1].MaxT, true
	}
	return 0, false
}

// bounds returns two timestamps that nothing in the part is outside of.
func (p *part) bounds() (lo, hi int64) {
	if len(p.chunks) == 0 {
		return p.box.lo, p.maxT
	}
	lo = p.chunks[0].MinT
	if p.lateLen() > 0 {
		first, _ := p.ext.late.Bounds()
		lo = min(lo, first)
	}
	return lo, p.maxT
}

// from returns the lowest timestamp that samples in chunks[i:] and the tail may have.
func (p *part) from(i int) int64 {
	if i > 0 {
		return p.chunks[i-1].MaxT + 1
	}
	return p.box.lo
}

// starts returns the start timestamps of the stream of floats, or none.
func (p *part) starts() []int64 {
	if p.ext == nil {
		return nil
	}
	return p.ext.starts
}

// start returns the start timestamp of sample i of the stream, or 0.
func (p *part) start(i int) int64 {
	if starts := p.starts(); len(starts) > 0 {
		return starts[i]
	}
	return 0
}

// push appends to the tail a sample of the tail's kind, newer than the chunks.
func (p *part) push(s *sample) {
	if p.kind != chunkenc.KindFloat {
		p.pushHistogram(s)
		return
	}
	if s.st != 0 && len(p.starts()) == 0 {
		p.extended().starts = append(p.ext.starts[:0], make([]int64, p.floats.n)...)
	}
	if p.ext != nil && (s.st != 0 || len(p.ext.starts) > 0) {
		p.ext.starts = append(p.ext.starts, s.st)
	}
	if p.floats.n == 0 {
		p.floats.push(p.box.arena, p.box.lo, s.t, s.v)
		p.maxT = s.t
		return
	}
	p.floats.push(p.box.arena, p.maxT, s.t, s.v)
	p.maxT = max(p.maxT, s.t)
}

func (p *part) pushHistogram(s *sample) {
	stream := &p.extended().hists
	stream.push(p.maxT, s)
	if stream.n == 1 {
		p.maxT = s.t
	}
	p.maxT = max(p.maxT, s.t)
}

// takes says whether a float of time t without a start timestamp, were it next,
// would be newer than all and go on in the slot of a tail of such floats.
func (p *part) takes(t int64) bool {
	return p.floats.n > 0 && t > p.maxT && t <= p.slotEnd && p.ext == nil && p.kind == chunkenc.KindFloat && !p.box.frozen
}

// takesLate says whether a sample that is not newer than all may go to the
// stream: behind the chunks, and no other that came before it waits in late there.
func (p *part) takesLate(s *sample) bool {
	if s.kind() != p.kind || p.tailLen() == 0 {
		return false
	}
	to, sealed := p.sealedTo()
	if sealed && s.t <= to {
		return false
	}
	if p.lateLen() > 0 {
		if _, latest := p.ext.late.Bounds(); !sealed || latest > to {
			return false
		}
	}
	return true
}

// repeats says whether a sample is a float, and the one that was pushed last.
func (p *part) repeats(s *sample) bool {
	return s.t == p.maxT && p.kind == chunkenc.KindFloat && p.floats.late == 0 &&
		math.Float64bits(s.v) == p.floats.last && s.st == p.start(int(p.floats.n)-1)
}

// sorted says whether the tail is in order of time, no timestamp twice.
func (p *part) sorted() bool {
	if p.kind == chunkenc.KindFloat {
		return p.floats.late == 0
	}
	return !p.ext.hists.unsorted
}

// tailStart returns the timestamp of the tail's sample that arrived first; there is one.
func (p *part) tailStart() int64 {
	if p.kind == chunkenc.KindFloat {
		return p.floats.firstTime(p.box.arena, p.box.lo)
	}
	return p.ext.hists.first
}

// tail puts the tail where it is to be merged from. Of a stream in order of time it
// is all a run; of another, histograms that came newer than all before them are, so
// that few have to be sorted, and the rest that lies in [lo, hi] goes to late, in
// order of arrival.
func (p *part) tail(runs *runList, late *ooo.Buffer, r *streamReader, lo, hi int64) {
	switch {
	case p.tailLen() == 0:
	case p.kind != chunkenc.KindFloat:
		p.ext.hists.appendTo(runs, late, p.kind, lo, hi)
	case p.sorted():
		run := runs.next(p.kind)
		n := len(run.T)
		r.run(run, &p.floats, p.box.arena, p.box.lo)
		appendStarts(run, n, p.starts())
	default:
		r.late(late, &p.floats, p.box.arena, p.box.lo, p.starts(), lo, hi)
	}
}

// appendSample appends a histogram to the columns of s, whose kind is its own.
func appendSample(s *chunkenc.Samples, x *sample) {
	s.T = append(s.T, x.t)
	if x.st != 0 || len(s.ST) > 0 {
		appendStarts(s, len(s.T)-1, []int64{x.st})
	}
	if s.Kind == chunkenc.KindHistogram {
		s.H = append(s.H, x.h)
	} else {
		s.FH = append(s.FH, x.fh)
	}
}

// appendStarts fits starts, which belong to the rows of s from n on, to the rule
// that the column of start timestamps is empty or as long as the others.
func appendStarts(s *chunkenc.Samples, n int, starts []int64) {
	if len(starts) == 0 && len(s.ST) == 0 {
		return
	}
	if len(s.ST) == 0 {
		s.ST = append(s.ST, make([]int64, n)...)
	}
	if len(starts) == 0 {
		starts = make([]int64, len(s.T)-n)
	}
	s.ST = append(s.ST, starts...)
}

// clearTail empties the tail.
func (p *part) clearTail() {
	p.box.arena.clear(&p.floats)
	if p.ext != nil {
		p.ext.starts = p.ext.starts[:0]
		p.ext.hists = histStream{}
	}
}
