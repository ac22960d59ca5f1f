package record

import (
	"encoding/binary"
	"slices"
)

// Exemplars body:
//
//	count <uvarint> | (ref step <uvarint> | time step <uvarint> | value <8b> | labels) ...
//
// Steps as in histograms, labels as in series.
const minExemplarSize = 1 + 1 + 8 + 1

func appendExemplars(dst []byte, es []Exemplar) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(dst, uint64(len(es)))
	next, last := uint64(1), uint64(0)
	for i := range es {
		e := &es[i]
		dst = appendDelta(dst, next, e.Ref)
		dst = appendDelta(dst, last, uint64(e.T))
		next, last = e.Ref+1, uint64(e.T)
		dst = appendLabels(appendFloat(dst, e.V), e.Labels)
	}
	return end(dst, start)
}

func (d *decoder) exemplars(b *Batch) {
	n := d.count(minExemplarSize)
	b.Exemplars = slices.Grow(b.Exemplars, n)
	next, last := uint64(1), uint64(0)
	for range n {
		e := Exemplar{Ref: next + d.delta(), T: int64(last + d.delta()), V: d.float()}
		next, last = e.Ref+1, uint64(e.T)
		e.Labels = d.labels(&b.builder)
		if d.err != nil {
			return
		}
		b.Exemplars = append(b.Exemplars, e)
	}
}
