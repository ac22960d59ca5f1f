package head

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// A histStream holds the histograms of a part that are not sealed yet, all of one
// kind, in order of arrival, each as its difference to the one that arrived before:
//
//	flags <1b> | time | (bit 1) start timestamp | (bit 0) layout | zero count | count | sum | buckets
//	layout   schema | zero threshold <8b> | spans | spans | positive buckets | negative buckets
//	         | custom values: count | value <8b> ...
//	spans    count | (offset | length) ...
//	buckets  for each eight, positive then negative: which of them differ <1b> | difference ...
//
// flags: bit 0 says that the layout is not that before, and then all numbers are
// differences to 0; bit 1 that there is a start timestamp; bits 2 and 3 are the
// counter reset hint. Numbers are <uvarint>, signed ones zigzag. The difference of
// integers is one of 64 bits that wraps; that of floats is what their bits differ
// in, the bytes turned round, so that whole numbers take few.
//
// The bytes only ever grow: who has copied a histStream reads it without the lock.
type histStream struct {
	data     []byte
	first    int64 // timestamp of the first
	last     histState
	n        int32
	unsorted bool // some sample is not newer than all before it
}

const (
	histLayout = 1 << iota
	histStart
	histHintShift = iota
)

// histState is what a difference is taken to: the histogram before.
type histState struct {
	t                int64
	layout           histShape
	zero, count, sum uint64    // integers, or bits of floats
	ints             []int64   // buckets of an integer histogram, positive then negative
	floats           []float64 // buckets of a float histogram, likewise
}

// histShape is what usually stays the same from one histogram of a series to the next.
type histShape struct {
	schema             int32
	zeroThreshold      float64
	positive, negative []histogram.Span
	custom             []float64
	buckets            [2]int // positive, negative
}

func (s *sample) shape() histShape {
	if h := s.h; h != nil {
		return histShape{h.Schema, h.ZeroThreshold, h.PositiveSpans, h.NegativeSpans, h.CustomValues,
			[2]int{len(h.PositiveBuckets), len(h.NegativeBuckets)}}
	}
	h := s.fh
	return histShape{h.Schema, h.ZeroThreshold, h.PositiveSpans, h.NegativeSpans, h.CustomValues,
		[2]int{len(h.PositiveBuckets), len(h.NegativeBuckets)}}
}

func (a *histShape) equal(b *histShape) bool {
	return a.schema == b.schema && a.buckets == b.buckets && math.Float64bits(a.zeroThreshold) == math.Float64bits(b.zeroThreshold) &&
		slices.Equal(a.positive, b.positive) && slices.Equal(a.negative, b.negative) &&
		slices.EqualFunc(a.custom, b.custom, func(v, w float64) bool { return math.Float64bits(v) == math.Float64bits(w) })
}

// own returns a with memory of its own.
func (a histShape) own() histShape {
	a.positive, a.negative, a.custom = slices.Clone(a.positive), slices.Clone(a.negative), slices.Clone(a.custom)
	return a
}

// change makes l the layout of what follows; numbers begin at 0.
func (s *histState) change(l histShape, k chunkenc.Kind) {
	*s = histState{t: s.t, layout: l, ints: s.ints[:0], floats: s.floats[:0]}
	n := l.buckets[0] + l.buckets[1]
	if k == chunkenc.KindHistogram {
		s.ints = append(s.ints, make([]int64, n)...)
	} else {
		s.floats = append(s.floats, make([]float64, n)...)
	}
}

// push appends a histogram, of which nothing is kept. newest is the newest
// timestamp of the stream; it says nothing of one that is empty.
func (s *histStream) push(newest int64, x *sample) {
	last, dst := &s.last, s.data
	flags, shape := byte(0), x.shape()
	if s.n == 0 || !shape.equal(&last.layout) {
		flags |= histLayout
		last.change(shape.own(), x.kind())
	}
	if x.st != 0 {
		flags |= histStart
	}
	if x.h != nil {
		flags |= byte(x.h.CounterResetHint) << histHintShift
	} else {
		flags |= byte(x.fh.CounterResetHint) << histHintShift
	}
	dst = binary.AppendUvarint(append(dst, flags), zigzag(x.t-last.t))
	if x.st != 0 {
		dst = binary.AppendUvarint(dst, zigzag(x.t-x.st))
	}
	if flags&histLayout != 0 {
		dst = appendShape(dst, &shape)
	}
	s.data = last.append(dst, x)
	if s.n == 0 {
		s.first = x.t
	} else if x.t <= newest {
		s.unsorted = true
	}
	last.t = x.t
	s.n++
}

// append appends the numbers of x, whose layout is that of s, and makes them those of s.
func (s *histState) append(dst []byte, x *sample) []byte {
	if h := x.h; h != nil {
		dst = binary.AppendUvarint(dst, zigzag(int64(h.ZeroCount-s.zero)))
		dst = binary.AppendUvarint(dst, zigzag(int64(h.Count-s.count)))
		dst = binary.AppendUvarint(dst, floatStep(math.Float64bits(h.Sum), s.sum))
		s.zero, s.count, s.sum = h.ZeroCount, h.Count, math.Float64bits(h.Sum)
		n := len(h.PositiveBuckets)
		return appendInts(appendInts(dst, h.PositiveBuckets, s.ints[:n]), h.NegativeBuckets, s.ints[n:])
	}
	h := x.fh
	zero, count, sum := math.Float64bits(h.ZeroCount), math.Float64bits(h.Count), math.Float64bits(h.Sum)
	dst = binary.AppendUvarint(dst, floatStep(zero, s.zero))
	dst = binary.AppendUvarint(dst, floatStep(count, s.count))
	dst = binary.AppendUvarint(dst, floatStep(sum, s.sum))
	s.zero, s.count, s.sum = zero, count, sum
	n := len(h.PositiveBuckets)
	return appendFloats(appendFloats(dst, h.PositiveBuckets, s.floats[:n]), h.NegativeBuckets, s.floats[n:])
}

// floatStep is its own inverse, but for the order of the bytes.
func floatStep(value, last uint64) uint64 { return bits.ReverseBytes64(value ^ last) }

// appendInts appends the differences of vs to last, and copies vs there.
func appendInts(dst []byte, vs, last []int64) []byte {
	for len(vs) > 0 {
		n := min(8, len(vs))
		at, mask := len(dst), byte(0)
		dst = append(dst, 0)
		for i, v := range vs[:n] {
			if u := zigzag(v - last[i]); u != 0 {
				mask |= 1 << i
				dst = binary.AppendUvarint(dst, u)
				last[i] = v
			}
		}
		dst[at] = mask
		vs, last = vs[n:], last[n:]
	}
	return dst
}

// appendFloats appends the differences of vs to last, and copies vs there.
func appendFloats(dst []byte, vs, last []float64) []byte {
	for len(vs) > 0 {
		n := min(8, len(vs))
		at, mask := len(dst), byte(0)
		dst = append(dst, 0)
		for i, v := range vs[:n] {
			if u := floatStep(math.Float64bits(v), math.Float64bits(last[i])); u != 0 {
				mask |= 1 << i
				dst = binary.AppendUvarint(dst, u)
				last[i] = v
			}
		}
		dst[at] = mask
		vs, last = vs[n:], last[n:]
	}
	return dst
}

func appendShape(dst []byte, l *histShape) []byte {
	dst = binary.AppendUvarint(dst, zigzag(int64(l.schema)))
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(l.zeroThreshold))
	for _, spans := range [2][]histogram.Span{l.positive, l.negative} {
		dst = binary.AppendUvarint(dst, uint64(len(spans)))
		for _, s := range spans {
			dst = binary.AppendUvarint(dst, zigzag(int64(s.Offset)))
			dst = binary.AppendUvarint(dst, uint64(s.Length))
		}
	}
	dst = binary.AppendUvarint(dst, uint64(l.buckets[0]))
	dst = binary.AppendUvarint(dst, uint64(l.buckets[1]))
	dst = binary.AppendUvarint(dst, uint64(len(l.custom)))
	for _, v := range l.custom {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

// appendTo parts a stream of kind k: what came newer than all before it goes to
// the run that runs has for it, the rest, as far as it lies in [lo, hi], to late.
func (s *histStream) appendTo(runs *runList, late *ooo.Buffer, k chunkenc.Kind, lo, hi int64) {
	if s.n == 0 {
		return
	}
	r := histReader{rest: s.data, kind: k, left: int(s.n)}
	run, newest := runs.next(k), int64(math.MinInt64)
	for i := range int(s.n) {
		x := r.next()
		switch {
		case i == 0 || x.t > newest:
			newest = x.t
			appendSample(run, &x)
		case lo <= x.t && x.t <= hi:
			x.addTo(late)
		}
	}
}

// histReader reads the histograms of a stream in order of arrival. They share
// memory: keeping one keeps many.
type histReader struct {
	rest  []byte
	kind  chunkenc.Kind
	left  int // how many there are still
	state histState

	// Memory for histograms to come.
	hists      []histogram.Histogram
	floatHists []histogram.FloatHistogram
	ints       []int64
	floats     []float64
}

func (r *histReader) next() sample {
	flags := r.byte()
	r.state.t += r.varint()
	x := sample{t: r.state.t}
	if flags&histStart != 0 {
		x.st = x.t - r.varint()
	}
	if flags&histLayout != 0 {
		r.state.ints, r.state.floats = nil, nil // they are a histogram's
		r.state.change(r.shape(), r.kind)
	}
	hint := histogram.CounterResetHint(flags >> histHintShift)
	if r.kind == chunkenc.KindHistogram {
		x.h = r.histogram(hint)
	} else {
		x.fh = r.floatHistogram(hint)
	}
	r.left--
	return x
}

func (r *histReader) histogram(hint histogram.CounterResetHint) *histogram.Histogram {
	s := &r.state
	s.zero += uint64(r.varint())
	s.count += uint64(r.varint())
	s.sum ^= bits.ReverseBytes64(r.uvarint())
	vs := portion(&r.ints, len(s.ints), r.left, len(r.rest))
	n := s.layout.buckets[0]
	r.intsOf(vs[:n], s.ints[:n])
	r.intsOf(vs[n:], s.ints[n:])
	s.ints = vs
	h := &portion(&r.hists, 1, r.left, len(r.rest))[0]
	*h = histogram.Histogram{
		CounterResetHint: hint, Schema: s.layout.schema, ZeroThreshold: s.layout.zeroThreshold,
		ZeroCount: s.zero, Count: s.count, Sum: math.Float64frombits(s.sum),
		PositiveSpans: s.layout.positive, NegativeSpans: s.layout.negative, CustomValues: s.layout.custom,
		PositiveBuckets: someOf(vs[:n:n]), NegativeBuckets: someOf(vs[n:]),
	}
	return h
}

func (r *histReader) floatHistogram(hint histogram.CounterResetHint) *histogram.FloatHistogram {
	s := &r.state
	s.zero ^= bits.ReverseBytes64(r.uvarint())
	s.count ^= bits.ReverseBytes64(r.uvarint())
	s.sum ^= bits.ReverseBytes64(r.uvarint())
	vs := portion(&r.floats, len(s.floats), r.left, len(r.rest))
	n := s.layout.buckets[0]
	r.floatsOf(vs[:n], s.floats[:n])
	r.floatsOf(vs[n:], s.floats[n:])
	s.floats = vs
	h := &portion(&r.floatHists, 1, r.left, len(r.rest))[0]
	*h = histogram.FloatHistogram{
		CounterResetHint: hint, Schema: s.layout.schema, ZeroThreshold: s.layout.zeroThreshold,
		ZeroCount: math.Float64frombits(s.zero), Count: math.Float64frombits(s.count), Sum: math.Float64frombits(s.sum),
		PositiveSpans: s.layout.positive, NegativeSpans: s.layout.negative, CustomValues: s.layout.custom,
		PositiveBuckets: someOf(vs[:n:n]), NegativeBuckets: someOf(vs[n:]),
	}
	return h
}

// someOf is s, or nil when it is empty.
func someOf[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// portion cuts n elements off mem, which it first makes large enough for as many
// portions as are left, and for no more than what bytes can tell of, eight each.
func portion[T any](mem *[]T, n, left, bytes int) []T {
	if len(*mem) < n {
		*mem = make([]T, max(n, min(n*left, 8*bytes)))
	}
	out := (*mem)[:n:n]
	*mem = (*mem)[n:]
	return out
}

// intsOf fills vs with the buckets that follow those of last.
func (r *histReader) intsOf(vs, last []int64) {
	copy(vs, last)
	for ; len(vs) > 0; vs = vs[min(8, len(vs)):] {
		for mask := r.byte(); mask != 0; mask &= mask - 1 {
			vs[bits.TrailingZeros8(mask)] += r.varint()
		}
	}
}

// floatsOf fills vs with the buckets that follow those of last.
func (r *histReader) floatsOf(vs, last []float64) {
	copy(vs, last)
	for ; len(vs) > 0; vs = vs[min(8, len(vs)):] {
		for mask := r.byte(); mask != 0; mask &= mask - 1 {
			v := &vs[bits.TrailingZeros8(mask)]
			*v = math.Float64frombits(math.Float64bits(*v) ^ bits.ReverseBytes64(r.uvarint()))
		}
	}
}

func (r *histReader) shape() histShape {
	l := histShape{schema: int32(r.varint()), zeroThreshold: r.float()}
	l.positive, l.negative = r.spans(), r.spans()
	l.buckets = [2]int{int(r.uvarint()), int(r.uvarint())}
	if n := int(r.uvarint()); n > 0 {
		l.custom = make([]float64, n)
		for i := range l.custom {
			l.custom[i] = r.float()
		}
	}
	return l
}

func (r *histReader) spans() []histogram.Span {
	n := int(r.uvarint())
	if n == 0 {
		return nil
	}
	spans := make([]histogram.Span, n)
	for i := range spans {
		spans[i] = histogram.Span{Offset: int32(r.varint()), Length: uint32(r.uvarint())}
	}
	return spans
}

func (r *histReader) byte() byte {
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *histReader) float() float64 {
	v := math.Float64frombits(binary.LittleEndian.Uint64(r.rest))
	r.rest = r.rest[8:]
	return v
}

func (r *histReader) varint() int64 { return unzigzag(r.uvarint()) }

func (r *histReader) uvarint() uint64 {
	if c := r.rest[0]; c < 0x80 {
		r.rest = r.rest[1:]
		return uint64(c)
	}
	v, n := binary.Uvarint(r.rest)
	r.rest = r.rest[n:]
	return v
}
