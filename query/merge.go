package query

import (
	"slices"

	"github.com/rwsink/rwsink/chunkenc"
)

// runs are the samples of one series in order of time, as batches of one kind.
type runs []chunkenc.Samples

// add appends a copy of the columns of s; the histograms are shared.
func (r *runs) add(s *chunkenc.Samples) {
	*r = append(*r, chunkenc.Samples{
		Kind: s.Kind,
		T:    slices.Clone(s.T),
		V:    slices.Clone(s.V),
		H:    slices.Clone(s.H),
		FH:   slices.Clone(s.FH),
	})
}

// push appends sample i of s.
func (r *runs) push(s *chunkenc.Samples, i int) {
	if n := len(*r); n == 0 || (*r)[n-1].Kind != s.Kind {
		*r = append(*r, chunkenc.Samples{Kind: s.Kind})
	}
	last := &(*r)[len(*r)-1]
	last.T = append(last.T, s.T[i])
	switch s.Kind {
	case chunkenc.KindFloat:
		last.V = append(last.V, s.V[i])
	case chunkenc.KindHistogram:
		last.H = append(last.H, s.H[i])
	case chunkenc.KindFloatHistogram:
		last.FH = append(last.FH, s.FH[i])
	}
}

// mergeRuns merges two series into one: all timestamps of both, and where they
// share one, the sample of strong. Neither is changed.
func mergeRuns(strong, weak runs) runs {
	var out runs
	a, b := cursor{runs: strong}, cursor{runs: weak}
	for a.valid() || b.valid() {
		switch {
		case !b.valid() || a.valid() && a.t() < b.t():
			a.moveTo(&out)
		case !a.valid() || b.t() < a.t():
			b.moveTo(&out)
		default:
			a.moveTo(&out)
			b.next()
		}
	}
	return out
}

// cursor walks runs sample by sample. Runs are not empty.
type cursor struct {
	runs runs
	i    int // in runs[0]
}

func (c *cursor) valid() bool { return len(c.runs) > 0 }
func (c *cursor) t() int64    { return c.runs[0].T[c.i] }

func (c *cursor) next() {
	if c.i++; c.i == c.runs[0].Len() {
		c.runs, c.i = c.runs[1:], 0
	}
}

func (c *cursor) moveTo(out *runs) {
	out.push(&c.runs[0], c.i)
	c.next()
}
