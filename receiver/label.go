package receiver

import (
	"fmt"

	"github.com/rwsink/rwsink/head"
)

// Why references name no labels.
var tooManyLabels = fmt.Sprintf("more than %d labels", maxEntryLabels)

func refRange(field string, ref uint64, symbols int) string {
	return fmt.Sprintf("%s names symbol %d of %d", field, ref, symbols)
}

func oddRefs(n int) string {
	return fmt.Sprintf("labels_refs has %d references, want an even number", n)
}

// appendLabels1 appends the labels whose fields are b, as scanner1 yields them.
// offset is where b would stand in the body, for errors. Labels beyond
// maxEntryLabels are checked and not kept: over says that there are some.
func appendLabels1(dst []head.Label, b []byte, offset int) (labels []head.Label, over bool, err error) {
	for p := 0; p < len(b); {
		var l head.Label
		if l, p, err = labelField1(b, p, offset); err != nil {
			return dst, over, err
		}
		if len(dst) < maxEntryLabels {
			dst = append(dst, l)
		} else {
			over = true
		}
	}
	return dst, over, nil
}

// checkLabels1 checks what appendLabels1 reads.
func checkLabels1(b []byte, offset int) (err error) {
	for p := 0; p < len(b) && err == nil; {
		_, p, err = labelField1(b, p, offset)
	}
	return err
}

// Tags of a Label's fields.
const (
	tagLabelName  = 1<<3 | wtBytes
	tagLabelValue = 2<<3 | wtBytes
)

// labelField1 reads a field that holds a Label, at p, and returns where it ends.
// Encoders write name, then value, and lengths of a byte are most: that is the fast path.
func labelField1(b []byte, p, offset int) (l head.Label, end int, err error) {
	f := b[p:]
	if len(f) < 6 || f[0] != tagLabel || f[2] != tagLabelName {
		return labelSlow1(b, p, offset)
	}
	length, name := int(f[1]), 4+int(f[3]) // where the name ends
	if (f[1]|f[3]) >= 0x80 || 2+length > len(f) || name+2 > 2+length || f[name] != tagLabelValue {
		return labelSlow1(b, p, offset)
	}
	if f[name+1] >= 0x80 || name+2+int(f[name+1]) != 2+length {
		return labelSlow1(b, p, offset)
	}
	return head.Label{Name: f[4:name:name], Value: f[name+2 : 2+length : 2+length]}, p + 2 + length, nil
}

// labelSlow1 reads a field that holds a Label, in any form.
func labelSlow1(b []byte, p, offset int) (l head.Label, end int, err error) {
	num, wt, from := tag(b, p)
	from, end = bytesField(b, from, wt)
	if end < 0 {
		return l, end, fault(end, msgSeries1, num, offset+p)
	}
	l, err = label1(b[:end], from, offset)
	return l, end, err
}

// label1 reads a Label from p to the end of b. Its bytes are those of b.
func label1(b []byte, p, offset int) (head.Label, error) {
	var l head.Label
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		from := q
		switch num {
		case 1, 2:
			from, q = bytesField(b, q, wt)
		default:
			q = skip(b, q, wt)
		}
		if q < 0 {
			return l, fault(q, msgLabel, num, offset+at)
		}
		switch num {
		case 1:
			l.Name = b[from:q:q]
		case 2:
			l.Value = b[from:q:q]
		}
		p = q
	}
	return l, nil
}

// appendLabels2 appends the labels that refs name, an even number of references in range.
func (s *scanner2) appendLabels(dst []head.Label, refs []uint32) []head.Label {
	for i := 0; i+1 < len(refs); i += 2 {
		dst = append(dst, head.Label{Name: s.symbol(refs[i]), Value: s.symbol(refs[i+1])})
	}
	return dst
}
