package receiver

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
)

// rawExemplar is an Exemplar message of either version, in memory that the next
// one reuses. Its labels point into the body.
type rawExemplar struct {
	labels []head.Label
	refs   []uint32
	bad    string // why there are no labels, or ""
	t      int64
	v      float64
}

func (x *rawExemplar) reset() {
	x.labels, x.refs, x.bad, x.t, x.v = x.labels[:0], x.refs[:0], "", 0, 0
}

// decode1 reads a 1.0 exemplar from p to the end of b.
func (x *rawExemplar) decode1(b []byte, p int) error {
	x.reset()
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		if num != 1 {
			q = x.number(b, q, wt, num)
		} else if from, end := bytesField(b, q, wt); end >= 0 {
			l, err := label1(b[:end], from, 0)
			if err != nil {
				return err
			}
			x.add(l)
			q = end
		} else {
			q = end
		}
		if q < 0 {
			return fault(q, msgExemplar1, num, at)
		}
		p = q
	}
	return nil
}

// decode2 reads a 2.0 exemplar from p to the end of b.
func (x *rawExemplar) decode2(b []byte, p int, s *scanner2) error {
	x.reset()
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		switch {
		case num != 1:
			q = x.number(b, q, wt, num)
		case wt == wtVarint:
			_, end := uvarint(b, q)
			if end >= 0 {
				end = x.packedRefs(b[:end], q, len(s.symbols))
			}
			q = end
		default:
			from, end := bytesField(b, q, wt)
			if end >= 0 {
				end = x.packedRefs(b[:end], from, len(s.symbols))
			}
			q = end
		}
		if q < 0 {
			return fault(q, msgExemplar2, num, at)
		}
		p = q
	}
	if x.bad == "" && len(x.refs)%2 != 0 {
		x.bad = oddRefs(len(x.refs))
	}
	if x.bad == "" {
		x.labels = s.appendLabels(x.labels, x.refs)
	}
	return nil
}

// number reads the value or the timestamp, whose fields are the same in both versions.
func (x *rawExemplar) number(b []byte, p, wt int, num uint32) int {
	var u uint64
	switch num {
	case 2:
		u, p = fixed64Field(b, p, wt)
		x.v = math.Float64frombits(u)
	case 3:
		u, p = varintField(b, p, wt)
		x.t = int64(u)
	default:
		p = skip(b, p, wt)
	}
	return p
}

func (x *rawExemplar) packedRefs(b []byte, p, symbols int) int {
	for p < len(b) {
		var ref uint64
		if ref, p = uvarint(b, p); p < 0 {
			if p == faultTruncated {
				p = faultPacked
			}
			return p
		}
		switch {
		case ref >= uint64(symbols):
			if x.bad == "" {
				x.bad = refRange("labels_refs", ref, symbols)
			}
		case len(x.refs) >= 2*maxExemplarRunes:
			x.bad = exemplarTooLong
		default:
			x.refs = append(x.refs, uint32(ref))
		}
	}
	return p
}

// add keeps a label; as many as there may be runes suffice to see that there are too many.
func (x *rawExemplar) add(l head.Label) {
	if len(x.labels) >= maxExemplarRunes {
		x.bad = exemplarTooLong
		return
	}
	x.labels = append(x.labels, l)
}

var exemplarTooLong = fmt.Sprintf("the names and values of its labels have more than %d characters together", maxExemplarRunes)

// build checks the labels and returns them sorted, as memory of their own.
// bad says why there are none.
func (x *rawExemplar) build(sb *labels.ScratchBuilder) (ls labels.Labels, bad string) {
	if x.bad != "" {
		return ls, x.bad
	}
	runes := 0
	for i := range x.labels {
		l := &x.labels[i]
		if len(l.Name) == 0 {
			return ls, "a label with an empty name"
		}
		if !utf8.Valid(l.Name) || !utf8.Valid(l.Value) {
			return ls, fmt.Sprintf("label %.128q=%.128q is not valid UTF-8", l.Name, l.Value)
		}
		runes += utf8.RuneCount(l.Name) + utf8.RuneCount(l.Value)
	}
	if runes > maxExemplarRunes {
		return ls, fmt.Sprintf("%s: %d", exemplarTooLong, runes)
	}
	slices.SortFunc(x.labels, func(a, b head.Label) int { return bytes.Compare(a.Name, b.Name) })
	sb.Reset()
	for i := range x.labels {
		l := &x.labels[i]
		if i > 0 && bytes.Equal(l.Name, x.labels[i-1].Name) {
			return ls, fmt.Sprintf("label name %.128q is given twice", l.Name)
		}
		sb.Add(string(l.Name), string(l.Value))
	}
	return sb.Labels(), ""
}
