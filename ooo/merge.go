package ooo

import (
	"math"
	"slices"

	"github.com/rwsink/rwsink/chunkenc"
)

// Merger merges late samples into runs. It holds scratch memory, which it keeps
// as large as its largest merge, and serves one goroutine. The zero value is ready.
type Merger struct {
	sorter sorter

	// The result.
	runs []*chunkenc.Samples // of this merge
	pool []*chunkenc.Samples // all that were ever needed; runs begins with pool[0]

	// What is left of the base, in a merge of mixed kinds.
	base []*chunkenc.Samples
	from int // position in base[0]
}

// Merge returns the union of base and the late samples: runs of one kind each,
// strictly increasing in time within and across runs, neighbours of different
// kinds. A run may be longer than a chunk may be; the caller cuts it.
//
// base are runs in ascending order, disjoint, strictly increasing; they are not
// changed, may be empty, and must not be what this Merger returned. Every late
// sample arrived after the base sample of its timestamp, if there is one. late
// is put in order of time (stably) and not changed otherwise.
//
// The runs belong to the Merger and are valid until the next Merge; the
// histograms in them are those that went in and must not be changed. Merges of
// floats alone allocate nothing once the Merger's memory is large enough.
func (m *Merger) Merge(base []*chunkenc.Samples, late *Buffer) ([]*chunkenc.Samples, Stats) {
	m.sorter.sort(late)
	m.release()
	var st Stats
	if late.plain() && plain(base) {
		m.mergeFloats(base, late.points, &st)
	} else {
		m.mergeMixed(base, late, &st)
	}
	return m.runs, st
}

// Sort puts b in order of time; samples of the same time stay in order of
// arrival. Whoever parts a buffer among several merges sorts it first: then
// each part is searched for.
func (m *Merger) Sort(b *Buffer) { m.sorter.sort(b) }

// plain says whether all runs are floats without start timestamps.
func plain(runs []*chunkenc.Samples) bool {
	for _, r := range runs {
		if r.Kind != chunkenc.KindFloat || len(r.ST) > 0 {
			return false
		}
	}
	return true
}

// mergeFloats merges floats without start timestamps into one run.
func (m *Merger) mergeFloats(base []*chunkenc.Samples, late []point, st *Stats) {
	size := len(late)
	for _, r := range base {
		size += r.Len()
	}
	if size == 0 {
		return
	}
	out := m.open(chunkenc.KindFloat)
	out.T, out.V = grow(out.T, size), grow(out.V, size)
	n := 0
	for _, r := range base {
		if r.Len() == 0 {
			continue
		}
		k := searchPoints(late, r.T[r.Len()-1])
		n += floats(out.T[n:], out.V[n:], r.T, r.V, late[:k], st)
		late = late[k:]
	}
	n += floats(out.T[n:], out.V[n:], nil, nil, late, st)
	out.T, out.V = out.T[:n], out.V[:n]
}

// floats merges late into the base columns, writes to dt and dv, which are long
// enough for both, and returns how many samples it wrote.
func floats(dt []int64, dv []float64, bt []int64, bv []float64, late []point, st *Stats) int {
	n, k := 0, 0
	for k < len(late) && len(bt) > 0 {
		t, bits := late[k].t, late[k].bits
		k++
		i := copyBefore(dt[n:], dv[n:], bt, bv, t)
		n += i
		bt, bv = bt[i:], bv[i:]
		if len(bt) > 0 && bt[0] == t {
			bits = st.resolveBits(math.Float64bits(bv[0]), bits)
			bt, bv = bt[1:], bv[1:]
		}
		for ; k < len(late) && late[k].t == t; k++ {
			bits = st.resolveBits(bits, late[k].bits)
		}
		dt[n], dv[n] = t, math.Float64frombits(bits)
		n++
	}
	n += lateFloats(dt[n:], dv[n:], late[k:], st)
	copy(dt[n:], bt)
	copy(dv[n:], bv)
	return n + len(bt)
}

// lateFloats is floats without a base.
func lateFloats(dt []int64, dv []float64, late []point, st *Stats) int {
	if len(late) == 0 {
		return 0
	}
	n, t, bits := 0, late[0].t, late[0].bits
	for _, p := range late[1:] {
		if p.t == t {
			bits = st.resolveBits(bits, p.bits)
			continue
		}
		dt[n], dv[n] = t, math.Float64frombits(bits)
		n++
		t, bits = p.t, p.bits
	}
	dt[n], dv[n] = t, math.Float64frombits(bits)
	return n + 1
}

// stretch is the number of samples from which on a stretch is searched for and
// copied at once.
const stretch = 16

// copyBefore copies the base samples before t and returns their number. dt and
// dv are at least as long as bt and bv.
//
// A short stretch goes in blocks of eight, the last one whole, since what is too
// much is written over: so its end, which no processor foretells, costs one
// branch instead of one for each step of a search.
func copyBefore(dt []int64, dv []float64, bt []int64, bv []float64, t int64) int {
	if len(bt) < stretch || bt[stretch-1] < t {
		n := search(bt, t)
		copy(dt, bt[:n])
		copy(dv, bv[:n])
		return n
	}
	n := copy8((*[8]int64)(dt), (*[8]int64)(bt), (*[8]float64)(dv), (*[8]float64)(bv), t)
	if n == 8 {
		n += copy8((*[8]int64)(dt[8:]), (*[8]int64)(bt[8:]), (*[8]float64)(dv[8:]), (*[8]float64)(bv[8:]), t)
	}
	return n
}

// copy8 copies eight samples and returns how many of them are before t, without a branch.
func copy8(dt, bt *[8]int64, dv, bv *[8]float64, t int64) int {
	a, b, c, d, e, f, g, h := bt[0], bt[1], bt[2], bt[3], bt[4], bt[5], bt[6], bt[7]
	dt[0], dt[1], dt[2], dt[3], dt[4], dt[5], dt[6], dt[7] = a, b, c, d, e, f, g, h
	n := less(a, t) + less(b, t) + less(c, t) + less(d, t) + less(e, t) + less(f, t) + less(g, t) + less(h, t)
	p, q, r, s := bv[0], bv[1], bv[2], bv[3]
	dv[0], dv[1], dv[2], dv[3] = p, q, r, s
	p, q, r, s = bv[4], bv[5], bv[6], bv[7]
	dv[4], dv[5], dv[6], dv[7] = p, q, r, s
	return n
}

// less is 1 if a is below b, else 0.
func less(a, b int64) int {
	c := 0
	if a < b {
		c = 1
	}
	return c
}

// search returns the first position of ts whose time is at least t: steps that
// double from the start, then halves, so the cost grows with the logarithm of
// the distance.
func search(ts []int64, t int64) int {
	hi := 1
	for hi < len(ts) && ts[hi-1] < t {
		hi *= 2
	}
	lo := hi / 2
	hi = min(hi, len(ts))
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); ts[mid] < t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// searchPoints returns the first position of ps whose time is above t.
func searchPoints(ps []point, t int64) int {
	lo, hi := 0, len(ps)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); ps[mid].t <= t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// open begins a run.
func (m *Merger) open(k chunkenc.Kind) *chunkenc.Samples {
	n := len(m.runs)
	if n == len(m.pool) {
		m.pool = append(m.pool, new(chunkenc.Samples))
	}
	out := m.pool[n]
	out.Reset(k)
	m.runs = append(m.runs, out)
	return out
}

// release lets go of the last result's histograms.
func (m *Merger) release() {
	for _, r := range m.runs {
		clear(r.H)
		clear(r.FH)
	}
	m.runs = slices.Delete(m.runs, 0, len(m.runs))
}
