package acceptance

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/gogo/protobuf/proto"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
)

// version is a version of the remote-write protocol.
type version int

const (
	v1 version = 1
	v2 version = 2
)

func (v version) String() string { return [...]string{"", "1.0", "2.0"}[v] }

// contentType is the media type of a body of the version.
func (v version) contentType() string {
	if v == v2 {
		return "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	}
	return "application/x-protobuf"
}

// both runs f as a subtest for each version.
func both(t *testing.T, f func(t *testing.T, v version)) {
	t.Helper()
	for _, v := range []version{v1, v2} {
		t.Run(v.String(), func(t *testing.T) { f(t, v) })
	}
}

// sample is one float sample; st is its start timestamp, which 1.0 cannot carry.
type sample struct {
	t, st int64
	v     float64
}

// hist is one native histogram: exactly one of h and fh is set.
type hist struct {
	t, st int64
	h     *histogram.Histogram
	fh    *histogram.FloatHistogram
}

// exem is one exemplar.
type exem struct {
	labels []string // name, value, …
	t      int64
	v      float64
}

// meta is the metadata of a series' family; typ is the number of the protocol.
type meta struct {
	typ        int32
	help, unit string
}

// entry is one TimeSeries of a request, with labels as name, value, … in the order of the wire.
type entry struct {
	labels    []string
	samples   []sample
	hists     []hist
	exemplars []exem
	meta      *meta
}

// series returns an entry of a metric without samples; kv are further labels.
func series(metric string, kv ...string) entry {
	return entry{labels: append([]string{"__name__", metric}, kv...)}
}

// at returns e with one more float sample.
func (e entry) at(t int64, v float64) entry {
	e.samples = append(e.samples[:len(e.samples):len(e.samples)], sample{t: t, v: v})
	return e
}

// hist returns e with one more integer histogram.
func (e entry) hist(t int64, h *histogram.Histogram) entry {
	e.hists = append(e.hists[:len(e.hists):len(e.hists)], hist{t: t, h: h})
	return e
}

// fhist returns e with one more float histogram.
func (e entry) fhist(t int64, fh *histogram.FloatHistogram) entry {
	e.hists = append(e.hists[:len(e.hists):len(e.hists)], hist{t: t, fh: fh})
	return e
}

// exemplar returns e with one more exemplar.
func (e entry) exemplar(t int64, v float64, kv ...string) entry {
	e.exemplars = append(e.exemplars[:len(e.exemplars):len(e.exemplars)], exem{labels: kv, t: t, v: v})
	return e
}

// encode returns the protobuf of a request of the version.
func encode(v version, entries ...entry) []byte {
	if v == v2 {
		return encodeV2(entries)
	}
	return encodeV1(entries)
}

func encodeV1(entries []entry) []byte {
	var req prompb.WriteRequest
	for _, e := range entries {
		ts := prompb.TimeSeries{Labels: labelsV1(e.labels)}
		for _, s := range e.samples {
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: s.t, Value: s.v, XXX_unrecognized: minusZero(1, s.v)})
		}
		for _, x := range e.exemplars {
			ts.Exemplars = append(ts.Exemplars, prompb.Exemplar{Labels: labelsV1(x.labels), Timestamp: x.t, Value: x.v})
		}
		for _, h := range e.hists {
			var p prompb.Histogram
			if h.h != nil {
				p = prompb.FromIntHistogram(h.t, h.h)
				p.CustomValues = h.h.CustomValues
			} else {
				p = prompb.FromFloatHistogram(h.t, h.fh)
				p.CustomValues = h.fh.CustomValues
			}
			ts.Histograms = append(ts.Histograms, p)
		}
		req.Timeseries = append(req.Timeseries, ts)
		if e.meta != nil {
			req.Metadata = append(req.Metadata, prompb.MetricMetadata{
				Type: prompb.MetricMetadata_MetricType(e.meta.typ), MetricFamilyName: e.value("__name__"), Help: e.meta.help, Unit: e.meta.unit,
			})
		}
	}
	return marshal(&req)
}

func encodeV2(entries []entry) []byte {
	symbols := writev2.NewSymbolTable()
	refs := func(kv []string) (out []uint32) {
		for _, s := range kv {
			out = append(out, symbols.Symbolize(s))
		}
		return out
	}
	var req writev2.Request
	for _, e := range entries {
		ts := writev2.TimeSeries{LabelsRefs: refs(e.labels)}
		for _, s := range e.samples {
			ts.Samples = append(ts.Samples, writev2.Sample{Timestamp: s.t, StartTimestamp: s.st, Value: s.v, XXX_unrecognized: minusZero(1, s.v)})
		}
		for _, x := range e.exemplars {
			ts.Exemplars = append(ts.Exemplars, writev2.Exemplar{LabelsRefs: refs(x.labels), Timestamp: x.t, Value: x.v})
		}
		for _, h := range e.hists {
			if h.h != nil {
				ts.Histograms = append(ts.Histograms, writev2.FromIntHistogram(h.st, h.t, h.h))
			} else {
				ts.Histograms = append(ts.Histograms, writev2.FromFloatHistogram(h.st, h.t, h.fh))
			}
		}
		if e.meta != nil {
			ts.Metadata = writev2.Metadata{
				Type: writev2.Metadata_MetricType(e.meta.typ), HelpRef: symbols.Symbolize(e.meta.help), UnitRef: symbols.Symbolize(e.meta.unit),
			}
		}
		req.Timeseries = append(req.Timeseries, ts)
	}
	req.Symbols = symbols.Symbols()
	return marshal(&req)
}

// value returns the value of a label of e.
func (e entry) value(name string) string {
	for i := 0; i+1 < len(e.labels); i += 2 {
		if e.labels[i] == name {
			return e.labels[i+1]
		}
	}
	return ""
}

func labelsV1(kv []string) (out []prompb.Label) {
	for i := 0; i+1 < len(kv); i += 2 {
		out = append(out, prompb.Label{Name: kv[i], Value: kv[i+1]})
	}
	return out
}

func marshal(m proto.Marshaler) []byte {
	b, err := m.Marshal()
	if err != nil {
		panic(err)
	}
	return b
}

// minusZero returns the field that the library's encoder leaves out because it takes -0 for 0.
func minusZero(field int, v float64) []byte {
	if math.Float64bits(v) != 1<<63 {
		return nil
	}
	return wireFixed64(field, 1<<63)
}

// The wire by hand, for what no library would send.

func uvarint(v uint64) []byte { return binary.AppendUvarint(nil, v) }

func wireTag(field, typ int) []byte { return uvarint(uint64(field)<<3 | uint64(typ)) }

func wireVarint(field int, v uint64) []byte { return cat(wireTag(field, 0), uvarint(v)) }

func wireFixed64(field int, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(wireTag(field, 1), v)
}

// wireBytes is a length-delimited field that holds the parts.
func wireBytes(field int, parts ...[]byte) []byte {
	b := cat(parts...)
	return cat(wireTag(field, 2), uvarint(uint64(len(b))), b)
}

func wireString(field int, s string) []byte { return wireBytes(field, []byte(s)) }

// wireClaim is a length-delimited field that claims n bytes and holds b.
func wireClaim(field int, n uint64, b []byte) []byte { return cat(wireTag(field, 2), uvarint(n), b) }

// wireSample is a sample of either version as field 2 of a TimeSeries.
func wireSample(t int64, v float64) []byte {
	return wireBytes(2, wireFixed64(1, math.Float64bits(v)), wireVarint(2, uint64(t)))
}

// wireLabels are labels as field 1 of a 1.0 TimeSeries.
func wireLabels(kv ...string) (out []byte) {
	for i := 0; i+1 < len(kv); i += 2 {
		out = append(out, wireBytes(1, wireString(1, kv[i]), wireString(2, kv[i+1]))...)
	}
	return out
}

// wireRefs are packed label references as field 1 of a 2.0 TimeSeries.
func wireRefs(refs ...uint64) []byte {
	var b []byte
	for _, r := range refs {
		b = append(b, uvarint(r)...)
	}
	return wireBytes(1, b)
}

func wireSymbols(symbols ...string) (out []byte) {
	for _, s := range symbols {
		out = append(out, wireString(4, s)...)
	}
	return out
}

func cat(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}
