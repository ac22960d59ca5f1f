package chunkenc

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/value"
)

// A column of values takes one of these schemes; the number stands in the high
// six bits of the chunk's flags. e is 0 to 14.
//
//	 0    bits      ints: the bits of the floats, mapped so that they keep their order
//	 1    const     <8b>: every value is this one
//	 2    xor       the bit stream of an XOR chunk's values, where all else is longer
//	 3    plain     <8b> each: the raw encoding
//	16+e  constdec  <varint> i: every value is i / 10^e
//	32+e  decimal   exceptions | ints: the value is i / 10^e
//	48+e  ulp       exceptions | ints | ints: i / 10^e, then steps to the next float
//
// Division of two exact floats rounds correctly, so every number of up to 15
// digits that was scraped from text comes back bit by bit (multiplying by 10^-e
// would not do that). The second column of ulp counts in units in the last place
// from there: sums of decimals.
//
// Exceptions are the values that this does not reach (stale markers, NaNs, -0):
//
//	count <uvarint> | count times: gap<<1|stale <uvarint> | [bits <8b>]
//
// gap counts samples since the exception before; stale is the stale marker, which
// needs no bits.
const (
	schemeBits     = 0
	schemeConst    = 1
	schemeXOR      = 2
	schemePlain    = 3
	schemeConstDec = 16
	schemeDecimal  = 32
	schemeULP      = 48
)

// maxExp is the largest e.
const maxExp = 14

// maxDecimal bounds |i|: below it one addition rounds to the nearest integer.
const maxDecimal = 1 << 51

// roundBits, added to a float below maxDecimal, leaves its nearest integer in the low bits.
const roundBits = 3 << 51

var pow10 = [maxExp + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14}

// ordered maps the bits of a float to an integer that orders as the floats do, and back.
func ordered(u uint64) int64 { return int64(u ^ uint64(int64(u)>>63)>>1) }

// nearest gives the integer nearest to v*10^e, or ok false when it is too large.
func nearest(v, p float64) (i int64, ok bool) {
	f := v * p
	if !(math.Abs(f) < maxDecimal) {
		return 0, false
	}
	return int64(math.Float64bits(f+roundBits)) - int64(math.Float64bits(roundBits)), true
}

// appendValues appends the values in the cheapest scheme and returns it.
func (e *Encoder) appendValues(dst []byte, v []float64) ([]byte, byte) {
	if isConst(v) {
		return appendConst(dst, v[0])
	}
	start := len(dst)
	dst, scheme := e.appendDecimal(dst, v)
	size := len(dst) - start
	if scheme != schemeBits && size > 3*len(v) {
		e.alt = e.appendBits(e.alt[:0], v)
		if len(e.alt) < size {
			dst, scheme = append(dst[:start], e.alt...), schemeBits
			size = len(e.alt)
		}
	}
	if most := 800 * size / 102; valueLeastBits(v, most) < most && valueBits(v) < most {
		return appendValueBits(dst[:start], v), schemeXOR
	}
	return dst, scheme
}

func isConst(v []float64) bool {
	first := math.Float64bits(v[0])
	for ; len(v) >= 8; v = v[8:] {
		u := (*[8]float64)(v)
		if (math.Float64bits(u[0])^first)|(math.Float64bits(u[1])^first)|
			(math.Float64bits(u[2])^first)|(math.Float64bits(u[3])^first)|
			(math.Float64bits(u[4])^first)|(math.Float64bits(u[5])^first)|
			(math.Float64bits(u[6])^first)|(math.Float64bits(u[7])^first) != 0 {
			return false
		}
	}
	for _, f := range v {
		if math.Float64bits(f) != first {
			return false
		}
	}
	return true
}

func appendConst(dst []byte, v float64) ([]byte, byte) {
	for exp, p := range pow10 {
		i, ok := nearest(v, p)
		if !ok {
			break
		}
		if math.Float64bits(float64(i)/p) == math.Float64bits(v) {
			return binary.AppendVarint(dst, i), schemeConstDec + byte(exp)
		}
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v)), schemeConst
}

func (e *Encoder) appendBits(dst []byte, v []float64) []byte {
	e.x = slices.Grow(e.x[:0], len(v))[:len(v)]
	for i, f := range v {
		e.x[i] = ordered(math.Float64bits(f))
	}
	return e.ints.append(dst, e.x)
}

// appendDecimal appends the values as decimals, with ULPs if need be, or else as bits.
func (e *Encoder) appendDecimal(dst []byte, v []float64) ([]byte, byte) {
	if exp := exponent(v, 0); exp >= 0 {
		if out, ok := e.tryDecimal(dst, v, exp); ok {
			return out, schemeDecimal + byte(exp)
		}
	}
	if exp := exponent(v, nearULPs); exp >= 0 {
		if out, ok := e.tryULP(dst, v, exp); ok {
			return out, schemeULP + byte(exp)
		}
	}
	return e.appendBits(dst, v), schemeBits
}

const (
	// nearULPs is how far from a decimal a sum of decimals may be for the ulp scheme
	// to be tried.
	nearULPs = 1 << 8
	// probes is how many values the exponent is guessed from; first so many of them
	// are looked at one by one.
	probes      = 16
	probesFirst = 4
)

// exponent gives the least exponent that brings nine tenths of a few values within
// off ULPs of a decimal, or -1.
func exponent(v []float64, off int64) int {
	var at [maxExp + 2]int // how many probes need this exponent; the last: none will do
	n := min(len(v), probes)
	usual := 0
	for k := range n {
		f := v[k]
		if n == probes {
			f = v[k*(len(v)-1)/(probes-1)]
		}
		exp := 0
		if k >= probesFirst {
			exp = usual // what is exact there is exact above
		}
		for exp <= maxExp && !isNear(f, pow10[exp], off) {
			exp++
		}
		at[exp]++
		if k == probesFirst-1 {
			usual = covers(&at, probesFirst-1) // one of the first may be odd
		}
		if at[maxExp+1] > n/8+1 {
			return -1
		}
	}
	if exp := covers(&at, (9*n+9)/10); exp <= maxExp {
		return exp
	}
	return -1
}

// covers gives the least exponent that serves so many probes.
func covers(at *[maxExp + 2]int, many int) int {
	sum := 0
	for exp, k := range at {
		if sum += k; sum >= many {
			return exp
		}
	}
	return maxExp + 1
}

// isNear says whether f is within off ULPs of a decimal, and not by chance: decimals are
// 2^52/|i| ULPs apart, at least, and it is within an eighth of that.
func isNear(f, p float64, off int64) bool {
	i, ok := nearest(f, p)
	g := math.Float64bits(float64(i) / p)
	if ok && g == math.Float64bits(f) {
		return true
	}
	d := ordered(math.Float64bits(f)) - ordered(g)
	return ok && -off <= d && d <= off && max(d, -d)*max(i, -i) <= 1<<49
}

// tryDecimal appends the values as decimals, unless too many are none.
func (e *Encoder) tryDecimal(dst []byte, v []float64, exp int) ([]byte, bool) {
	p := pow10[exp]
	e.x = slices.Grow(e.x[:0], len(v))[:len(v)]
	e.exc = e.exc[:0]
	last, x := int64(0), e.x
	for k, f := range v {
		i, ok := nearest(f, p)
		g := float64(i)
		if exp > 0 {
			g /= p
		}
		if !ok || math.Float64bits(g) != math.Float64bits(f) {
			e.exc = append(e.exc, k)
			i = last
		}
		x[k], last = i, i
	}
	if len(e.exc) > 2+len(v)/8 {
		return dst, false
	}
	e.backFill()
	dst = appendExceptions(dst, e.exc, v)
	return e.ints.append(dst, e.x), true
}

// backFill gives exceptions at the start the integer of the first that is none.
func (e *Encoder) backFill() {
	k := 0
	for k < len(e.exc) && e.exc[k] == k {
		k++
	}
	if k < len(e.x) {
		for i := range k {
			e.x[i] = e.x[k]
		}
	}
}

// tryULP appends the values as decimals and ULPs, unless too many are too far off.
func (e *Encoder) tryULP(dst []byte, v []float64, exp int) ([]byte, bool) {
	p := pow10[exp]
	e.x = slices.Grow(e.x[:0], len(v))[:len(v)]
	e.ulps = slices.Grow(e.ulps[:0], len(v))[:len(v)]
	e.exc = e.exc[:0]
	last := int64(0)
	for k, f := range v {
		i, ok := nearest(f, p)
		d := ordered(math.Float64bits(f)) - ordered(math.Float64bits(float64(i)/p))
		if !ok || d < -1<<32 || d > 1<<32 {
			e.exc = append(e.exc, k)
			i, d = last, 0
		}
		e.x[k], e.ulps[k], last = i, d, i
	}
	if len(e.exc) > 2+len(v)/8 {
		return dst, false
	}
	e.backFill()
	dst = appendExceptions(dst, e.exc, v)
	return e.ints.append(e.ints.append(dst, e.x), e.ulps), true
}

func appendExceptions(dst []byte, exc []int, v []float64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(exc)))
	last := 0
	for _, k := range exc {
		gap := uint64(k-last) << 1
		last = k
		u := math.Float64bits(v[k])
		if u == value.StaleNaN {
			dst = binary.AppendUvarint(dst, gap|1)
			continue
		}
		dst = binary.AppendUvarint(dst, gap)
		dst = binary.LittleEndian.AppendUint64(dst, u)
	}
	return dst
}

// readExceptions skips the exceptions at data[at:], which are of n values, and
// returns how many they are and the offset of what follows.
func readExceptions(data []byte, at, n int, enc Encoding) (count, next int, err error) {
	c, size := binary.Uvarint(data[at:])
	if size <= 0 || c > uint64(n) {
		return 0, at, corrupt(enc, at, "count of exceptions")
	}
	next = at + size
	k := uint64(0)
	for range c {
		gap, size := binary.Uvarint(data[next:])
		k += gap >> 1
		if size <= 0 || gap>>1 >= uint64(n) || k >= uint64(n) {
			return 0, at, corrupt(enc, next, "exception out of place")
		}
		if next += size; gap&1 == 0 {
			next += 8
		}
		if next > len(data) {
			return 0, at, corrupt(enc, len(data), "exceptions cut short")
		}
	}
	return int(c), next, nil
}

// patchExceptions sets the count exceptions at data[at:], which readExceptions has seen.
func patchExceptions(out []float64, data []byte, at, count int) {
	_, size := binary.Uvarint(data[at:])
	at += size
	k := 0
	for range count {
		gap, size := binary.Uvarint(data[at:])
		at += size
		if k += int(gap >> 1); k >= len(out) {
			return // not needed
		}
		u := value.StaleNaN
		if gap&1 == 0 {
			u = binary.LittleEndian.Uint64(data[at:])
			at += 8
		}
		out[k] = math.Float64frombits(u)
	}
}

// readValues appends the first need of the n values of the column at data[at:] to
// dst and returns the offset of what follows; with need < n, any offset.
func (d *Decoder) readValues(dst []float64, data []byte, at, n, need int, h *header) ([]float64, int, error) {
	scheme, enc := h.flags>>schemeShift, h.enc
	first := len(dst)
	if cap(dst)-first < need {
		dst = slices.Grow(dst, need)
	}
	grown := dst[:first+need]
	out := grown[first:]
	exp := scheme & 15
	var err error
	switch {
	case scheme == schemeBits:
		if d.ints, at, err = d.r.readFirst(d.ints[:0], data, at, n, need, enc); err == nil {
			for i, x := range d.ints[:need] {
				out[i] = math.Float64frombits(uint64(ordered(uint64(x))))
			}
		}
	case scheme == schemeXOR:
		at, err = readValueBits(out, data, at, enc)
	case scheme == schemePlain:
		at, err = readPlain(out, data, at, enc)
	case scheme == schemeConst:
		if len(data)-at < 8 {
			return dst, at, corrupt(enc, at, "value cut short")
		}
		fill(out, math.Float64frombits(binary.LittleEndian.Uint64(data[at:])))
		at += 8
	case scheme < schemeConstDec || exp > maxExp:
		return dst, at, corrupt(enc, 1, "unknown scheme %d of values", scheme)
	case scheme < schemeDecimal:
		i, size := binary.Varint(data[at:])
		if size <= 0 {
			return dst, at, corrupt(enc, at, "value cut short")
		}
		fill(out, float64(i)/pow10[exp])
		at += size
	default:
		at, err = d.readDecimal(out, data, at, n, enc, pow10[exp], scheme >= schemeULP)
	}
	if err != nil {
		return dst, at, err
	}
	return grown, at, nil
}

func fill[E any](out []E, v E) {
	eight := [8]E{v, v, v, v, v, v, v, v} // stored in vectors
	for len(out) >= 8 {
		*(*[8]E)(out) = eight
		out = out[8:]
	}
	for i := range out {
		out[i] = v
	}
}

// readDecimal reads the first of n values of the schemes decimal and ulp to out.
func (d *Decoder) readDecimal(out []float64, data []byte, at, n int, enc Encoding, p float64, ulp bool) (int, error) {
	excAt, count := at, 0
	var err error
	if at < len(data) && data[at] == 0 {
		at++
	} else if count, at, err = readExceptions(data, at, n, enc); err != nil {
		return at, err
	}
	if at, err = d.readScaled(out, data, at, n, enc, p); err != nil {
		return at, err
	}
	if ulp {
		if d.ints, at, err = d.r.readFirst(d.ints[:0], data, at, n, len(out), enc); err != nil {
			return at, err
		}
		for i, x := range d.ints[:len(out)] {
			out[i] = math.Float64frombits(uint64(ordered(uint64(ordered(math.Float64bits(out[i])) + x))))
		}
	}
	if count > 0 {
		patchExceptions(out, data, excAt, count)
	}
	return at, nil
}

// readScaled reads the first of a column of n integers to out, each divided by p. Of
// runs it divides each value once.
func (d *Decoder) readScaled(out []float64, data []byte, at, n int, enc Encoding, p float64) (next int, err error) {
	form := formRunList - 1
	if at < len(data) && data[at]&predMask == predOther {
		form = int(data[at] >> 2)
	}
	if form != formRunList && form != formRunMap {
		d.ints, next, err = d.r.readFirst(d.ints[:0], data, at, n, len(out), enc)
		if err == nil {
			scale(out, d.ints, p)
		}
		return next, err
	}
	bitmap, next, err := d.r.readRuns(data, at, n, uint(form), enc)
	if err != nil {
		return at, err
	}
	k := len(d.r.vals)
	if cap(d.vals) < k {
		d.vals = slices.Grow(d.vals[:0], k)
	}
	vals := d.vals[:k]
	scale(vals, d.r.vals, p)
	if bitmap != nil {
		spreadMap(out, vals, bitmap)
	} else {
		spreadList(out, vals, d.r.lens)
	}
	return next, nil
}

func scale(out []float64, x []int64, p float64) {
	x = x[:len(out)]
	if p == 1 {
		for i, v := range x {
			out[i] = float64(v)
		}
		return
	}
	for i, v := range x {
		out[i] = float64(v) / p
	}
}
