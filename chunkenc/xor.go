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
	at := len(dst)
	end := xorBits(dst[:cap(dst)], at, t, v, delta)
	return dst[:end]
}

// xorBits writes the bit stream from the second value on to out[at:], which has
// room for all of it, and returns the end. The accumulator acc holds free
// unused low bits; it is stored when full.
func xorBits(out []byte, at int, t []int64, v []float64, delta uint64) int {
	var (
		acc      uint64
		free     = uint(64)
		leading  = uint(64) // no window yet: nothing has as many leading zeros
		trailing uint
		prev     = math.Float64bits(v[0])
		prevT    = t[1]
	)
	put := func(u uint64, n uint) {
		if n < free {
			free -= n
			acc |= u << free
			return
		}
		rest := n - free
		binary.BigEndian.PutUint64(out[at:], acc|u>>rest)
		at += 8
		free = 64 - rest
		acc = u << free // 0 when rest is 0, as a shift by 64 gives
	}
	for i := 1; i < len(t); i++ {
		if i > 1 {
			d := uint64(t[i] - prevT)
			dod := int64(d - delta)
			prevT, delta = t[i], d
			switch {
			case dod == 0:
				put(0, 1)
			case -(1<<13-1) <= dod && dod <= 1<<13:
				put(0b10<<14|uint64(dod)&(1<<14-1), 16)
			case -(1<<16-1) <= dod && dod <= 1<<16:
				put(0b110<<17|uint64(dod)&(1<<17-1), 20)
			case -(1<<19-1) <= dod && dod <= 1<<19:
				put(0b1110<<20|uint64(dod)&(1<<20-1), 24)
			default:
				put(0b1111, 4)
				put(uint64(dod), 64)
			}
		}
		bitsV := math.Float64bits(v[i])
		x := bitsV ^ prev
		prev = bitsV
		if x == 0 {
			put(0, 1)
			continue
		}
		lead, trail := min(uint(bits.LeadingZeros64(x)), 31), uint(bits.TrailingZeros64(x))
		if lead >= leading && trail >= trailing {
			put(0b10, 2)
			put(x>>trailing, 64-leading-trailing)
			continue
		}
		leading, trailing = lead, trail
		width := 64 - lead - trail
		put(0b11<<11|uint64(lead)<<6|uint64(width)&63, 13)
		put(x>>trail, width)
	}
	for used := 64 - free; used > 0; used -= min(used, 8) {
		out[at] = byte(acc >> 56)
		acc <<= 8
		at++
	}
	return at
}
