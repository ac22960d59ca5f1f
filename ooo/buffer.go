package ooo

import (
	"math"
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/chunkenc"
)

// Buffer holds late samples in order of arrival. A float sample without a start
// timestamp takes 16 bytes; start timestamps and histograms stand in columns
// beside it that exist only once one is needed.
//
// The zero value is an empty buffer; assigning it gives the memory back. The
// methods that change nothing (Len, Bounds, Count, CopyRange, Bytes) may run at
// the same time as each other, no others.
type Buffer struct {
	points   []point
	ext      *columns
	min, max int64 // of t; meaningless in an empty buffer
	unsorted bool  // some t is below the one before it
}

// point is one sample: its time and, unless a column says that it is a
// histogram, its float bits.
type point struct {
	t    int64
	bits uint64
}

// columns hold what most samples do not have. A column is either empty or as long as the points.
type columns struct {
	st    []int64
	h     []*histogram.Histogram
	fh    []*histogram.FloatHistogram
	bytes int // of the histograms in h and fh
}

// sample is one sample without its time.
type sample struct {
	st   int64
	bits uint64 // of a float; 0 beside a histogram
	h    *histogram.Histogram
	fh   *histogram.FloatHistogram
}

// firstCap is the capacity of a buffer after its first sample: below it, an
// allocation would cost more in overhead than in samples.
const firstCap = 4

// Float adds a float sample at t; st is its start timestamp, 0 when it has
// none. Both in Unix milliseconds.
func (b *Buffer) Float(t, st int64, v float64) {
	b.addPoint(t, math.Float64bits(v))
	if st != 0 || b.ext != nil {
		b.addColumns(sample{st: st})
	}
}

// Run adds the samples of a run, which are in order of time, no timestamp twice. The
// buffer keeps its histograms, which must not change any more.
func (b *Buffer) Run(run *chunkenc.Samples) {
	if run.Len() == 0 {
		return
	}
	if run.Kind == chunkenc.KindFloat && len(run.ST) == 0 && b.ext == nil {
		b.addFloats(run.T, run.V)
		return
	}
	for i, t := range run.T {
		b.add(t, sampleOf(run, i))
	}
}

// Histogram adds a histogram sample at t: exactly one of h and fh is set. The
// buffer keeps the object, which must not change any more.
func (b *Buffer) Histogram(t, st int64, h *histogram.Histogram, fh *histogram.FloatHistogram) {
	b.addPoint(t, 0)
	b.addColumns(sample{st: st, h: h, fh: fh})
}

// Len returns the number of samples held, duplicates included.
func (b *Buffer) Len() int { return len(b.points) }

// Bounds returns the lowest and highest timestamp held, in Unix milliseconds.
// An empty buffer has none: (MaxInt64, MinInt64).
func (b *Buffer) Bounds() (mint, maxt int64) {
	if len(b.points) == 0 {
		return math.MaxInt64, math.MinInt64
	}
	return b.min, b.max
}

// Count returns how many samples lie in [lo, hi]. Like CopyRange and Take it
// searches a buffer that is in order of time (see Merger.Sort) and goes through
// one that is not.
func (b *Buffer) Count(lo, hi int64) int {
	if i, j, ok := b.find(lo, hi); ok {
		return j - i
	}
	n := 0
	for i := range b.points {
		if t := b.points[i].t; lo <= t && t <= hi {
			n++
		}
	}
	return n
}

// CopyRange appends to dst, in the order that b has, the samples in [lo, hi].
// The histogram objects are shared.
func (b *Buffer) CopyRange(dst *Buffer, lo, hi int64) {
	if i, j, ok := b.find(lo, hi); ok {
		dst.append(b, i, j)
		return
	}
	for i := range b.points {
		if t := b.points[i].t; lo <= t && t <= hi {
			dst.add(t, b.at(i))
		}
	}
}

// Take moves to dst, in the order that b has, the samples in [lo, hi]; the
// others stay in theirs. b keeps its memory.
func (b *Buffer) Take(dst *Buffer, lo, hi int64) {
	if i, j, ok := b.find(lo, hi); ok {
		dst.append(b, i, j)
		b.remove(i, j)
		return
	}
	n := 0
	for i := range b.points {
		t, s := b.points[i].t, b.at(i)
		if lo <= t && t <= hi {
			dst.add(t, s)
		} else {
			b.set(n, t, s)
			n++
		}
	}
	b.truncate(n)
	b.survey()
}

// Reset empties the buffer and keeps its memory.
func (b *Buffer) Reset() {
	b.truncate(0)
	b.unsorted = false
}

// Bytes returns the memory held: capacity, columns and histograms.
func (b *Buffer) Bytes() int {
	n := cap(b.points) * int(unsafe.Sizeof(point{}))
	if x := b.ext; x != nil {
		n += int(unsafe.Sizeof(*x)) + 8*(cap(x.st)+cap(x.h)+cap(x.fh)) + x.bytes
	}
	return n
}

// find returns the positions [i, j) of the samples in [lo, hi], if they are neighbours for sure.
func (b *Buffer) find(lo, hi int64) (i, j int, ok bool) {
	n := len(b.points)
	switch {
	case n == 0 || hi < lo || hi < b.min || b.max < lo:
		return 0, 0, true
	case lo <= b.min && b.max <= hi:
		return 0, n, true
	case b.unsorted:
		return 0, 0, false
	}
	if lo > b.min {
		i = searchPoints(b.points, lo-1)
	}
	return i, i + searchPoints(b.points[i:], hi), true
}

// Floats says whether all samples are floats for sure: of a buffer out of which
// histograms were taken it may not say so until it has been empty.
func (b *Buffer) Floats() bool { return b.ext == nil || len(b.ext.h)+len(b.ext.fh) == 0 }

// plain says whether all samples are floats without a start timestamp.
func (b *Buffer) plain() bool {
	return b.Floats() && (b.ext == nil || len(b.ext.st) == 0)
}

func (b *Buffer) add(t int64, s sample) {
	b.addPoint(t, s.bits)
	if s.st != 0 || s.h != nil || s.fh != nil || b.ext != nil {
		b.addColumns(s)
	}
}

func (b *Buffer) addPoint(t int64, bits uint64) {
	n := len(b.points)
	if n == 0 {
		if b.points == nil {
			b.points = make([]point, 0, firstCap)
		}
		b.min, b.max = t, t
	} else {
		b.unsorted = b.unsorted || t < b.points[n-1].t
		b.min, b.max = min(b.min, t), max(b.max, t)
	}
	b.points = append(b.points, point{t, bits})
}

// addFloats adds floats in order of time, one at least, to a buffer that has no columns.
func (b *Buffer) addFloats(ts []int64, vs []float64) {
	first, last := ts[0], ts[len(ts)-1]
	if n := len(b.points); n == 0 {
		b.min, b.max = first, last
	} else {
		b.unsorted = b.unsorted || first < b.points[n-1].t
		b.min, b.max = min(b.min, first), max(b.max, last)
	}
	b.points = slices.Grow(b.points, len(ts))
	for i, t := range ts {
		b.points = append(b.points, point{t, math.Float64bits(vs[i])})
	}
}

// addColumns adds s to the columns that exist or that it needs; its point was added.
func (b *Buffer) addColumns(s sample) {
	if b.ext == nil {
		b.ext = new(columns)
	}
	x, n := b.ext, len(b.points)
	x.st = addCell(x.st, n, s.st)
	x.h = addCell(x.h, n, s.h)
	x.fh = addCell(x.fh, n, s.fh)
	x.bytes += HistogramBytes(s.h, s.fh)
}

// addCell makes v the n-th cell of a column. A column that does not exist comes
// into being, zero before v, if v is not zero itself.
func addCell[T comparable](col []T, n int, v T) []T {
	var zero T
	if len(col) == 0 && v == zero {
		return col
	}
	for len(col) < n-1 {
		col = append(col, zero)
	}
	return append(col, v)
}

// append adds the samples [i, j) of src in their order.
func (b *Buffer) append(src *Buffer, i, j int) {
	if i == j {
		return
	}
	if !src.plain() || b.ext != nil {
		for ; i < j; i++ {
			b.add(src.points[i].t, src.at(i))
		}
		return
	}
	mint, maxt := src.min, src.max
	if j-i < len(src.points) { // then src is sorted
		mint, maxt = src.points[i].t, src.points[j-1].t
	}
	if n := len(b.points); n == 0 {
		b.min, b.max, b.unsorted = mint, maxt, src.unsorted
	} else {
		b.unsorted = b.unsorted || src.unsorted || src.points[i].t < b.points[n-1].t
		b.min, b.max = min(b.min, mint), max(b.max, maxt)
	}
	b.points = append(b.points, src.points[i:j]...)
}

// remove takes out the samples [i, j) of a sorted buffer, or all of any.
func (b *Buffer) remove(i, j int) {
	n := len(b.points) - (j - i)
	if n == 0 {
		b.Reset()
		return
	}
	if i == j {
		return
	}
	if b.plain() {
		copy(b.points[i:], b.points[j:])
	} else {
		for k := i; k < n; k++ {
			b.set(k, b.points[k+j-i].t, b.at(k+j-i))
		}
	}
	b.truncate(n)
	b.min, b.max = b.points[0].t, b.points[n-1].t
}

// at returns the sample at position i.
func (b *Buffer) at(i int) sample {
	s := sample{bits: b.points[i].bits}
	if x := b.ext; x != nil {
		if len(x.st) > 0 {
			s.st = x.st[i]
		}
		if len(x.h) > 0 {
			s.h = x.h[i]
		}
		if len(x.fh) > 0 {
			s.fh = x.fh[i]
		}
	}
	return s
}

// set overwrites position i. The columns that s needs must exist.
func (b *Buffer) set(i int, t int64, s sample) {
	b.points[i] = point{t, s.bits}
	if x := b.ext; x != nil {
		if len(x.st) > 0 {
			x.st[i] = s.st
		}
		if len(x.h) > 0 {
			x.h[i] = s.h
		}
		if len(x.fh) > 0 {
			x.fh[i] = s.fh
		}
	}
}

// truncate keeps the first n samples and lets go of the histograms of the others.
func (b *Buffer) truncate(n int) {
	b.points = b.points[:n]
	x := b.ext
	if x == nil {
		return
	}
	x.st = x.st[:min(n, len(x.st))]
	if len(x.h) > n {
		clear(x.h[n:])
		x.h = x.h[:n]
	}
	if len(x.fh) > n {
		clear(x.fh[n:])
		x.fh = x.fh[:n]
	}
	x.bytes = 0
	for i := range max(len(x.h), len(x.fh)) {
		s := b.at(i)
		x.bytes += HistogramBytes(s.h, s.fh)
	}
}

// survey finds the bounds and whether the samples are sorted anew.
func (b *Buffer) survey() {
	b.unsorted = false
	for i := range b.points {
		t := b.points[i].t
		if i == 0 {
			b.min, b.max = t, t
			continue
		}
		b.unsorted = b.unsorted || t < b.points[i-1].t
		b.min, b.max = min(b.min, t), max(b.max, t)
	}
}

// HistogramBytes returns the memory of h and fh, each of which may be nil. Custom
// bounds are shared between histograms and not counted.
func HistogramBytes(h *histogram.Histogram, fh *histogram.FloatHistogram) int {
	n := 0
	if h != nil {
		n += int(unsafe.Sizeof(*h)) + 8*(cap(h.PositiveBuckets)+cap(h.NegativeBuckets)+cap(h.PositiveSpans)+cap(h.NegativeSpans))
	}
	if fh != nil {
		n += int(unsafe.Sizeof(*fh)) + 8*(cap(fh.PositiveBuckets)+cap(fh.NegativeBuckets)+cap(fh.PositiveSpans)+cap(fh.NegativeSpans))
	}
	return n
}
