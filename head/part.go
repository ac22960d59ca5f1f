package head

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// A part holds the samples of one series in one container:
//
//		chunks            sealed, ascending, disjoint; those from open on are of the
//		                  open slot and small
//		tail              newer than every chunk, raw, at most tailSamples, of one kind
//		late              samples that found their place in neither, in order of arrival
//
//	 1. A sample newer than all goes to the tail. A full tail is sealed into a
//	    small chunk; when time leaves the slot, the small chunks, the tail and
//	    the late samples of the slot are joined into one chunk.
//	 2. A float that is not newer, but not older than the tail's first, is put
//	    into its place in the tail.
//	 3. Everything else waits in late, until there is enough of it to pay for
//	    decoding and sealing again the chunks that it falls into.
//
// Chunks are never changed in place, so that a reader that has copied the
// slice header under Head.mu may go on without the lock.
type part struct {
	box     *Container
	chunks  []chunkenc.Chunk
	tail    []tailSample // when the tail is of floats
	ext     *partExt     // nil while there are only floats in order, without start timestamps
	maxT    int64        // the newest timestamp; valid when not empty
	slotEnd int64        // last millisecond of the tail's slot
	open    int32        // the first of chunks that belongs to the open slot
	shift   uint8        // the range is cut into 2^shift slots
	kind    chunkenc.Kind
}

// tailSamples is how many raw samples a tail holds: 16 bytes each, for every
// series, is what the memory of a head goes to.
const tailSamples = 32

type tailSample struct {
	t int64
	v float64
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

func (s *sample) sameFloat(o *sample) bool {
	return math.Float64bits(s.v) == math.Float64bits(o.v) && s.st == o.st
}

func (s *sample) staleFloat() bool { return value.IsStaleNaN(s.v) }

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
	starts []int64  // start timestamps of tail, or none
	hists  []sample // the tail, when it is of histograms
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
		return len(p.tail)
	}
	return len(p.ext.hists)
}

func (p *part) empty() bool { return len(p.chunks) == 0 && p.tailLen() == 0 }

// tailFirst returns the tail's first timestamp; the tail is not empty.
func (p *part) tailFirst() int64 {
	if p.kind == chunkenc.KindFloat {
		return p.tail[0].t
	}
	return p.ext.hists[0].t
}

// push appends to the tail a sample of the tail's kind that is newer than all.
func (p *part) push(s *sample) {
	p.maxT = s.t
	if p.kind != chunkenc.KindFloat {
		p.extended().hists = append(p.ext.hists, *s)
		return
	}
	if s.st != 0 && (p.ext == nil || len(p.ext.starts) == 0) {
		p.extended().starts = append(p.ext.starts[:0], make([]int64, len(p.tail))...)
	}
	if p.ext != nil && (s.st != 0 || len(p.ext.starts) > 0) {
		p.ext.starts = append(p.ext.starts, s.st)
	}
	p.tail = append(p.tail, tailSample{s.t, s.v})
}

// outcome says what became of a sample that was not newer than all.
type outcome uint8

const (
	notPlaced   outcome = iota // it belongs to late
	placed                     // it is in the tail
	duplicate                  // the same sample was in the tail
	overwritten                // it took the place of another of its timestamp, or is a stale marker and a number stays
)

// place puts a float into its place in the tail, if it is not older than the
// tail's first and no late sample of that time came before it.
func (p *part) place(s *sample) outcome {
	if p.kind != chunkenc.KindFloat || len(p.tail) == 0 || s.t < p.tail[0].t {
		return notPlaced
	}
	i, found := slices.BinarySearchFunc(p.tail, s.t, func(x tailSample, t int64) int {
		switch {
		case x.t < t:
			return -1
		case x.t > t:
			return 1
		}
		return 0
	})
	if p.lateLen() > 0 {
		if _, latest := p.ext.late.Bounds(); latest >= p.tail[0].t {
			return notPlaced
		}
	}
	starts := p.ext != nil && len(p.ext.starts) > 0
	if !found {
		if len(p.tail) >= tailSamples || (s.st != 0 && !starts) {
			return notPlaced
		}
		p.tail = slices.Insert(p.tail, i, tailSample{s.t, s.v})
		if starts {
			p.ext.starts = slices.Insert(p.ext.starts, i, s.st)
		}
		return placed
	}
	have := sample{t: s.t, v: p.tail[i].v}
	if starts {
		have.st = p.ext.starts[i]
	}
	switch {
	case have.sameFloat(s):
		return duplicate
	case s.staleFloat() && !have.staleFloat():
		return overwritten
	case s.st != 0 && !starts:
		return notPlaced
	}
	p.tail[i].v = s.v
	if starts {
		p.ext.starts[i] = s.st
	}
	return overwritten
}

// appendTail appends the tail to the columns of s, whose kind is the tail's.
func (p *part) appendTail(s *chunkenc.Samples) {
	n := len(s.T)
	if p.kind == chunkenc.KindFloat {
		for _, x := range p.tail {
			s.T = append(s.T, x.t)
			s.V = append(s.V, x.v)
		}
		if p.ext != nil {
			appendStarts(s, n, p.ext.starts)
		}
		return
	}
	for i := range p.ext.hists {
		x := &p.ext.hists[i]
		if x.st != 0 && len(s.ST) == 0 {
			s.ST = append(s.ST, make([]int64, len(s.T))...)
		}
		if len(s.ST) > 0 || x.st != 0 {
			s.ST = append(s.ST, x.st)
		}
		s.T = append(s.T, x.t)
		if p.kind == chunkenc.KindHistogram {
			s.H = append(s.H, x.h)
		} else {
			s.FH = append(s.FH, x.fh)
		}
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

// clearTail empties the tail and keeps its memory.
func (p *part) clearTail() {
	p.tail = p.tail[:0]
	if p.ext != nil {
		p.ext.starts = p.ext.starts[:0]
		clear(p.ext.hists)
		p.ext.hists = p.ext.hists[:0]
	}
}
