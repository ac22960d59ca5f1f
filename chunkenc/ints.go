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
// They are cut in blocks of 128, the last one shorter. shift 63 says that all
// residuals are 0 and no blocks follow. A block of m residuals:
//
//	width|exceptions<<7 <1b> | base <varint> | [exceptions] | m numbers of width bits
//
// Residual = base + number. Exceptions, whose number is 0, add to that:
//
//	count-1 <1b> | width <1b> | count times: position + zigzag<<7, of 7+width bits
//	count-1 <1b> | width <1b> | m bits, set at a position | count zigzags of width bits
//
// the second where 7*count >= m or width > 57. Numbers are packed least
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
	blockLen   = 128
	shiftAll0  = 63 // every residual is 0
	shiftMax   = 62
	excFlag    = 1 << 7
	widthMask  = excFlag - 1
	excHeader  = 16 // bits before the exceptions
	posBits    = 7
	maxPaired  = 64 - posBits // width of exceptions that stand with their positions
	unpackOver = 7            // numbers that a kernel may write past the last
)

func zigzag(x int64) uint64   { return uint64(x)<<1 ^ uint64(x>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

var errInts = errors.New("column of integers cut short or malformed")

// intReader reads columns. It keeps scratch memory; fail is set by what does not
// fit the data.
type intReader struct {
	data []byte
	at   int
	fail bool

	num        [blockLen]int64 // exceptions of a block
	vals, lens []int64         // runs of a column
}

// read appends the n integers of the column at data[at:] to dst and returns the
// offset of what follows.
func (r *intReader) read(dst []int64, data []byte, at, n int, enc Encoding) ([]int64, int, error) {
	r.data, r.at, r.fail = data, at, false
	out := r.column(dst, n, false)
	r.data = nil
	if r.fail {
		return dst, at, corrupt(enc, min(r.at, len(data)), "%w", errInts)
	}
	return out, r.at, nil
}

// column appends n integers to dst. Runs in runs are not allowed.
func (r *intReader) column(dst []int64, n int, inRuns bool) []int64 {
	mode := r.byte()
	pred, shift := mode&predMask, uint(mode>>2)
	if pred == predOther && shift != formBits {
		if inRuns || r.fail {
			r.fail = true
			return dst
		}
		return r.runs(dst, n, shift)
	}
	x0, slope := r.varint(), int64(0)
	if pred == predLinear {
		slope = r.varint()
	}
	if r.fail {
		return dst
	}
	first := len(dst)
	if cap(dst)-first < n+unpackOver {
		dst = slices.Grow(dst, n+unpackOver)
	}
	out := dst[first : first+n+unpackOver]
	out[0] = x0
	switch {
	case pred == predOther:
		r.bits(out[:n])
	case shift == shiftAll0:
		fillFor(out[:(n+unpackOver)&^7], x0, slope)
	case shift == 0:
		r.blocks(out, n, pred == predDelta, x0, slope)
	default:
		out[0] = 0
		r.blocks(out, n, pred == predDelta, 0, 0)
		acc := x0
		for i, v := range out[:n] {
			out[i] = v<<shift + acc
			acc += slope
		}
	}
	return dst[:first+n]
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

// blocks reads the residuals of out[1:n] and turns them into integers; out has
// unpackOver more to write to. Raw is linear with slope 0.
func (r *intReader) blocks(out []int64, n int, delta bool, acc, slope int64) {
	if !delta {
		acc += slope
	}
	for i := 1; i < n && !r.fail; i += blockLen {
		m := min(blockLen, n-i)
		d := out[i : i+(m+7)&^7]
		head, base := r.byte(), r.varint()
		width := uint(head & widthMask)
		switch {
		case head&excFlag != 0:
			r.blockSlow(d, m, width, delta, acc, base, slope)
		case delta:
			r.unpack(d, m, width, true, acc, base)
		default:
			r.unpack(d, m, width, false, acc+base, slope)
		}
		if delta {
			acc = d[m-1]
		} else {
			acc += int64(m) * slope
		}
	}
}

// unpack unpacks m numbers to d, which is m rounded up to a multiple of 8 long.
func (r *intReader) unpack(d []int64, m int, width uint, delta bool, acc, step int64) {
	size := (m*int(width) + 7) / 8
	if width > 64 || size > len(r.data)-r.at {
		r.fail = true
		return
	}
	src := r.data[r.at:]
	r.at += size
	if len(d)/8*int(width) > len(src) { // the last numbers are not 8, and the data end there
		whole := m &^ 7
		var last [64]byte
		copy(last[:], src[whole/8*int(width):size])
		if whole > 0 {
			unpackEither(d[:whole], src, width, delta, acc, step)
			if delta {
				acc = d[whole-1]
			} else {
				acc += int64(whole) * step
			}
		}
		d, src = d[whole:], last[:]
	}
	unpackEither(d, src, width, delta, acc, step)
}

func unpackEither(d []int64, src []byte, width uint, delta bool, acc, step int64) {
	if delta {
		unpackDelta(d, src, width, acc, step)
	} else {
		unpackFor(d, src, width, acc, step)
	}
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
	r.unpack(r.num[:(count+7)&^7], count, excWidth, false, 0, 0)
	if delta {
		r.unpack(d, m, width, false, base, 0)
	} else {
		r.unpack(d, m, width, false, acc+base, slope)
	}
	if r.fail {
		return
	}
	if mapped {
		patchMap(d, num, bitmap)
	} else {
		for _, v := range num {
			p := v & (blockLen - 1)
			if int(p) >= len(d) {
				r.fail = true
				return
			}
			d[p] += unzigzag(uint64(v) >> posBits)
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

// patchMap adds the numbers at the positions of the bits set.
func patchMap(d, num []int64, bitmap []byte) {
	k := 0
	for i, b := range bitmap {
		for ; b != 0; b &= b - 1 {
			d[8*i+bits.TrailingZeros8(b)] += unzigzag(uint64(num[k]))
			k++
		}
	}
}

// intEncoder makes columns of integers. It keeps scratch memory.
type intEncoder struct {
	r          []uint64 // residuals
	exc        [blockLen]uint64
	vals, lens []int64 // runs
	alt        []byte  // another form of a column
}

// appendBlocks appends the column of x, which is not empty, in blocks.
func (e *intEncoder) appendBlocks(dst []byte, x []int64) []byte {
	pred, slope, or := e.predict(x)
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
	dst = e.appendBlocks(dst, t)
	if size := 800 * (len(dst) - start) / 102; timeLeastBits(t, size) < size && timeBits(t) < size {
		dst = append(dst[:start], predOther|formBits<<2)
		dst = binary.AppendVarint(dst, t[0])
		dst = appendTimeBits(dst, t)
	}
	return dst
}

// samples is how many residuals of each predictor are looked at to choose one.
const samples = 32

// predict fills e.r with the residuals of the predictor that looks cheapest and
// returns it, its slope, and the OR of the residuals.
func (e *intEncoder) predict(x []int64) (pred int, slope int64, or uint64) {
	n := len(x) - 1
	e.r = slices.Grow(e.r[:0], n)[:n]
	if n == 0 {
		return predRaw, 0, 0
	}
	if n > 2 {
		slope = (x[n] - x[0]) / int64(n)
	}
	// Fewer than samples: every one. Else from the middles of as many parts.
	var delta, raw, linear [samples]int64
	k := min(n, samples)
	for i := range k {
		at := 1 + (2*i+1)*n/(2*k)
		delta[i], raw[i] = x[at]-x[at-1], x[at]-x[0]
		linear[i] = raw[i] - int64(at)*slope
	}
	cost := spread(raw[:k])
	pred = predRaw
	if slope != 0 {
		// The slope and its field cost about 16 bits.
		if c := spread(linear[:k]) + 16*k/n; c < cost {
			cost, pred = c, predLinear
		}
	}
	// Sums take longer, above all around exceptions.
	if c := spread(delta[:k]); 33*c < 32*cost {
		pred = predDelta
	}
	if pred != predLinear {
		slope = 0
	}
	return pred, slope, residuals(e.r, x, pred, slope)
}

// spread adds up the lengths of the distances from the middle.
func spread(r []int64) (sum int) {
	c := median3(r[len(r)/4], r[len(r)/2], r[len(r)-1-len(r)/4])
	for _, v := range r {
		sum += bits.Len64(zigzag(v - c))
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

// blockPlan says how a block is to be packed.
type blockPlan struct {
	width uint   // of the numbers
	base  uint64 // smallest residual that is no exception
	exact bool   // there are no exceptions
}

// An exception costs its position, its number, and excCost for the time that
// decoding it takes; narrow blocks are not looked at.
const (
	excCost   = 4
	narrowest = 3
)

// planBlock looks at how wide the residuals are around the middle one and takes the
// width that costs least, exceptions counted.
func planBlock(r []uint64) blockPlan {
	m := len(r)
	c := uint64(median3(int64(r[m/4]), int64(r[m/2]), int64(r[m-1-m/4])))
	var lo, hi int64
	for _, v := range r {
		d := int64(v - c)
		lo, hi = min(lo, d), max(hi, d)
	}
	full := bits.Len64(uint64(hi - lo))
	plan := blockPlan{width: uint(full), base: c + uint64(lo), exact: true}
	if full < narrowest {
		return plan
	}
	// One width less than magnitude and sign: the range of the inliers decides.
	var hist [64]uint8
	for _, v := range r {
		d := int64(v - c)
		hist[bits.Len64(uint64(d^d>>63))&63]++
	}
	top := bits.Len64(uint64(max(hi, ^lo)))
	least := m*full - 2*excHeader
	width, count := -1, 0
	for w := top; w > 0 && count <= m/2; w-- {
		count += int(hist[w&63])
		// Magnitudes below w bits: w bits with the sign.
		if cost := m*w + min(posBits*count, m) + count*(top+1+excCost); cost < least {
			least, width = cost, w
		}
	}
	if width < 0 {
		return plan
	}
	lo, hi = 0, 0
	for _, v := range r {
		d := int64(v - c)
		if bits.Len64(uint64(d^d>>63)) < width {
			lo, hi = min(lo, d), max(hi, d)
		}
	}
	return blockPlan{width: uint(bits.Len64(uint64(hi - lo))), base: c + uint64(lo)}
}

func median3(x, y, z int64) int64 { return max(min(x, y), min(max(x, y), z)) }

// appendBlock packs a block. It overwrites r.
func (e *intEncoder) appendBlock(dst []byte, r []uint64) []byte {
	plan := planBlock(r)
	if plan.exact {
		dst = binary.AppendVarint(append(dst, byte(plan.width)), int64(plan.base))
		for i, v := range r {
			r[i] = v - plan.base
		}
		return pack(dst, r, plan.width)
	}
	var bitmap [blockLen / 8]byte
	var pos [blockLen]uint8
	count, or := 0, uint64(0)
	for i, v := range r {
		v -= plan.base
		r[i] = v
		if v>>plan.width != 0 {
			z := zigzag(int64(v))
			e.exc[count], pos[count] = z, uint8(i)
			bitmap[i/8] |= 1 << (i % 8)
			or |= z
			count++
			r[i] = 0
		}
	}
	if count == 0 { // the base that the inliers have takes the others in
		return pack(binary.AppendVarint(append(dst, byte(plan.width)), int64(plan.base)), r, plan.width)
	}
	dst = binary.AppendVarint(append(dst, byte(plan.width)|excFlag), int64(plan.base))
	width := uint(bits.Len64(or))
	dst = append(dst, byte(count-1), byte(width))
	if posBits*count >= len(r) || width > maxPaired {
		dst = append(dst, bitmap[:(len(r)+7)/8]...)
	} else {
		for k, p := range pos[:count] {
			e.exc[k] = e.exc[k]<<posBits | uint64(p)
		}
		width += posBits
	}
	dst = pack(dst, e.exc[:count], width)
	return pack(dst, r, plan.width)
}
