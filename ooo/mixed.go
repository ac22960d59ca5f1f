package ooo

import (
	"math"

	"github.com/rwsink/rwsink/chunkenc"
)

// mergeMixed merges runs and late samples of any kind. A base sample that only
// duplicates met stays where it is and goes out with its stretch.
func (m *Merger) mergeMixed(base []*chunkenc.Samples, late *Buffer, st *Stats) {
	m.base, m.from = base, 0
	for k := 0; k < late.Len(); {
		t := late.points[k].t
		m.copyBefore(t)
		cur, held := m.held(t)
		won := !held
		if !held {
			cur = late.at(k)
			k++
		}
		for ; k < late.Len() && late.points[k].t == t; k++ {
			if next := late.at(k); st.resolve(cur, next) {
				cur, won = next, true
			}
		}
		if !won {
			continue
		}
		if held {
			m.from++
		}
		m.put(t, cur)
	}
	for _, r := range m.base {
		m.copy(r, m.from, r.Len())
		m.from = 0
	}
	m.close()
	m.base = nil
}

// copyBefore puts out the base samples before t and leaves the base at the first one that is not.
func (m *Merger) copyBefore(t int64) {
	for len(m.base) > 0 {
		r := m.base[0]
		i := m.from + search(r.T[m.from:], t)
		m.copy(r, m.from, i)
		m.from = i
		if i < r.Len() {
			return
		}
		m.base, m.from = m.base[1:], 0
	}
}

// held returns the next base sample if it stands at t.
func (m *Merger) held(t int64) (s sample, ok bool) {
	if len(m.base) == 0 || m.base[0].T[m.from] != t {
		return s, false
	}
	return sampleOf(m.base[0], m.from), true
}

// copy puts out the samples [i, j) of a base run.
func (m *Merger) copy(r *chunkenc.Samples, i, j int) {
	if i == j {
		return
	}
	out := m.run(r.Kind)
	n := len(out.T)
	out.T = append(out.T, r.T[i:j]...)
	if len(r.ST) > 0 {
		out.ST = append(pad(out.ST, n), r.ST[i:j]...)
	} else if len(out.ST) > 0 {
		out.ST = pad(out.ST, len(out.T))
	}
	switch r.Kind {
	case chunkenc.KindFloat:
		out.V = append(out.V, r.V[i:j]...)
	case chunkenc.KindHistogram:
		out.H = append(out.H, r.H[i:j]...)
	case chunkenc.KindFloatHistogram:
		out.FH = append(out.FH, r.FH[i:j]...)
	}
}

// put puts out a late sample.
func (m *Merger) put(t int64, s sample) {
	kind := chunkenc.KindFloat
	switch {
	case s.h != nil:
		kind = chunkenc.KindHistogram
	case s.fh != nil:
		kind = chunkenc.KindFloatHistogram
	}
	out := m.run(kind)
	n := len(out.T)
	out.T = append(out.T, t)
	if s.st != 0 || len(out.ST) > 0 {
		out.ST = append(pad(out.ST, n), s.st)
	}
	switch kind {
	case chunkenc.KindFloat:
		out.V = append(out.V, math.Float64frombits(s.bits))
	case chunkenc.KindHistogram:
		out.H = append(out.H, s.h)
	case chunkenc.KindFloatHistogram:
		out.FH = append(out.FH, s.fh)
	}
}

// run returns the open run if it is of kind k, else a new one.
func (m *Merger) run(k chunkenc.Kind) *chunkenc.Samples {
	if n := len(m.runs); n > 0 && m.runs[n-1].Kind == k {
		return m.runs[n-1]
	}
	m.close()
	return m.open(k)
}

// close ends the open run: a start column in which nothing is left goes.
func (m *Merger) close() {
	if len(m.runs) == 0 {
		return
	}
	r := m.runs[len(m.runs)-1]
	for _, st := range r.ST {
		if st != 0 {
			return
		}
	}
	r.ST = r.ST[:0]
}

// pad fills a start column with "none" up to length n.
func pad(st []int64, n int) []int64 {
	for len(st) < n {
		st = append(st, 0)
	}
	return st
}
