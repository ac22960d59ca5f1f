package record

import (
	"encoding/binary"
	"slices"

	"github.com/prometheus/common/model"
)

// Metadata body:
//
//	count <uvarint> | (family | type | unit | help) ...       each: len <uvarint> | bytes
func appendMetadata(dst []byte, ms []Metadata) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(dst, uint64(len(ms)))
	for i := range ms {
		m := &ms[i]
		dst = appendString(dst, m.Family)
		dst = appendString(dst, string(m.Type))
		dst = appendString(dst, m.Unit)
		dst = appendString(dst, m.Help)
	}
	return end(dst, start)
}

func (d *decoder) metadata(b *Batch) {
	n := d.count(4)
	b.Metadata = slices.Grow(b.Metadata, n)
	for range n {
		m := Metadata{
			Family: string(d.bytes()),
			Type:   model.MetricType(d.bytes()),
			Unit:   string(d.bytes()),
			Help:   string(d.bytes()),
		}
		if d.err != nil {
			return
		}
		b.Metadata = append(b.Metadata, m)
	}
}
