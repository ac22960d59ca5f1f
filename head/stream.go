package head

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// A stream holds the float samples of a part, or of a series of a cold run, that are
// not sealed yet, in order of arrival, each in 1 to 17 bytes:
//
//	code <1b> | time <0..8b> | value <0..8b>        bytes lowest first
//
// The low half of code says how many bytes the time takes: the zigzag of its
// difference to what was expected, the newest timestamp so far plus the step
// that led to it. So a sample that comes late costs some bytes and leaves no
// trace in the next. The first sample's time counts from its owner's start: a part's
// container's, 0 in a cold run.
//
// The high half of code is the form of the value:
//
//	0       the bits of the value before
//	1..4    an integer: zigzag of the difference to the value before, as an integer
//	5..8    an integer of thousandths, likewise
//	9..15   the highest 2 to 8 bytes of the bits, the rest being zero
//
// Whole numbers and those of up to three decimals, which most of what is
// measured is, take 2 to 4 bytes.
//
// The bytes stand in blocks of an arena, a cache line each, chained. An arena
// belongs to a container and goes with it.
type stream struct {
	last    uint64 // bits of the value before
	first   uint32 // its blocks: the first, and the one that is written to; 0 is none
	current uint32
	n       int32 // samples
	late    int32 // of them, those that are not newer than all before
	step    int32 // from the newest but one to the newest, 0 where that is too long
	used    uint8 // bytes of the current block
}

// Forms of a value.
const (
	formSame  = 0
	formInt   = 1
	formMilli = 5
	formRaw   = 9
	// leastRaw is how many bytes formRaw stands for.
	leastRaw = 2
	// maxSample is the longest sample.
	maxSample = 17
)

// timeBytes and valueBytes are how many bytes the halves of a code stand for.
var (
	timeBytes  = [16]uint8{0, 1, 2, 3, 4, 8}
	valueBytes = [16]uint8{0, 1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 4, 5, 6, 7, 8}
)

// masks keep that many bytes of a word.
var masks = [16]uint64{
	0, 1<<8 - 1, 1<<16 - 1, 1<<24 - 1, 1<<32 - 1, 1<<40 - 1, 1<<48 - 1, 1<<56 - 1, 1<<64 - 1,
}

// push appends a sample. newest is the newest timestamp of the stream, or its owner's
// start when it is empty.
func (s *stream) push(a *arena, newest, t int64, v float64) {
	u := zigzag(t - newest - int64(s.step))
	code := byte(bits.Len64(u)+7) / 8
	if code > 4 {
		code = 5
	}
	value := math.Float64bits(v)
	form, w := formOf(value, s.last)
	n := 1 + int(timeBytes[code])
	size := n + int(valueBytes[form])
	code |= form << 4
	if at := int(s.used); s.current != 0 && at <= len(block{})-maxSample && at+size <= blockLen {
		b := a.at(s.current)
		putSample((*[maxSample]byte)(b[at:]), code, u, n, w)
		b.link(0) // which may be written over
		s.used += uint8(size)
	} else {
		var b [maxSample]byte
		putSample(&b, code, u, n, w)
		a.append(s, b[:size])
	}
	s.last = value
	switch {
	case s.n == 0:
	case t > newest:
		s.step = stepOf(t - newest)
	default:
		s.late++
	}
	s.n++
}

// putSample writes a sample, whose value stands at n. It writes whole words, more
// than the sample takes: how many bytes these are would be a branch.
func putSample(b *[maxSample]byte, code byte, u uint64, n int, w uint64) {
	b[0] = code
	binary.LittleEndian.PutUint64(b[1:], u)
	binary.LittleEndian.PutUint64(b[n:], w)
}

// formOf returns the form of a value beside the one before, and the bytes that follow.
func formOf(value, last uint64) (form byte, w uint64) {
	if value == last {
		return formSame, 0
	}
	v := math.Float64frombits(value)
	if i := int64(v); math.Float64bits(float64(i)) == value {
		if u := zigzag(i - int64(math.Float64frombits(last))); u <= math.MaxUint32 {
			return formInt + byte(bits.Len64(u|1)-1)/8, u
		}
	} else if i := thousandths(v); math.Float64bits(float64(i)/1000) == value {
		if u := zigzag(i - thousandths(math.Float64frombits(last))); u <= math.MaxUint32 {
			return formMilli + byte(bits.Len64(u|1)-1)/8, u
		}
	}
	zero := min(bits.TrailingZeros64(value)/8, 8-leastRaw)
	return formRaw + byte(8-leastRaw-zero), value >> (8 * zero)
}

// thousandths returns about 1000 v, the same for the same v.
func thousandths(v float64) int64 { return int64(float64(v*1000) + math.Copysign(0.5, v)) }

// stepOf keeps a step of time that the next may be expected to equal.
func stepOf(d int64) int32 {
	if d > math.MaxInt32 || d < 0 { // an overflow is negative
		return 0
	}
	return int32(d)
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// appendTo appends the samples in order of arrival to two columns. start is its owner's,
// scratch is memory for the bytes, and returned grown.
func (s *stream) appendTo(ts []int64, vs []float64, a *arena, start int64, scratch []byte) ([]int64, []float64, []byte) {
	scratch = append(a.copy(scratch[:0], s), padding[:]...)
	n := int(s.n)
	ts, vs = slices.Grow(ts, n), slices.Grow(vs, n)
	decodeStream(ts[len(ts):len(ts)+n], vs[len(vs):len(vs)+n], scratch, start)
	return ts[:len(ts)+n], vs[:len(vs)+n], scratch
}

// padding stands behind the bytes of a stream, of which whole words are read.
var padding [maxSample + 7]byte

// decodeStream fills two columns of one length.
func decodeStream(ts []int64, vs []float64, b []byte, start int64) {
	newest, step, last := start, int64(0), uint64(0)
	vs = vs[:len(ts)]
	for i := range ts {
		f := (*[maxSample + 7]byte)(b)
		code, form := f[0]&15, f[0]>>4
		n := timeBytes[code]
		t := newest + step + unzigzag(binary.LittleEndian.Uint64(f[1:])&masks[n&15])
		if t > newest || i == 0 {
			if i > 0 {
				step = int64(stepOf(t - newest))
			}
			newest = t
		}
		ts[i] = t
		b = b[1+n:]
		n = valueBytes[form]
		if form != formSame {
			last = valueOf(form, binary.LittleEndian.Uint64(b)&masks[n&15], last)
		}
		vs[i] = math.Float64frombits(last)
		b = b[n:]
	}
}

// firstTime returns the timestamp of the sample that arrived first; there is one.
func (s *stream) firstTime(a *arena, start int64) int64 {
	b := a.at(s.first)
	return start + unzigzag(binary.LittleEndian.Uint64(b[1:])&masks[timeBytes[b[0]&15]&15])
}

// valueOf undoes formOf.
func valueOf(form byte, w, last uint64) uint64 {
	switch {
	case form == formSame:
		return last
	case form < formMilli:
		return math.Float64bits(float64(int64(math.Float64frombits(last)) + unzigzag(w)))
	case form < formRaw:
		return math.Float64bits(float64(thousandths(math.Float64frombits(last))+unzigzag(w)) / 1000)
	}
	return w << (8 * (formRaw + 8 - leastRaw - form))
}

// streamReader reads streams; it holds scratch memory and serves one goroutine.
type streamReader struct {
	bytes []byte
	times []int64
	vals  []float64
}

// run appends the samples of a stream that is sorted to a run, all but its column of
// start timestamps.
func (r *streamReader) run(dst *chunkenc.Samples, s *stream, a *arena, start int64) {
	dst.T, dst.V, r.bytes = s.appendTo(dst.T, dst.V, a, start, r.bytes)
}

// late appends the samples in [lo, hi] in order of arrival to a buffer; starts are
// their start timestamps, or none.
func (r *streamReader) late(dst *ooo.Buffer, s *stream, a *arena, start int64, starts []int64, lo, hi int64) {
	ts, vs := r.columns(s, a, start)
	for i, t := range ts {
		if t >= lo && t <= hi {
			st := int64(0)
			if len(starts) > 0 {
				st = starts[i]
			}
			dst.Float(t, st, vs[i])
		}
	}
}

// columns returns the samples in order of arrival, valid until the next call.
func (r *streamReader) columns(s *stream, a *arena, start int64) ([]int64, []float64) {
	r.times, r.vals, r.bytes = s.appendTo(r.times[:0], r.vals[:0], a, start, r.bytes)
	return r.times, r.vals
}

// arena holds the blocks of the streams of one container. Its owner writes,
// readers hold Head.mu or know that the container is frozen.
type arena struct {
	slabs [][]block
	used  uint32 // blocks ever taken
	free  uint32 // chain of those given back
}

// block is one cache line: bytes of a stream, and behind them the number of the next
// block of a chain, from 1 on; 0 ends it.
type block [blockLen + 4]byte

// blockLen is how many bytes of a stream a block holds.
const blockLen = 60

func (b *block) next() uint32     { return binary.LittleEndian.Uint32(b[blockLen:]) }
func (b *block) link(next uint32) { binary.LittleEndian.PutUint32(b[blockLen:], next) }

const (
	// slabBlocks is how many blocks are allocated at once: 32 KiB.
	slabBlocks = 512
	// firstBlocks is how many the first slab, which grows, has at first: a cold run
	// with few samples must not take 32 KiB.
	firstBlocks = 2
)

func (a *arena) at(i uint32) *block { return &a.slabs[(i-1)/slabBlocks][(i-1)%slabBlocks] }

// take returns the number of a block that is free.
func (a *arena) take() uint32 {
	if i := a.free; i != 0 {
		b := a.at(i)
		a.free = b.next()
		b.link(0)
		return i
	}
	switch {
	case a.used >= slabBlocks:
		if a.used%slabBlocks == 0 {
			a.slabs = append(a.slabs, make([]block, slabBlocks))
		}
	case a.used == 0:
		a.slabs = append(a.slabs, make([]block, firstBlocks))
	case int(a.used) == len(a.slabs[0]):
		grown := make([]block, 2*a.used)
		copy(grown, a.slabs[0])
		a.slabs[0] = grown
	}
	a.used++
	return a.used
}

// bytes returns the memory of the slabs.
func (a *arena) bytes() int {
	if a.used == 0 {
		return 0
	}
	return (len(a.slabs[0]) + (len(a.slabs)-1)*slabBlocks) * len(block{})
}

// append writes bytes to the end of a stream.
func (a *arena) append(s *stream, src []byte) {
	if s.current == 0 {
		s.first = a.take()
		s.current = s.first
	}
	b := a.at(s.current)
	n := copy(b[s.used:blockLen], src)
	s.used += uint8(n)
	if n == len(src) {
		return
	}
	before := s.current
	s.current = a.take()
	a.at(before).link(s.current)
	s.used = uint8(copy(a.at(s.current)[:blockLen], src[n:]))
}

// copy appends the bytes of a stream to dst.
func (a *arena) copy(dst []byte, s *stream) []byte {
	for i := s.first; i != 0; {
		b := a.at(i)
		if i == s.current {
			return append(dst, b[:s.used]...)
		}
		dst = append(dst, b[:blockLen]...)
		i = b.next()
	}
	return dst
}

// clear empties a stream and gives its blocks back.
func (a *arena) clear(s *stream) {
	if s.current != 0 {
		a.at(s.current).link(a.free)
		a.free = s.first
	}
	*s = stream{}
}
