package load

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/prompb"
)

// Tags of the wire. Those of labels, samples and histograms are of a TimeSeries;
// metadata and refs are of 2.0 alone.
const (
	tagTimeseries1 = 1<<3 | 2
	tagLabels1     = 1<<3 | 2
	tagName        = 1<<3 | 2
	tagValue       = 2<<3 | 2
	tagSamples     = 2<<3 | 2
	tagHistograms1 = 4<<3 | 2
	tagSampleValue = 1<<3 | 1
	tagSampleTime  = 2 << 3
)

// encoder makes the entries of one client's requests.
type encoder interface {
	// begin starts a request.
	begin()
	// entry adds samples of one series; all are of the series, or all of its successor.
	entry(items []item)
	// finish returns the request; it is valid until begin.
	finish() []byte
}

// encoder1 makes prometheus.WriteRequest.
type encoder1 struct {
	s       *Spec
	labels  [2]map[uint32][]byte // fields of the labels of a series, and of its successor
	body    []byte
	payload []byte
}

func newEncoder1(s *Spec) *encoder1 {
	return &encoder1{s: s, labels: [2]map[uint32][]byte{{}, {}}}
}

func (e *encoder1) begin()         { e.body = e.body[:0] }
func (e *encoder1) finish() []byte { return e.body }

func (e *encoder1) entry(items []item) {
	i := int(items[0].i)
	labels := e.labelsOf(i, e.s.Successor(i, int(items[0].k)))
	e.payload = e.payload[:0]
	for _, it := range items {
		if e.s.Values == Histograms {
			h := prompb.FromIntHistogram(e.s.Time(i, int(it.k)), e.s.Histogram(i, int(it.k)))
			e.payload = appendMessage(e.payload, tagHistograms1, &h)
		} else {
			e.payload = appendSample(e.payload, e.s.Time(i, int(it.k)), e.s.Float(i, int(it.k)))
		}
	}
	e.body = append(e.body, tagTimeseries1)
	e.body = binary.AppendUvarint(e.body, uint64(len(labels)+len(e.payload)))
	e.body = append(e.body, labels...)
	e.body = append(e.body, e.payload...)
}

func (e *encoder1) labelsOf(i int, successor bool) []byte {
	gen := 0
	if successor {
		gen = 1
	}
	b, ok := e.labels[gen][uint32(i)]
	if !ok {
		for _, l := range e.s.labelsOf(i, successor) {
			b = append(b, tagLabels1)
			b = binary.AppendUvarint(b, uint64(2+uvarintLen(len(l.Name))+len(l.Name)+uvarintLen(len(l.Value))+len(l.Value)))
			b = appendString(b, tagName, l.Name)
			b = appendString(b, tagValue, l.Value)
		}
		e.labels[gen][uint32(i)] = b
	}
	return b
}

// appendSample appends a sample as encoders write it: without a value that is +0.
func appendSample(b []byte, t int64, v float64) []byte {
	size := 1 + uvarintLen64(uint64(t))
	bits := math.Float64bits(v)
	if bits != 0 {
		size += 9
	}
	b = append(b, tagSamples, byte(size)) // at most 20
	if bits != 0 {
		b = append(b, tagSampleValue)
		b = binary.LittleEndian.AppendUint64(b, bits)
	}
	b = append(b, tagSampleTime)
	return binary.AppendUvarint(b, uint64(t))
}

func appendString(b []byte, tag byte, s string) []byte {
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// message is what gogo's generated messages can do.
type message interface {
	Size() int
	MarshalToSizedBuffer(b []byte) (int, error)
}

// appendMessage appends m as a field.
func appendMessage(b []byte, tag byte, m message) []byte {
	size := m.Size()
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(size))
	from := len(b)
	b = append(b, make([]byte, size)...)
	if _, err := m.MarshalToSizedBuffer(b[from:]); err != nil {
		panic("BUG: load: a message that was just made does not encode: " + err.Error())
	}
	return b
}

func uvarintLen(n int) int { return uvarintLen64(uint64(n)) }

func uvarintLen64(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}
