package chunkenc

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Packing a block of residuals (see ints.go):
//
//  1. Count them by how far, in bits, they lie from the middle one (planBlock).
//  2. Take the width that costs least. Unless it holds all, find what lies outside, and
//     what base and width the others need (narrow).
//  3. Set the exceptions apart and pack both (appendBlock).

// blockPlan says how a block is to be packed.
type blockPlan struct {
	width uint   // of the numbers
	base  uint64 // smallest residual that is no exception
	exact bool   // there are no exceptions

	center uint64 // what the residuals lie around
}

// An exception costs its position, its number, and excCost for the time that
// decoding it takes; narrow blocks are not looked at.
const (
	excCost   = 8
	narrowest = 3
	excLeast  = 48 // bits that exceptions must save in a block
)

// planBlock looks at how wide the residuals are around the middle one and takes the
// width that costs least, exceptions counted.
func planBlock(r []uint64) blockPlan {
	m := len(r)
	c := uint64(median3(int64(r[m/4]), int64(r[m/2]), int64(r[m-1-m/4])))
	var counts magnitudes
	lo, hi := counts.countShort(r, c)
	full, top := bits.Len64(uint64(hi-lo)), bits.Len64(uint64(max(hi, ^lo)))
	plan := blockPlan{width: uint(full), base: c + uint64(lo), center: c, exact: true}
	if full < narrowest {
		return plan
	}
	if top > shortBound {
		counts.countLong(r, c)
	}
	least, count := m*full-excLeast, 0
	for w := top; w > 0 && count <= m/2; w-- {
		count += counts.of(w)
		// Magnitudes below w bits: w bits with the sign.
		if cost := m*w + min(posBits*count, m) + count*(top+1+excCost); cost < least {
			least, plan.width, plan.exact = cost, uint(w), false
		}
	}
	return plan
}

// magnitudes counts the residuals of a block by their magnitude, w at w-1. There are
// four, since one count waits for the last to be written; so none exceeds a byte.
type magnitudes [4][64]uint8

func (c *magnitudes) of(w int) int {
	i := (w - 1) & 63
	return int(c[0][i]) + int(c[1][i]) + int(c[2][i]) + int(c[3][i])
}

// countShort counts the distances from center and returns the least and the largest.
// The counts hold when none is longer than shortBound.
func (c *magnitudes) countShort(r []uint64, center uint64) (lo, hi int64) {
	for ; len(r) >= 4; r = r[4:] {
		q := (*[4]uint64)(r)
		d0, d1, d2, d3 := int64(q[0]-center), int64(q[1]-center), int64(q[2]-center), int64(q[3]-center)
		lo, hi = min(lo, min(d0, d1), min(d2, d3)), max(hi, max(d0, d1), max(d2, d3))
		c[0][floatExponent(d0)&63]++
		c[1][floatExponent(d1)&63]++
		c[2][floatExponent(d2)&63]++
		c[3][floatExponent(d3)&63]++
	}
	for i, v := range r {
		d := int64(v - center)
		lo, hi = min(lo, d), max(hi, d)
		c[i&3][floatExponent(d)&63]++
	}
	return lo, hi
}

// countLong counts distances of any length.
func (c *magnitudes) countLong(r []uint64, center uint64) {
	*c = magnitudes{}
	for i, v := range r {
		c[i&3][(magnitude(int64(v-center))-1)&63]++
	}
}

// magnitude gives the bits of d without its sign, 0 to 63.
func magnitude(d int64) int { return bits.Len64(uint64(d^d>>63)) & 63 }

// shortBound is the longest magnitude that floatExponent is right for: a float holds
// 2d+1 exactly.
const shortBound = 51

const (
	exponentMask  = 0x7ff
	exponentOfOne = 1023
)

// floatExponent gives the biased exponent of 2d+1, its sign above it. That less
// exponentOfOne is the magnitude of d, since 2d+1 is never 0 and has one bit more; the
// low six bits are the magnitude less one. To find the highest bit of an integer takes
// many processors longer than to convert it.
func floatExponent(d int64) uint64 { return math.Float64bits(float64(2*d+1)) >> 52 }

// narrow sets the base and the width of a plan with exceptions to what the others
// take up: they lie less than 2^(width-1) around the center. It fills pos with the
// positions of those that do not, which come to be the exceptions unless what the others
// take up holds them too, and returns their number.
func (p *blockPlan) narrow(r []uint64, pos *[blockLen]uint8) int {
	half, center, count := uint64(1)<<(p.width-1), p.center, 0
	var lo, hi int64
	for i, v := range r {
		in, out := int64(v-center), 0
		if v-center+half >= 2*half {
			in, out = 0, 1
		}
		pos[count&(blockLen-1)] = uint8(i) // kept if it is one
		count += out
		lo, hi = min(lo, in), max(hi, in)
	}
	p.width, p.base = uint(bits.Len64(uint64(hi-lo))), center+uint64(lo)
	return count
}

// appendBlock packs a block. It overwrites r.
func (e *intEncoder) appendBlock(dst []byte, r []uint64) []byte {
	plan := planBlock(r)
	count, or := 0, uint64(0)
	var pos [blockLen]uint8
	if !plan.exact {
		for _, p := range pos[:plan.narrow(r, &pos)] {
			v := r[p] - plan.base
			if v>>(plan.width&63) == 0 {
				continue
			}
			z := zigzag(int64(v))
			or |= z
			e.exc[count], pos[count] = z, p
			r[p] = plan.base
			count++
		}
	}
	if count == 0 {
		dst = binary.AppendVarint(append(dst, byte(plan.width)), int64(plan.base))
		return pack(dst, r, plan.base, plan.width)
	}
	dst = binary.AppendVarint(append(dst, byte(plan.width)|excFlag), int64(plan.base))
	width := uint(bits.Len64(or))
	dst = append(dst, byte(count-1), byte(width))
	if posBits*count >= len(r) || width > maxPaired {
		var bitmap [blockLen / 8]byte
		for _, p := range pos[:count] {
			bitmap[p/8] |= 1 << (p % 8)
		}
		dst = append(dst, bitmap[:(len(r)+7)/8]...)
	} else {
		for k, p := range pos[:count] {
			e.exc[k] = e.exc[k]<<posBits | uint64(p)
		}
		width += posBits
	}
	dst = pack(dst, e.exc[:count], 0, width)
	return pack(dst, r, plan.base, plan.width)
}
