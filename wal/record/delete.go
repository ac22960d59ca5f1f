package record

import (
	"encoding/binary"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
)

// Deletes body:
//
//	count <uvarint> | (from <uvarint> | to <uvarint> | count <uvarint> | matcher ...) ...
//	matcher  type <1b> | name <string> | value <string>
//
// from and to are zigzag. Matchers stand as they were given: whether a regular
// expression is one is known to whoever compiles it.
const (
	minDeleteSize  = 1 + 1 + 1
	minMatcherSize = 1 + 1 + 1
)

// Delete removes the samples in [MinT, MaxT] (Unix milliseconds, both included)
// of the series that all matchers match, as far as their frames are not later.
type Delete struct {
	MinT, MaxT int64
	Matchers   []Matcher
}

// Matcher compares a label.
type Matcher struct {
	Type        labels.MatchType
	Name, Value string
}

func appendDeletes(dst []byte, ds []Delete) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(dst, uint64(len(ds)))
	for i := range ds {
		d := &ds[i]
		dst = appendDelta(dst, 0, uint64(d.MinT))
		dst = appendDelta(dst, 0, uint64(d.MaxT))
		dst = binary.AppendUvarint(dst, uint64(len(d.Matchers)))
		for _, m := range d.Matchers {
			dst = appendString(appendString(append(dst, byte(m.Type)), m.Name), m.Value)
		}
	}
	return end(dst, start)
}

func (d *decoder) deletes(b *Batch) {
	n := d.count(minDeleteSize)
	b.Deletes = slices.Grow(b.Deletes, n)
	for range n {
		del := Delete{MinT: int64(d.delta()), MaxT: int64(d.delta())}
		if k := d.count(minMatcherSize); k > 0 {
			del.Matchers = make([]Matcher, 0, k)
			for range k {
				del.Matchers = append(del.Matchers, d.matcher())
			}
		}
		if d.err != nil {
			return
		}
		b.Deletes = append(b.Deletes, del)
	}
}

func (d *decoder) matcher() Matcher {
	m := Matcher{Type: labels.MatchType(d.byte())}
	if m.Type > labels.MatchNotRegexp && d.err == nil {
		d.fail("unknown type %d of a matcher", m.Type)
	}
	m.Name, m.Value = string(d.bytes()), string(d.bytes())
	return m
}
