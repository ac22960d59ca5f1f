package chunkenc

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

// The XOR chunk of Prometheus (its encoding number 1), after "Gorilla: A Fast,
// Scalable, In-Memory Time Series Database" (Pelkonen et al., VLDB 2015), with
// Prometheus's own buckets for the timestamps:
//
//	count <2b big-endian>, then a stream of bits, most significant first:
//	first sample    t as zigzag varint | value <64 bits>
//	second sample   t - first t as uvarint | value
//	others          second difference of t | value
//
// Second difference: 0 | 10 <14> | 110 <17> | 1110 <20> | 1111 <64>.
// Value, as XOR with the one before: 0 when equal | 10 <window> bits in the
// window of the last | 11 <5: leading zeros> <6: width, 64 as 0> <width>.

// xorSampleBytes bounds what one sample adds, 68 bits of time and 77 of value; the second may
// have 80 bits of time, and the first, with 10 bytes of time and 8 of value, leaves it the room.
// xorOver is how far past that the last store may reach: it begins where the bits before it end.
const (
	xorSampleBytes = 19
	xorOver        = 16
)

// AppendXOR appends to dst a Prometheus XOR chunk (encoding number 1) of the
// float samples, byte-identical to what Prometheus's own appender writes.
// At most MaxSamples; Prometheus itself cuts at 120. Start timestamps are not carried.
func AppendXOR(dst []byte, t []int64, v []float64) []byte {
	if len(t) != len(v) || len(t) > MaxSamples {
		panic("BUG: chunkenc: AppendXOR takes equal columns of at most MaxSamples")
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(t)))
	if len(t) == 0 {
		return dst
	}
	dst = slices.Grow(dst, xorSampleBytes*len(t)+xorOver)
	dst = binary.AppendVarint(dst, t[0])
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(v[0]))
	if len(t) == 1 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(t[1]-t[0]))
	last := len(dst) - 1
	w := xorWriter{out: unsafe.Pointer(&dst[last]), at: 7, delta: uint64(t[1] - t[0]), prev: math.Float64bits(v[0])}
	w.columns(t, unsafe.Slice((*uint64)(unsafe.Pointer(&v[0])), len(v)))
	return dst[:last+int(w.at+7)>>3]
}

// xorWriter writes the bits from the second value on. Words are stored whole, full or not,
// and without a check: out has room for all samples and xorOver bytes more.
//
// What varies like noise, whether a scrape is on time and when a word is full, is told by
// arithmetic and not by branches. The stream begins within the byte that stands there last:
// the second sample has no bits of time, and gets the 0 of a difference that repeats on
// top of that byte's last bit.
type xorWriter struct {
	out unsafe.Pointer
	at  uint // bits written; the others of the last byte are 0

	delta   uint64 // between the last timestamps
	prev    uint64 // bits of the last value
	window  uint64 // the bits that need no new window, none at first
	leading uint   // zeros before them
	width   uint   // how many they are
}

// columns writes all samples but the first, given as timestamps and bits of values.
func (w *xorWriter) columns(t []int64, v []uint64) {
	for i := 1; i < len(t); {
		i = w.repeats(t, v, i)
		i = w.changes(t, v, i)
	}
}

// repeats writes the samples from i on in threes, as long as the value is the last one
// and the second difference short, and returns where it ended. Three take 51 bits at most.
func (w *xorWriter) repeats(t []int64, v []uint64, i int) int {
	out, at, prev, delta := w.out, w.at, w.prev, w.delta
	v = v[i:]
	before := t[i-1:][:len(v)]
	t = t[i:][:len(v)]
	k := 0
	for ; k < len(v)-2; k += 3 {
		d0, d1, d2 := uint64(t[k]-before[k]), uint64(t[k+1]-before[k+1]), uint64(t[k+2]-before[k+2])
		o0, o1, o2 := d0-delta, d1-d0, d2-d1
		if (v[k]^prev)|(v[k+1]^prev)|(v[k+2]^prev)|((o0+shortBias)|(o1+shortBias)|(o2+shortBias))>>14 != 0 {
			break
		}
		delta = d2
		w0, n0 := repeatBits(o0)
		w1, n1 := repeatBits(o1)
		w2, n2 := repeatBits(o2)
		word := w0<<((n1+n2)&63) | w1<<(n2&63) | w2 // but for the last 0
		p := unsafe.Add(out, at>>3)
		n := at&7 + n0 + n1 + n2
		binary.BigEndian.PutUint64((*[8]byte)(p)[:], uint64(*(*byte)(p))<<56|word<<((1-n)&63))
		at = at&^7 + n
	}
	w.at, w.delta = at, delta
	return i + k
}

// changes writes the samples from i on until three repeat, and returns where it ended.
// Within three it does not ask whether one changes.
func (w *xorWriter) changes(t []int64, v []uint64, i int) int {
	out, at, prev, delta := w.out, w.at, w.prev, w.delta
	window, leading, width := w.window, w.leading, w.width
	last := t[i-1]
	v = v[:len(t)]
	for i < len(t) {
		for end := min(i+3, len(t)); i < end; i++ {
			d := uint64(t[i] - last)
			last = t[i]
			dod := d - delta
			delta = d
			word, n := shortBits(dod)
			if (dod+shortBias)>>14 != 0 {
				if word, n = longBits(dod); n == 0 {
					at = xorWord(out, at, 0b1111<<60, 4, dod, 64)
				}
			}
			u := v[i]
			x := u ^ prev
			prev = u
			changed := uint64(int64(x|-x) >> 63)
			value, size := 0b10<<62&changed, n+1-uint(changed)
			if x&^window != 0 {
				lead, trail := min(uint(bits.LeadingZeros64(x)), 31), uint(bits.TrailingZeros64(x))
				window = ^uint64(0) >> lead >> trail << trail
				leading, width = lead, 64-lead-trail
				value, size = 0b11<<62|uint64(lead)<<57|uint64(width)<<58>>7, n+13
			}
			at = xorWord(out, at, word|value>>(n&63), size, x<<(leading&63), width&uint(changed))
		}
		if i+3 <= len(t) && (v[i]^prev)|(v[i+1]^prev)|(v[i+2]^prev) == 0 {
			break
		}
	}
	w.at, w.prev, w.delta = at, prev, delta
	w.window, w.leading, w.width = window, leading, width
	return i
}

// xorWord writes the n bits of head, 1 to 37, and the width bits of x, and returns what at
// is then. Both stand at the top of their words, whose other bits are 0.
func xorWord(out unsafe.Pointer, at uint, head uint64, n uint, x uint64, width uint) uint {
	o := (*[xorOver]byte)(unsafe.Add(out, at>>3))
	used := at & 7
	n += used
	binary.BigEndian.PutUint64(o[:8], uint64(o[0])<<56|head>>used|x>>(n&63))
	binary.BigEndian.PutUint64(o[8:], x<<(-n&63))
	return at&^7 + n + width
}

// shortBias, added to a second difference of 14 bits, gives a number below 1<<14.
const shortBias = 1<<13 - 1

// shortBits gives the n bits of a second difference of at most 14 bits, at the top of word.
func shortBits(dod uint64) (word uint64, n uint) {
	changed := uint64(int64(dod|-dod) >> 63)
	return (0b10<<62 | dod<<50>>2) & changed, 1 + 15&uint(changed)
}

// repeatBits gives the n bits of a sample with such a second difference whose value
// repeats: those of shortBits, at the low end of word, and a 0 that is not in it.
func repeatBits(dod uint64) (word uint64, n uint) {
	changed := uint64(int64(dod|-dod) >> 63)
	return (0b10<<14 | dod&(1<<14-1)) & changed, 2 + 15&uint(changed)
}

// longBits is shortBits of the longer ones; n is 0 where word does not hold them.
func longBits(dod uint64) (word uint64, n uint) {
	switch dodClass(int64(dod)) {
	case 2:
		return 0b110<<61 | dod<<47>>3, 20
	case 3:
		return 0b1110<<60 | dod<<44>>4, 24
	}
	return 0, 0
}
