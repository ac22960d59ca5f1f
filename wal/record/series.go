package record

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
)

// Series body:
//
//	flags <1b> | count <uvarint> | series ...       flags bit 0: what follows flags is one snappy block
//	series  ref step <uvarint> | labels
//	labels  count <uvarint> | (len <uvarint> | name | len <uvarint> | value) ...
//
// A ref step is zigzag and counted from the ref after the one before (first: from
// ref 1). Label sets of one batch share most of their bytes, hence the block.
const (
	flagSnappy = 1
	packFrom   = 128       // bytes: smaller bodies stay as they are
	maxUnpack  = 256 << 20 // bytes of an unpacked body
	maxRatio   = 64        // snappy's copy elements make at most 64 bytes of 2 or more
)

func appendSeries(dst []byte, series []Series) []byte {
	start := len(dst)
	dst = append(dst, 0)
	dst = binary.AppendUvarint(dst, uint64(len(series)))
	next := uint64(1)
	for i := range series {
		dst = appendDelta(dst, next, series[i].Ref)
		next = series[i].Ref + 1
		dst = appendLabels(dst, series[i].Labels)
	}
	return end(pack(dst, start), start)
}

// pack makes a snappy block of dst[start+1:] where that is smaller. It is made
// behind the plain bytes and then moved over them.
func pack(dst []byte, start int) []byte {
	plain := len(dst)
	size := plain - start - 1
	if size < packFrom || size > maxUnpack {
		return dst
	}
	room := snappy.MaxEncodedLen(size)
	dst = slices.Grow(dst, room)
	block := snappy.Encode(dst[plain:plain+room], dst[start+1:plain])
	if len(block) >= size {
		return dst
	}
	dst[start] |= flagSnappy
	return append(dst[:start+1], block...)
}

func appendLabels(dst []byte, ls labels.Labels) []byte {
	dst = binary.AppendUvarint(dst, uint64(ls.Len()))
	ls.Range(func(l labels.Label) {
		dst = appendString(appendString(dst, l.Name), l.Value)
	})
	return dst
}

func (d *decoder) series(b *Batch) {
	switch flags := d.byte(); {
	case d.err != nil:
		return
	case flags&^flagSnappy != 0:
		d.fail("unknown flags %#x of series", flags)
		return
	case flags&flagSnappy != 0:
		d.unpack(b)
	}
	n := d.count(2)
	b.Series = slices.Grow(b.Series, n)
	next := uint64(1)
	for range n {
		s := Series{Ref: next + d.delta()}
		next = s.Ref + 1
		s.Labels = d.labels(&b.builder)
		if d.err != nil {
			return
		}
		b.Series = append(b.Series, s)
	}
}

// unpack goes on in the unpacked block that the rest of the body is.
func (d *decoder) unpack(b *Batch) {
	block := d.b[d.i:]
	n, err := snappy.DecodedLen(block)
	if err != nil || n > maxUnpack || n/maxRatio > len(block) {
		d.fail("snappy block of %d bytes says that it holds %d: %v", len(block), n, err)
		return
	}
	if cap(b.unpacked) < n {
		b.unpacked = make([]byte, n)
	}
	plain, err := snappy.Decode(b.unpacked[:n], block)
	if err != nil {
		d.fail("%v", err)
		return
	}
	d.b, d.i, d.base, d.in = plain, 0, 0, " of the unpacked series"
}

func (d *decoder) labels(b *labels.ScratchBuilder) labels.Labels {
	b.Reset()
	b.SetUnsafeAdd(true) // the names and values are borrowed, Labels copies them
	for range d.count(2) {
		name, value := d.bytes(), d.bytes()
		b.Add(unsafe.String(unsafe.SliceData(name), len(name)), unsafe.String(unsafe.SliceData(value), len(value)))
	}
	if d.err != nil {
		return labels.EmptyLabels()
	}
	return b.Labels()
}
