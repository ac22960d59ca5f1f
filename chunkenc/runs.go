package chunkenc

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// A column of integers (see ints.go) that often repeat is one of runs:
//
//	runs, list     mode <1b> | k-1 <uvarint> | column of the lengths of all runs but the last | column of the k values
//	runs, bitmap   mode <1b> | n-1 bits | column of the k values
//
// Bit i of the bitmap, least significant first, says that x[i+1] differs from x[i].
// The columns in it are no runs again.

// runsLeast is the shortest column that is looked at for runs.
const runsLeast = 8

// append appends the column of x, which is not empty, as blocks or as runs.
func (e *intEncoder) append(dst []byte, x []int64) []byte {
	n := len(x)
	k, prev := 1, x[0]
	for _, v := range x {
		k += int(differ(prev, v))
		prev = v
	}
	if n < runsLeast || k == 1 || 3*k > 2*n {
		return e.appendBlocks(dst, x, false)
	}
	e.findRuns(x)
	start := len(dst)
	if bitmap := (n + 6) / 8; k < n/4 {
		dst = binary.AppendUvarint(append(dst, predOther|formRunList<<2), uint64(k-1))
		dst = e.appendBlocks(dst, e.lens, false)
		if len(dst)-start > 1+bitmap {
			dst = appendRunMap(append(dst[:start], predOther|formRunMap<<2), x)
		}
	} else {
		dst = appendRunMap(append(dst, predOther|formRunMap<<2), x)
	}
	dst = e.appendBlocks(dst, e.vals, false)
	if 8*k <= n {
		return dst // blocks would not do better
	}
	e.alt = e.appendBlocks(e.alt[:0], x, false)
	if len(e.alt) <= len(dst)-start {
		dst = append(dst[:start], e.alt...)
	}
	return dst
}

// findRuns fills e.vals and e.lens with the runs of x, the last length left out. Where
// runs end, which no processor foretells, costs no branch: what is not the last of its
// run is written over.
func (e *intEncoder) findRuns(x []int64) {
	n := len(x)
	e.vals, e.lens = slices.Grow(e.vals[:0], n), slices.Grow(e.lens[:0], n)
	vals, ends := e.vals[:n], e.lens[:n]
	k, prev := 0, x[0]
	for i, v := range x {
		k += int(differ(prev, v))
		vals[k], ends[k] = v, int64(i)
		prev = v
	}
	last := int64(-1)
	for i, end := range ends[:k] {
		ends[i], last = end-last, end
	}
	e.vals, e.lens = vals[:k+1], ends[:k]
}

func appendRunMap(dst []byte, x []int64) []byte {
	for ; len(x) >= 9; x = x[8:] {
		q := (*[9]int64)(x)
		dst = append(dst, byte(differ(q[0], q[1])|differ(q[1], q[2])<<1|differ(q[2], q[3])<<2|differ(q[3], q[4])<<3|
			differ(q[4], q[5])<<4|differ(q[5], q[6])<<5|differ(q[6], q[7])<<6|differ(q[7], q[8])<<7))
	}
	if len(x) < 2 {
		return dst
	}
	var b uint64
	for j := 1; j < len(x); j++ {
		b |= differ(x[j-1], x[j]) << (j - 1)
	}
	return append(dst, byte(b))
}

// differ is 1 where x and y are not the same, else 0, without a branch.
func differ(x, y int64) uint64 { return nonzero(uint64(x ^ y)) }

// runs reads the first need of n integers of a column of runs after its mode.
func (r *intReader) runs(dst []int64, n, need int, form uint) []int64 {
	first := len(dst)
	if cap(dst)-first < need {
		dst = slices.Grow(dst, need)
	}
	out := dst[first : first+need]
	bitmap := r.runParts(n, form)
	switch {
	case r.fail:
	case bitmap != nil:
		spreadMap(out, r.vals, bitmap)
	default:
		spreadList(out, r.vals, r.lens)
	}
	return dst[:first+need]
}

// readRuns reads the parts of the column of runs at data[at:] and returns the
// offset of what follows; see runParts.
func (r *intReader) readRuns(data []byte, at, n int, form uint, enc Encoding) (bitmap []byte, next int, err error) {
	r.data, r.at, r.fail = data, at+1, false
	bitmap = r.runParts(n, form)
	r.data = nil
	if r.fail {
		return nil, at, corrupt(enc, min(r.at, len(data)), "%w", errInts)
	}
	return bitmap, r.at, nil
}

// runParts reads what a column of runs of n integers consists of: r.vals, and a
// bitmap or, when that is nil, r.lens, whose sum is less than n.
func (r *intReader) runParts(n int, form uint) (bitmap []byte) {
	k := 0
	switch form {
	case formRunList:
		u, size := binary.Uvarint(r.data[r.at:])
		if size <= 0 || u < 1 || u >= uint64(n) {
			r.fail = true
			return nil
		}
		r.at += size
		k = int(u)
		r.lens = r.column(r.lens[:0], k, k, true)
		sum := 0
		for _, l := range r.lens {
			if sum += int(l); l < 1 || l >= int64(n) || sum >= n {
				r.fail = true
			}
		}
	case formRunMap:
		size := (n + 6) / 8
		if size == 0 || size > len(r.data)-r.at {
			r.fail = true
			return nil
		}
		bitmap = r.data[r.at : r.at+size]
		r.at += size
		for _, b := range bitmap {
			k += bits.OnesCount8(b)
		}
		if over := (n - 1) & 7; over > 0 && bitmap[size-1]>>over != 0 {
			r.fail = true
		}
	default:
		r.fail = true
	}
	if !r.fail {
		r.vals = r.column(r.vals[:0], k+1, k+1, true)
	}
	return bitmap
}

// spreadList writes the values in runs to out; the last one fills what is left. out
// may be shorter than the runs. A run goes in eights as long as the ones that are too
// many are written over.
func spreadList[E any](out, vals []E, lens []int64) {
	for i, l := range lens {
		n, v := min(int(l), len(out)), vals[i]
		if n+8 <= len(out) {
			for j := 0; j < n; j += 8 {
				o := (*[8]E)(out[j:])
				o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7] = v, v, v, v, v, v, v, v
			}
		} else {
			fill(out[:n], v)
		}
		out = out[n:]
	}
	fill(out, vals[len(lens)])
}

// spreadMap writes the first value to out and, where a bit is set, goes on to the
// next. out may be shorter than the bitmap says.
func spreadMap[E any](out, vals []E, bitmap []byte) {
	out[0] = vals[0]
	out = out[1:]
	i := 0
	for _, b := range bitmap {
		n := int(b)
		if len(out) >= 8 {
			o := (*[8]E)(out)
			out = out[8:]
			v := vals[i:]
			v0 := n & 1
			v1 := v0 + n>>1&1
			v2 := v1 + n>>2&1
			v3 := v2 + n>>3&1
			v4 := v3 + n>>4&1
			v5 := v4 + n>>5&1
			v6 := v5 + n>>6&1
			v7 := v6 + n>>7
			v = v[:v7+1]
			o[0], o[1], o[2], o[3] = v[v0], v[v1], v[v2], v[v3]
			o[4], o[5], o[6], o[7] = v[v4], v[v5], v[v6], v[v7]
			i += v7
			continue
		}
		for j := range out {
			i += n & 1
			n >>= 1
			out[j] = vals[i]
		}
		return
	}
}
