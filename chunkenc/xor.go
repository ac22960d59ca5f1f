package chunkenc

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
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

// xorSampleBytes bounds what one sample adds: 68 bits of time, 77 of value.
const xorSampleBytes = 19

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
	dst = slices.Grow(dst, xorSampleBytes*len(t)+16)
	dst = binary.AppendVarint(dst, t[0])
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(v[0]))
	if len(t) == 1 {
		return dst
	}
	delta := uint64(t[1] - t[0])
	dst = binary.AppendUvarint(dst, delta)
	end := xorBits(dst[:cap(dst)], len(dst), t, v, delta)
	return dst[:end]
}

// xorBits writes the bit stream from the second value on to out[at:], which has
// room for all of it and 8 bytes more, and returns the end. The used low bits of acc
// wait to be written; what stands above them has been. What a sample adds is put in
// one word where it fits, and whether a scrape is on time, which is as good as
// random, is told by arithmetic and not by a branch.
func xorBits(out []byte, at int, t []int64, v []float64, delta uint64) int {
	var (
		acc      uint64
		used     uint
		leading  = uint(64) // no window yet: nothing has as many leading zeros
		trailing uint
		prev     = math.Float64bits(v[0])
	)
	v = v[:len(t)]
	word, n := uint64(0), uint(0) // bits of the sample; of the second, t stands before them
	for i := 1; ; {
		u := math.Float64bits(v[i])
		x := u ^ prev
		prev = u
		if x == 0 {
			word, n = word<<1, n+1
		} else {
			lead, trail := min(uint(bits.LeadingZeros64(x)), 31), uint(bits.TrailingZeros64(x))
			if int(lead-leading)|int(trail-trailing) >= 0 { // both as many at least
				word, n = word<<2|0b10, n+2
			} else {
				leading, trailing = lead, trail
				word, n = word<<13|0b11<<11|uint64(lead)<<6|uint64(64-lead-trail)&63, n+13
			}
			width := 64 - leading - trailing
			x >>= trailing & 63
			if n+width > wordMax {
				at, acc, used = putWord(out, at, acc, used, word, n)
				if word, n = x, width; n > wordMax {
					at, acc, used = putWord(out, at, acc, used, x>>32, n-32)
					word, n = x&(1<<32-1), 32
				}
			} else {
				word, n = word<<(width&63)|x, n+width
			}
		}
		at, acc, used = putWord(out, at, acc, used, word, n)
		i++
		if i+repeatsLeast <= len(t) && math.Float64bits(v[i]) == prev && math.Float64bits(v[i+repeatsLeast-1]) == prev {
			var more int
			more, delta, at, acc, used = xorRepeats(out, at, acc, used, t[i-1:], v[i:], prev, delta)
			i += more
		}
		if i == len(t) {
			break
		}
		d := uint64(t[i] - t[i-1])
		dod := int64(d - delta)
		delta = d
		switch {
		case uint64(dod+1<<13-1) < 1<<14:
			changed := nonzero(uint64(dod))
			word = (0b10<<14 | uint64(dod)&(1<<14-1)) & -changed
			n = 1 + 15*uint(changed)
		case uint64(dod+1<<16-1) < 1<<17:
			word, n = 0b110<<17|uint64(dod)&(1<<17-1), 20
		case uint64(dod+1<<19-1) < 1<<20:
			word, n = 0b1110<<20|uint64(dod)&(1<<20-1), 24
		default:
			at, acc, used = putWord(out, at, acc, used, 0b1111<<32|uint64(dod)>>32, 36)
			word, n = uint64(dod)&(1<<32-1), 32
		}
	}
	binary.BigEndian.PutUint64(out[at:], acc<<((64-used)&63))
	return at + int(used+7)>>3
}

// repeatsLeast is how many repeats there should be to be worth a call of xorRepeats.
const repeatsLeast = 3

// xorRepeats writes the samples v[0], v[1], ... at t[1], t[2], ... in threes as long as
// the value is prev and the second difference is short, and returns how many they were
// and what xorBits goes on with. Three take 51 bits at most: they are stored without
// asking, since when a word is full is as good as random too. Of the last three, those
// that are no repeats any more are masked out.
func xorRepeats(out []byte, at int, acc uint64, used uint, t []int64, v []float64, prev, delta uint64) (int, uint64, int, uint64, uint) {
	binary.BigEndian.PutUint64(out[at:], acc<<((64-used)&63))
	at += int(used >> 3)
	used &= 7
	last := t[0]
	t = t[1:]
	v = v[:len(t)]
	i := 0
	for ; i+3 <= len(t); i += 3 {
		a, b, c := t[i], t[i+1], t[i+2]
		d0, d1, d2 := uint64(a-last), uint64(b-a), uint64(c-b)
		o0, o1, o2 := d0-delta, d1-d0, d2-d1
		far := (o0+1<<13-1)>>14 | (o1+1<<13-1)>>14 | (o2+1<<13-1)>>14
		differs := (math.Float64bits(v[i]) ^ prev) | (math.Float64bits(v[i+1]) ^ prev) | (math.Float64bits(v[i+2]) ^ prev)
		if far|differs != 0 {
			break
		}
		last, delta = c, d2
		w0, n0 := repeatBits(o0)
		w1, n1 := repeatBits(o1)
		w2, n2 := repeatBits(o2)
		n := n0 + n1 + n2
		acc = acc<<(n&63) | w0<<((n1+n2)&63) | w1<<(n2&63) | w2
		used += n
		binary.BigEndian.PutUint64(out[at:], acc<<((64-used)&63))
		at += int(used >> 3)
		used &= 7
	}
	if i+2 > len(t) {
		return i, delta, at, acc, used
	}
	// Of the next two, which fit unstored, those that are repeats.
	d0, d1 := uint64(t[i]-last), uint64(t[i+1]-t[i])
	o0, o1 := d0-delta, d1-d0
	keep0 := nonzero(math.Float64bits(v[i])^prev|(o0+1<<13-1)>>14) - 1
	keep1 := keep0 & (nonzero(math.Float64bits(v[i+1])^prev|(o1+1<<13-1)>>14) - 1)
	w0, n0 := repeatBits(o0)
	w1, n1 := repeatBits(o1)
	n0 &= uint(keep0)
	n1 &= uint(keep1)
	delta ^= (delta ^ d0) & keep0
	delta ^= (delta ^ d1) & keep1
	acc = (acc<<(n0&63)|w0&keep0)<<(n1&63) | w1&keep1
	return i - int(int64(keep0)) - int(int64(keep1)), delta, at, acc, used + n0 + n1
}

// repeatBits gives the bits of a sample with a short second difference whose value
// repeats: 2 or 17. n is a conditional move, and its bit of value 16 makes the mask.
func repeatBits(dod uint64) (word uint64, n uint) {
	n = 2
	if dod != 0 {
		n = 17
	}
	return (0b10<<15 | dod&(1<<14-1)<<1) & -uint64(n>>4), n
}

// nonzero gives 1 unless x is 0.
func nonzero(x uint64) uint64 { return (x | -x) >> 63 }

// wordMax is the most bits that putWord takes: up to 7 may wait already.
const wordMax = 57

// putWord appends the n low bits of u, at most wordMax, whose other bits are 0, to
// the bits that wait in acc; the whole bytes among those are written if need be.
func putWord(out []byte, at int, acc uint64, used uint, u uint64, n uint) (int, uint64, uint) {
	if used+n > 64 {
		binary.BigEndian.PutUint64(out[at:], acc<<((64-used)&63))
		at += int(used >> 3)
		used &= 7
	}
	return at, acc<<(n&63) | u, used + n
}
