package chunkenc

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// A column of integers, x[0] to x[n-1]. It holds timestamps, starts, decimals,
// ULPs and the bits of floats. All arithmetic is modulo 2^64, so that every
// int64 is exact.
//
//	mode <1b> | x[0] <varint> | [slope <varint>] | blocks
//
// mode is predictor | shift<<2. The residuals of x[1] to x[n-1] are, shifted
// right by shift (they share that many zeros at the low end):
//
//	delta    x[i] - x[i-1]
//	raw      x[i] - x[0]
//	linear   x[i] - x[0] - i*slope: a scrape jitters around a grid
//
// They are cut in blocks of 256, the last one shorter. shift 63 says that all
// residuals are 0 and no blocks follow. A block of m residuals:
//
//	width|exceptions<<7 <1b> | base <varint> | [exceptions] | m numbers of width bits
//
// Residual = base + number. Exceptions, whose number is 0, add to that:
//
//	count-1 <1b> | width <1b> | count times: position + zigzag<<8, of 8+width bits
//	count-1 <1b> | width <1b> | m bits, set at a position | count zigzags of width bits
//
// the second where 8*count >= m or width > 56. Numbers are packed least
// significant bit first, each run of them filled to a byte. Exceptions after "Super-Scalar RAM-CPU
// Cache Compression" (Zukowski et al., ICDE 2006).
//
// The fourth predictor stands for other forms, which shift tells apart: formBits
// (xorbits.go) and the runs (runs.go).
const (
	predDelta = iota
	predRaw
	predLinear
	predOther
	predMask = 3
)

const (
	formBits = iota
	formRunList
	formRunMap
)

const (
	blockLen   = 256
	shiftAll0  = 63 // every residual is 0
	shiftMax   = 62
	excFlag    = 1 << 7
	widthMask  = excFlag - 1
	posBits    = 8
	maxPaired  = 64 - posBits // width of exceptions that stand with their positions
	unpackOver = 7            // numbers that a kernel may write past the last
)

func zigzag(x int64) uint64   { return uint64(x)<<1 ^ uint64(x>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// nonzero gives 1 unless x is 0, without a branch.
func nonzero(x uint64) uint64 { return (x | -x) >> 63 }

var errInts = errors.New("column of integers cut short or malformed")

// intReader reads columns. It keeps scratch memory; fail is set by what does not
// fit the data.
type intReader struct {
	data []byte
	at   int
	fail bool

	num        [blockLen]int64 // exceptions of a block
	last       [64]byte        // numbers at the end of the data, filled with zeros
	vals, lens []int64         // runs of a column
}

// read appends the n integers of the column at data[at:] to dst and returns the
// offset of what follows.
func (r *intReader) read(dst []int64, data []byte, at, n int, enc Encoding) ([]int64, int, error) {
	return r.readFirst(dst, data, at, n, n, enc)
}

// readFirst is read of the first need of the n integers.
func (r *intReader) readFirst(dst []int64, data []byte, at, n, need int, enc Encoding) ([]int64, int, error) {
	r.data, r.at, r.fail = data, at, false
	out := r.column(dst, n, need, false)
	r.data = nil
	if r.fail {
		return dst, at, corrupt(enc, min(r.at, len(data)), "%w", errInts)
	}
	return out, r.at, nil
}

// column appends the first need of n integers to dst. Runs in runs are not allowed.
func (r *intReader) column(dst []int64, n, need int, inRuns bool) []int64 {
	mode := r.byte()
	pred, shift := mode&predMask, uint(mode>>2)
	if pred == predOther && shift != formBits {
		if inRuns || r.fail {
			r.fail = true
			return dst
		}
		return r.runs(dst, n, need, shift)
	}
	x0, slope := r.varint(), int64(0)
	if pred == predLinear {
		slope = r.varint()
	}
	if r.fail {
		return dst
	}
	if pred == predOther {
		need = n // bits can only be read to the end
	}
	first := len(dst)
	if cap(dst)-first < need+unpackOver {
		dst = slices.Grow(dst, need+unpackOver)
	}
	out := dst[first : first+need+unpackOver]
	out[0] = x0
	switch {
	case pred == predOther:
		r.bits(out[:n])
	case shift == shiftAll0:
		unpack(&unpackFor, out[:(need+unpackOver)&^7], nil, 0, x0, slope)
	case shift == 0:
		r.blocks(out, n, need, pred == predDelta, x0, slope)
	default:
		out[0] = 0
		r.blocks(out, n, need, pred == predDelta, 0, 0)
		acc := x0
		for i, v := range out[:need] {
			out[i] = v<<shift + acc
			acc += slope
		}
	}
	return dst[:first+need]
}

func (r *intReader) byte() byte {
	if r.at >= len(r.data) {
		r.fail = true
		return 0
	}
	r.at++
	return r.data[r.at-1]
}

func (r *intReader) varint() int64 {
	if r.at < len(r.data) && r.data[r.at] < 0x80 {
		r.at++
		return unzigzag(uint64(r.data[r.at-1]))
	}
	x, size := binary.Varint(r.data[min(r.at, len(r.data)):])
	if size <= 0 {
		r.fail = true
		return 0
	}
	r.at += size
	return x
}

// blocks reads the residuals of n integers and turns the first need of them into
// out[1:need]; out has unpackOver more to write to. Raw is linear with slope 0.
func (r *intReader) blocks(out []int64, n, need int, delta bool, acc, slope int64) {
	if !delta {
		acc += slope
	}
	for i := 1; i < n && !r.fail; i += blockLen {
		m := min(blockLen, n-i)
		var d []int64
		if i < need {
			d = out[i : i+(min(m, need-i)+7)&^7]
		}
		head, base := r.byte(), r.varint()
		width := uint(head & widthMask)
		switch {
		case head&excFlag != 0:
			r.blockSlow(d, m, width, delta, acc, base, slope)
		case delta:
			r.unpack(&unpackDelta, d, m, width, acc, base)
		default:
			r.unpack(&unpackFor, d, m, width, acc+base, slope)
		}
		if !delta {
			acc += int64(m) * slope
		} else if m <= len(d) {
			acc = d[m-1]
		}
	}
}

// unpack unpacks the first of m numbers to d, whose length is a multiple of 8 and at
// most m rounded up to one.
func (r *intReader) unpack(table *[65]kernel, d []int64, m int, width uint, acc, step int64) {
	size := (m*int(width) + 7) / 8
	src := r.data[r.at:]
	if width > 64 || size > len(src) {
		r.fail = true
		return
	}
	r.at += size
	if len(d)/8*int(width) > len(src) {
		r.unpackLast(table, d, src, m, width, acc, step)
		return
	}
	unpack(table, d, src, width, acc, step)
}

// unpackLast is unpack at the end of the data, where the last numbers are not 8.
func (r *intReader) unpackLast(table *[65]kernel, d []int64, src []byte, m int, width uint, acc, step int64) {
	whole := m &^ 7
	unpack(table, d[:whole], src, width, acc, step)
	if table == &unpackFor {
		acc += int64(whole) * step
	} else if whole > 0 {
		acc = d[whole-1]
	}
	clear(r.last[copy(r.last[:], src[whole/8*int(width):]):])
	unpack(table, d[whole:], r.last[:], width, acc, step)
}

// blockSlow is the block with exceptions.
func (r *intReader) blockSlow(d []int64, m int, width uint, delta bool, acc, base, slope int64) {
	count, excWidth := int(r.byte())+1, uint(r.byte())
	if count > m {
		r.fail = true
		return
	}
	num := r.num[:count]
	mapped := posBits*count >= m || excWidth > maxPaired
	var bitmap []byte
	if mapped {
		bitmap = r.bitmap(m, count)
	} else {
		excWidth += posBits
	}
	r.unpack(&unpackFor, r.num[:(count+7)&^7], count, excWidth, 0, 0)
	if delta {
		r.unpack(&unpackFor, d, m, width, base, 0)
	} else {
		r.unpack(&unpackFor, d, m, width, acc+base, slope)
	}
	if r.fail {
		return
	}
	if mapped {
		patchMap(d, num, bitmap)
	} else {
		for _, v := range num {
			p := int(v & (blockLen - 1))
			if p >= m {
				r.fail = true
				return
			}
			if p < len(d) { // else it is not needed
				d[p] += unzigzag(uint64(v) >> posBits)
			}
		}
	}
	if delta {
		for i, v := range d {
			acc += v
			d[i] = acc
		}
	}
}

// bitmap takes the bitmap of the positions of count exceptions of m.
func (r *intReader) bitmap(m, count int) []byte {
	size := (m + 7) / 8
	if size > len(r.data)-r.at {
		r.fail = true
		return nil
	}
	bitmap := r.data[r.at : r.at+size]
	r.at += size
	k := 0
	for _, b := range bitmap {
		k += bits.OnesCount8(b)
	}
	r.fail = r.fail || k != count
	return bitmap
}

// patchMap adds the numbers at the positions of the bits set. It goes by words: their end
// is foretold more often than that of a byte.
func patchMap(d, num []int64, bitmap []byte) {
	k := 0
	for i := 0; i < len(bitmap); i += 8 {
		for b := word(bitmap[i:]); b != 0; b &= b - 1 {
			p := 8*i + bits.TrailingZeros64(b)
			if p >= len(d) {
				return // not needed
			}
			d[p] += unzigzag(uint64(num[k]))
			k++
		}
	}
}

// word gives the first 8 bytes of b, as if zeros followed.
func word(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var last [8]byte
	copy(last[:], b)
	return binary.LittleEndian.Uint64(last[:])
}

// intEncoder makes columns of integers. It keeps scratch memory.
type intEncoder struct {
	r          []uint64 // residuals
	exc        [blockLen]uint64
	probe      probe
	vals, lens []int64 // runs
	alt        []byte  // another form of a column
}

// appendBlocks appends the column of x, which is not empty, in blocks.
func (e *intEncoder) appendBlocks(dst []byte, x []int64, times bool) []byte {
	pred, slope, or := e.predict(x, times)
	shift := uint(shiftAll0)
	if or != 0 {
		shift = min(uint(bits.TrailingZeros64(or)), shiftMax)
		if shift > 0 && allSame(e.r) { // the base of the blocks holds it all
			shift = 0
		}
	}
	dst = append(dst, byte(pred)|byte(shift)<<2)
	dst = binary.AppendVarint(dst, x[0])
	if pred == predLinear {
		dst = binary.AppendVarint(dst, slope)
	}
	if shift == shiftAll0 {
		return dst
	}
	r := e.r
	if shift > 0 {
		for i, v := range r {
			r[i] = uint64(int64(v) >> shift)
		}
	}
	for len(r) > 0 {
		m := min(blockLen, len(r))
		dst = e.appendBlock(dst, r[:m])
		r = r[m:]
	}
	return dst
}

func allSame(r []uint64) bool {
	for _, v := range r {
		if v != r[0] {
			return false
		}
	}
	return true
}

// appendTimes is appendBlocks, but never longer than the timestamps of an XOR chunk.
func (e *intEncoder) appendTimes(dst []byte, t []int64) []byte {
	start := len(dst)
	dst = e.appendBlocks(dst, t, true)
	if size := 800 * (len(dst) - start) / 102; timeLeastBits(t, size) < size && timeBits(t) < size {
		dst = append(dst[:start], predOther|formBits<<2)
		dst = binary.AppendVarint(dst, t[0])
		dst = appendTimeBits(dst, t)
	}
	return dst
}

// So many residuals of each predictor are looked at to choose one: all of a short
// column, samples of another.
const (
	samplesAll = 64
	samples    = 32
)

// probe holds the residuals of each predictor that are looked at.
type probe struct{ delta, raw, linear [samplesAll]int64 }

// predict fills e.r with the residuals of the predictor that looks cheapest and
// returns it, its slope, and the OR of the residuals. Timestamps are not tried raw.
func (e *intEncoder) predict(x []int64, times bool) (pred int, slope int64, or uint64) {
	n := len(x) - 1
	e.r = slices.Grow(e.r[:0], n)[:n]
	if n == 0 {
		return predRaw, 0, 0
	}
	if n > 2 {
		slope = (x[n] - x[0]) / int64(n)
	}
	k := e.probe.take(x, slope)
	pred, cost := predRaw, 1<<30
	if !times || n < 3 {
		cost = spread(e.probe.raw[:k])
	}
	if slope != 0 {
		// The slope costs about 16 bits, but where all is on the line there are no blocks.
		c := spread(e.probe.linear[:k])
		if c > 0 {
			c += 16 * k / n
		}
		if c < cost {
			cost, pred = c, predLinear
		}
	}
	// Sums take longer, above all around exceptions.
	if c := spread(e.probe.delta[:k]); 33*c < 32*cost {
		pred = predDelta
	}
	if pred != predLinear {
		slope = 0
	}
	return pred, slope, residuals(e.r, x, pred, slope)
}

// take looks at few integers all. Of more it takes one of every stretch, at changing
// places in it, so that no pattern in the column falls in step with them. It returns
// how many it took.
func (p *probe) take(x []int64, slope int64) int {
	n, k := len(x)-1, samples
	if n <= samplesAll {
		k = n
	}
	for i := range k {
		at := 1 + i
		if n > samplesAll {
			at += (i*(n-samples) + int(uint32(i)*0x9E3779B9>>16)*n>>16) / samples
		}
		two := x[at-1:][:2]
		raw := two[1] - x[0]
		p.delta[i], p.raw[i], p.linear[i] = two[1]-two[0], raw, raw-int64(at)*slope
	}
	return k
}

// spread adds up the lengths of the distances from the middle.
func spread(r []int64) (sum int) {
	c := median3(r[len(r)/4], r[len(r)/2], r[len(r)-1-len(r)/4])
	or := int64(0)
	for _, v := range r {
		d := v - c
		or |= d ^ d>>63
		sum += int(floatExponent(d) & exponentMask)
	}
	if or>>shortBound == 0 {
		return sum - len(r)*exponentOfOne
	}
	sum = 0
	for _, v := range r {
		sum += magnitude(v - c)
	}
	return sum
}

func residuals(r []uint64, x []int64, pred int, slope int64) (or uint64) {
	switch pred {
	case predDelta:
		prev := x[0]
		for i, v := range x[1:] {
			d := uint64(v - prev)
			r[i] = d
			or |= d
			prev = v
		}
	default:
		acc := x[0]
		for i, v := range x[1:] {
			acc += slope
			d := uint64(v - acc)
			r[i] = d
			or |= d
		}
	}
	return or
}

func median3(x, y, z int64) int64 { return max(min(x, y), min(max(x, y), z)) }
