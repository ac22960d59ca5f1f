package record

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Floats body:
//
//	count <uvarint> | flags <1b> | sample ... | (flags bit 0) ST step <uvarint> ...
//	sample  control <1b> | ref step <0|1|3|8b> | time step <0|2|4|8b> | value <0..8b>
//
// control: bits 0 and 1 are the size class of the ref step, bits 2 and 3 that of
// the time step, bits 4 to 7 the size of the value. Steps are zigzag, from the
// sample before (from ref 0, time 0), in 64-bit arithmetic that wraps; the ref
// step is counted from the next ref, so that size 0 is a step of one. The value
// is the bytes of its IEEE 754 bits from the most significant one, without the
// zero bytes at the end: small integers take two or three.
// The ST column, where there is one, has a start timestamp for every sample, each
// as a zigzag step from the one before.
const (
	flagST        = 1
	maxSampleSize = 1 + 8 + 8 + 8
)

// The bytes that the size classes of the control byte stand for.
var (
	refSize  = [4]uint{0, 1, 3, 8}
	timeSize = [4]uint{0, 2, 4, 8}
)

func appendFloats(dst []byte, f *Floats) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(dst, uint64(len(f.Ref)))
	if len(f.ST) > 0 {
		dst = append(dst, flagST)
	} else {
		dst = append(dst, 0)
	}
	dst = appendSamples(dst, f.Ref, f.T, f.V)
	prev := uint64(0)
	for _, st := range f.ST {
		dst = appendDelta(dst, prev, uint64(st))
		prev = uint64(st)
	}
	return end(dst, start)
}

// appendSamples writes whole words and advances by what of them is needed.
func appendSamples(dst []byte, refs []uint64, ts []int64, vs []float64) []byte {
	n := len(refs)
	ts, vs = ts[:n], vs[:n]
	dst = slices.Grow(dst, n*maxSampleSize+8)
	i, buf := len(dst), dst[:cap(dst)]
	next, last := uint64(1), uint64(0) // the ref of step 0, the time before
	for k, ref := range refs {
		out := buf[i : i+maxSampleSize+8]
		step := zigzag(ref - next)
		rc := refClass[bits.Len64(step)]
		binary.LittleEndian.PutUint64(out[1:], step)
		at := 1 + refSize[rc&3]
		next = ref + 1
		step = zigzag(uint64(ts[k]) - last)
		tc := timeClass[bits.Len64(step)]
		binary.LittleEndian.PutUint64(out[at:], step)
		at += timeSize[tc&3]
		last = uint64(ts[k])
		v := math.Float64bits(vs[k])
		size := 8 - uint(bits.TrailingZeros64(v))/8
		binary.BigEndian.PutUint64(out[at:], v)
		out[0] = rc | tc<<2 | byte(size)<<4
		i += int(at + size)
	}
	return buf[:i]
}

// refClass and timeClass are the size classes of a step by its bits: in tables,
// since the classes of samples that come in no order are no branch to foretell.
var refClass, timeClass = stepClasses(8, 24), stepClasses(16, 32)

func stepClasses(small, large int) (classes [65]byte) {
	for n := range classes {
		switch {
		case n == 0:
		case n <= small:
			classes[n] = 1
		case n <= large:
			classes[n] = 2
		default:
			classes[n] = 3
		}
	}
	return classes
}

func (d *decoder) floats(f *Floats) {
	n := d.count(1)
	flags := d.byte()
	if flags&^flagST != 0 {
		d.fail("unknown flags %#x of floats", flags)
	}
	if d.err != nil {
		return
	}
	if n > len(d.b)-d.i {
		d.fail("%d samples, got %d bytes", n, len(d.b)-d.i)
		return
	}
	f.Ref, f.T, f.V = extend(f.Ref, n), extend(f.T, n), extend(f.V, n)
	d.samples(f.Ref, f.T, f.V)
	if d.err == nil && flags&flagST != 0 {
		f.ST = extend(f.ST, n)
		prev := uint64(0)
		for k := range f.ST {
			prev += d.delta()
			f.ST[k] = int64(prev)
		}
	}
	if d.err != nil {
		f.Ref, f.T, f.V, f.ST = f.Ref[:0], f.T[:0], f.V[:0], f.ST[:0]
	}
}

func (d *decoder) samples(refs []uint64, ts []int64, vs []float64) {
	ts, vs = ts[:len(refs)], vs[:len(refs)]
	b, i := d.b, d.i
	next, last := uint64(1), uint64(0)
	var tail [maxSampleSize + 8]byte
	for k := range refs {
		// Words are read whole; the last samples are read from a copy with room behind it.
		in := b[i:]
		if len(in) < len(tail) {
			if len(in) == 0 {
				d.i = i
				d.fail("sample %d of %d: record ends early", k, len(refs))
				return
			}
			clear(tail[copy(tail[:], in):])
			in = tail[:]
		}
		in = in[:maxSampleSize+8]
		l := &layouts[in[0]]
		if l.size == 0 || int(l.size) > len(b)-i {
			d.i = i
			d.fail("sample %d of %d: control byte %#x with %d bytes left", k, len(refs), in[0], len(b)-i)
			return
		}
		refs[k] = next + unzigzag(binary.LittleEndian.Uint64(in[1:])&l.ref)
		next = refs[k] + 1
		last += unzigzag(binary.LittleEndian.Uint64(in[l.timeAt&15:]) & l.time)
		ts[k] = int64(last)
		vs[k] = math.Float64frombits(binary.BigEndian.Uint64(in[l.valueAt&31:]) & l.value)
		i += int(l.size)
	}
	d.i = i
}

// layouts says, by the control byte, where the fields of a sample stand and which
// bits of the words read there are theirs; size is 0 where no sample is like that.
var layouts = func() (all [256]struct {
	ref, time, value      uint64
	size, timeAt, valueAt uint8
}) {
	lowBytes := func(n uint) uint64 { return 1<<(8*n) - 1 }
	for control := range all {
		rs, ts, size := refSize[control&3], timeSize[control>>2&3], uint(control>>4)
		if size > 8 {
			continue
		}
		l := &all[control]
		l.ref, l.time, l.value = lowBytes(rs), lowBytes(ts), ^lowBytes(8-size)
		l.timeAt, l.valueAt, l.size = uint8(1+rs), uint8(1+rs+ts), uint8(1+rs+ts+size)
	}
	return all
}()
