package load

import (
	"encoding/binary"

	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
)

// Tags of 2.0.
const (
	tagSymbols     = 4<<3 | 2
	tagTimeseries2 = 5<<3 | 2
	tagRefs        = 1<<3 | 2
	tagHistograms2 = 3<<3 | 2
	tagMetadata    = 5<<3 | 2
	tagType        = 1 << 3
	tagHelpRef     = 3 << 3
	tagUnitRef     = 4 << 3
)

// encoder2 makes io.prometheus.write.v2.Request.
type encoder2 struct {
	s       *Spec
	ids     map[string]uint32      // of all strings of the client
	strings []string               // by id
	series  [2]map[uint32][]uint32 // ids of names and values by turns, then of help and unit
	symbol  []uint32               // of the request, by id; valid where request says so
	request []uint32               // number of the request for which symbol is valid, by id
	number  uint32                 // of the request
	symbols []byte                 // fields of the request
	next    uint32                 // symbol
	body    []byte
	payload []byte
	refs    []byte
}

func newEncoder2(s *Spec) *encoder2 {
	return &encoder2{s: s, ids: map[string]uint32{}, series: [2]map[uint32][]uint32{{}, {}}}
}

func (e *encoder2) begin() {
	e.number++
	e.symbols = append(e.symbols[:0], tagSymbols, 0) // the first symbol is the empty string
	e.next = 1
	e.body = e.body[:0]
}

func (e *encoder2) finish() []byte {
	e.symbols = append(e.symbols, e.body...)
	return e.symbols
}

func (e *encoder2) entry(items []item) {
	i := int(items[0].i)
	ids := e.seriesOf(i, e.s.Successor(i, int(items[0].k)))
	e.refs = e.refs[:0]
	for _, id := range ids[:len(ids)-2] {
		e.refs = binary.AppendUvarint(e.refs, uint64(e.symbolOf(id)))
	}
	e.payload = append(e.payload[:0], tagRefs)
	e.payload = binary.AppendUvarint(e.payload, uint64(len(e.refs)))
	e.payload = append(e.payload, e.refs...)
	for _, it := range items {
		if e.s.Values == Histograms {
			h := writev2.FromIntHistogram(0, e.s.Time(i, int(it.k)), e.s.Histogram(i, int(it.k)))
			e.payload = appendMessage(e.payload, tagHistograms2, &h)
		} else {
			e.payload = appendSample(e.payload, e.s.Time(i, int(it.k)), e.s.Float(i, int(it.k)))
		}
	}
	help, unit := e.symbolOf(ids[len(ids)-2]), e.symbolOf(ids[len(ids)-1])
	size := 4 + uvarintLen(int(help)) + uvarintLen(int(unit))
	e.payload = append(e.payload, tagMetadata, byte(size), tagType, byte(e.typeOf(i)), tagHelpRef)
	e.payload = binary.AppendUvarint(e.payload, uint64(help))
	e.payload = append(e.payload, tagUnitRef)
	e.payload = binary.AppendUvarint(e.payload, uint64(unit))
	e.body = append(e.body, tagTimeseries2)
	e.body = binary.AppendUvarint(e.body, uint64(len(e.payload)))
	e.body = append(e.body, e.payload...)
}

func (e *encoder2) typeOf(i int) prompb.MetricMetadata_MetricType {
	switch _, counter := e.s.name(i); {
	case e.s.Values == Histograms:
		return prompb.MetricMetadata_HISTOGRAM
	case counter:
		return prompb.MetricMetadata_COUNTER
	}
	return prompb.MetricMetadata_GAUGE
}

// symbolOf returns the symbol that the request has for a string.
func (e *encoder2) symbolOf(id uint32) uint32 {
	if e.request[id] != e.number {
		e.request[id], e.symbol[id] = e.number, e.next
		e.next++
		e.symbols = appendString(e.symbols, tagSymbols, e.strings[id])
	}
	return e.symbol[id]
}

func (e *encoder2) seriesOf(i int, successor bool) []uint32 {
	gen := 0
	if successor {
		gen = 1
	}
	ids, ok := e.series[gen][uint32(i)]
	if !ok {
		for _, l := range e.s.labelsOf(i, successor) {
			ids = append(ids, e.id(l.Name), e.id(l.Value))
		}
		ids = append(ids, e.id(e.s.help(i)), e.id(e.s.unit(i)))
		e.series[gen][uint32(i)] = ids
	}
	return ids
}

func (e *encoder2) id(s string) uint32 {
	id, ok := e.ids[s]
	if !ok {
		id = uint32(len(e.strings))
		e.ids[s] = id
		e.strings = append(e.strings, s)
		e.symbol, e.request = append(e.symbol, 0), append(e.request, 0)
	}
	return id
}
