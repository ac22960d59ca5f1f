package record

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
)

// A payload is a sequence of records, at most one of a kind, in order of kind:
//
//	record  kind <1b> | len <4b> | body <len b>
//
// The bodies stand beside their code: series.go, floats.go, histogram.go, metadata.go,
// exemplar.go, delete.go.
const (
	kindSeries     = 1
	kindFloats     = 2
	kindHistograms = 3
	kindMetadata   = 4
	kindExemplars  = 5
	kindDeletes    = 6
	// 7 is reserved for heartbeats.

	recordHeaderSize = 5
)

// Batch is one batch as the log holds it; in a frame the kinds stand in the order of these fields.
type Batch struct {
	Series     []Series
	Floats     Floats
	Histograms []Histogram
	Metadata   []Metadata
	Exemplars  []Exemplar
	Deletes    []Delete

	unpacked []byte // scratch of Decode
	builder  labels.ScratchBuilder
}

// Series names a reference. A segment holds the record of every reference that its frames use.
type Series struct {
	Ref    uint64
	Labels labels.Labels
}

// Floats are float samples as columns of one length; ST is empty when no sample has a start timestamp.
type Floats struct {
	Ref []uint64
	T   []int64
	ST  []int64
	V   []float64
}

// Histogram is one histogram sample: exactly one of H and FH is set.
type Histogram struct {
	Ref   uint64
	T, ST int64
	H     *histogram.Histogram
	FH    *histogram.FloatHistogram
}

// Metadata is what is known of one metric family.
type Metadata struct {
	Family     string
	Type       model.MetricType
	Unit, Help string
}

// Exemplar is one exemplar of a series.
type Exemplar struct {
	Ref    uint64
	T      int64
	V      float64
	Labels labels.Labels
}

// Reset empties b and keeps its memory.
func (b *Batch) Reset() {
	clear(b.Series) // let go of labels and histograms
	clear(b.Histograms)
	clear(b.Metadata)
	clear(b.Exemplars)
	clear(b.Deletes)
	b.Series, b.Histograms = b.Series[:0], b.Histograms[:0]
	b.Metadata, b.Exemplars, b.Deletes = b.Metadata[:0], b.Exemplars[:0], b.Deletes[:0]
	f := &b.Floats
	f.Ref, f.T, f.ST, f.V = f.Ref[:0], f.T[:0], f.ST[:0], f.V[:0]
}

// Append appends the encoding of b to dst. It allocates nothing but dst's growth.
func Append(dst []byte, b *Batch) []byte {
	if len(b.Series) > 0 {
		dst = appendSeries(begin(dst, kindSeries), b.Series)
	}
	if len(b.Floats.Ref) > 0 {
		dst = appendFloats(begin(dst, kindFloats), &b.Floats)
	}
	if len(b.Histograms) > 0 {
		dst = appendHistograms(begin(dst, kindHistograms), b.Histograms)
	}
	if len(b.Metadata) > 0 {
		dst = appendMetadata(begin(dst, kindMetadata), b.Metadata)
	}
	if len(b.Exemplars) > 0 {
		dst = appendExemplars(begin(dst, kindExemplars), b.Exemplars)
	}
	if len(b.Deletes) > 0 {
		dst = appendDeletes(begin(dst, kindDeletes), b.Deletes)
	}
	return dst
}

// begin appends a record's header; end fills in the length of the body that starts at start.
func begin(dst []byte, kind byte) []byte { return append(dst, kind, 0, 0, 0, 0) }

func end(dst []byte, start int) []byte {
	binary.LittleEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	return dst
}

// Decode fills b from src, reusing b's memory; labels and histograms are fresh.
// The error names the offset in src; b is empty then.
func Decode(b *Batch, src []byte) error {
	b.Reset()
	err := each(src, func(kind byte, off int, body []byte) error {
		return decodeInto(b, kind, off, body)
	})
	if err != nil {
		b.Reset()
	}
	return err
}

// decodeInto adds the record whose body stands at off to b.
func decodeInto(b *Batch, kind byte, off int, body []byte) error {
	d := decoder{b: body, base: off}
	switch kind {
	case kindSeries:
		d.series(b)
	case kindFloats:
		d.floats(&b.Floats)
	case kindHistograms:
		d.histograms(b)
	case kindMetadata:
		d.metadata(b)
	case kindExemplars:
		d.exemplars(b)
	case kindDeletes:
		d.deletes(b)
	default:
		return fmt.Errorf("record: offset %d: unknown kind %d", off-recordHeaderSize, kind)
	}
	return d.finish()
}

// each calls fn for each record of src: off is where its body stands.
func each(src []byte, fn func(kind byte, off int, body []byte) error) error {
	last := byte(0)
	for off := 0; off < len(src); {
		if len(src)-off < recordHeaderSize {
			return fmt.Errorf("record: offset %d: got %d bytes, want a header of %d", off, len(src)-off, recordHeaderSize)
		}
		kind, n := src[off], int64(binary.LittleEndian.Uint32(src[off+1:]))
		if kind <= last {
			return fmt.Errorf("record: offset %d: kind %d after kind %d", off, kind, last)
		}
		last = kind
		off += recordHeaderSize
		if n > int64(len(src)-off) {
			return fmt.Errorf("record: offset %d: a body of %d bytes, got %d", off, n, len(src)-off)
		}
		if err := fn(kind, off, src[off:off+int(n)]); err != nil {
			return err
		}
		off += int(n)
	}
	return nil
}

// decoder reads the fields of one body. The first error stays; what is read after it is zero.
type decoder struct {
	b    []byte
	i    int
	base int    // where b stands in the payload
	in   string // said of the offset when b is not a stretch of the payload
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("record: offset %d%s: %s", d.base+d.i, d.in, fmt.Sprintf(format, args...))
	}
	d.i = len(d.b)
}

func (d *decoder) finish() error {
	if d.err == nil && d.i < len(d.b) {
		d.fail("%d bytes behind the record", len(d.b)-d.i)
	}
	return d.err
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b[d.i:])
	if n <= 0 {
		d.fail("bad uvarint")
		return 0
	}
	d.i += n
	return v
}

// delta reads a signed step of any 64-bit number.
func (d *decoder) delta() uint64 { return unzigzag(d.uvarint()) }

func (d *decoder) byte() byte {
	if d.i >= len(d.b) {
		d.fail("record ends early")
		return 0
	}
	d.i++
	return d.b[d.i-1]
}

func (d *decoder) fixed64() uint64 {
	if len(d.b)-d.i < 8 {
		d.fail("record ends early: got %d bytes, want 8", len(d.b)-d.i)
		return 0
	}
	d.i += 8
	return binary.LittleEndian.Uint64(d.b[d.i-8:])
}

// count reads the number of things that take at least size bytes each: it never
// says more than the rest can hold.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64((len(d.b)-d.i)/size) {
		d.fail("count %d of at least %d bytes each, got %d bytes", n, size, len(d.b)-d.i)
		return 0
	}
	return int(n)
}

// bytes reads a string; it is borrowed from the body.
func (d *decoder) bytes() []byte {
	if rest := d.b[d.i:]; len(rest) > 0 && rest[0] < 0x80 && int(rest[0]) < len(rest) {
		n := int(rest[0]) + 1
		d.i += n
		return rest[1:n]
	}
	n := d.count(1)
	d.i += n
	return d.b[d.i-n : d.i]
}

func zigzag(v uint64) uint64   { return v<<1 ^ uint64(int64(v)>>63) }
func unzigzag(u uint64) uint64 { return u>>1 ^ -(u & 1) }

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendDelta(dst []byte, from, to uint64) []byte {
	return binary.AppendUvarint(dst, zigzag(to-from))
}

// extend lengthens s by n elements.
func extend[T any](s []T, n int) []T { return slices.Grow(s, n)[:len(s)+n] }
