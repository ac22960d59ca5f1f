package receiver

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/rwsink/rwsink/head"
)

// The oracle is Prometheus's generated decoder. Everything it takes is taken and
// read alike, and everything else is refused, but for these differences:
//   - field numbers beyond what protobuf allows are refused, and those inside
//     groups are checked; the generated decoder wraps the first at 32 bits;
//   - packed values must end where their field ends; the generated decoder reads on;
//   - a body of the other version's schema is refused;
//   - numbers beyond 32 bits in 32-bit fields make the item invalid; the
//     generated decoder drops their upper bits.

// stricter says that err is one of the documented differences.
func stricter(err error) bool {
	var w *wireError
	var s *schemaError
	return errors.As(err, &w) && (w.fault == faultTag || w.fault == faultPacked) || errors.As(err, &s)
}

// errWide marks a message whose content the two decoders read differently.
var errWide = errors.New("a number beyond its type")

func collectHistogram(raw *rawHistogram, b []byte, x extent, starts bool) (prompb.Histogram, error) {
	if err := raw.decode(b[:x.end], x.from, starts); err != nil {
		return prompb.Histogram{}, err
	}
	h := prompb.Histogram{
		Sum: raw.sum, Schema: int32(raw.schema), ZeroThreshold: raw.zeroThreshold,
		NegativeDeltas: raw.negative.deltas, PositiveDeltas: raw.positive.deltas,
		NegativeCounts: raw.negative.counts, PositiveCounts: raw.positive.counts,
		ResetHint: prompb.Histogram_ResetHint(raw.hint), Timestamp: raw.t, CustomValues: raw.customValues,
	}
	for _, s := range raw.negative.spans {
		h.NegativeSpans = append(h.NegativeSpans, prompb.BucketSpan{Offset: s.Offset, Length: s.Length})
	}
	for _, s := range raw.positive.spans {
		h.PositiveSpans = append(h.PositiveSpans, prompb.BucketSpan{Offset: s.Offset, Length: s.Length})
	}
	if raw.count.isFloat {
		h.Count = &prompb.Histogram_CountFloat{CountFloat: raw.count.f}
	} else {
		h.Count = &prompb.Histogram_CountInt{CountInt: raw.count.i}
	}
	if raw.zeroCount.isFloat {
		h.ZeroCount = &prompb.Histogram_ZeroCountFloat{ZeroCountFloat: raw.zeroCount.f}
	} else {
		h.ZeroCount = &prompb.Histogram_ZeroCountInt{ZeroCountInt: raw.zeroCount.i}
	}
	b, err := h.Marshal() // the columns are reused by the next one
	if err != nil {
		return h, err
	}
	var out prompb.Histogram
	err = out.Unmarshal(b)
	if raw.bad != "" || raw.schema != int64(int32(raw.schema)) {
		return out, errWide
	}
	return out, err
}

func promLabels(ls []head.Label) (out []prompb.Label) {
	for _, l := range ls {
		out = append(out, prompb.Label{Name: string(l.Name), Value: string(l.Value)})
	}
	return out
}

// collect1 decodes a whole body with the scanner into Prometheus's types.
func collect1(body []byte) (*prompb.WriteRequest, error) {
	var s scanner1
	var raw rawHistogram
	var x rawExemplar
	var wide error
	req := &prompb.WriteRequest{}
	s.reset(body)
	for {
		it, err := s.next()
		if err != nil {
			return nil, err
		}
		if it == itemEnd {
			return req, wide
		}
		if it == itemMetadata {
			m := &s.meta
			req.Metadata = append(req.Metadata, prompb.MetricMetadata{Type: prompb.MetricMetadata_MetricType(m.typ),
				MetricFamilyName: string(m.family), Help: string(m.help), Unit: string(m.unit)})
			continue
		}
		var ts prompb.TimeSeries
		labels, _, err := appendLabels1(nil, s.entry.ident, s.entry.identAt)
		if err != nil {
			return nil, err
		}
		ts.Labels = promLabels(labels)
		for i, t := range s.entry.t {
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: t, Value: s.entry.v[i]})
		}
		for _, at := range s.entry.exemplars {
			if err := x.decode1(body[:at.end], at.from); err != nil {
				return nil, err
			}
			ts.Exemplars = append(ts.Exemplars, prompb.Exemplar{Labels: promLabels(x.labels), Value: x.v, Timestamp: x.t})
		}
		for _, at := range s.entry.histograms {
			h, err := collectHistogram(&raw, body, at, false)
			if errors.Is(err, errWide) {
				wide = err
			} else if err != nil {
				return nil, err
			}
			ts.Histograms = append(ts.Histograms, h)
		}
		req.Timeseries = append(req.Timeseries, ts)
	}
}

// collect2 decodes a whole body with the scanner into Prometheus's types.
func collect2(body []byte) (*writev2.Request, error) {
	var s scanner2
	var raw rawHistogram
	var x rawExemplar
	var wide error
	if err := s.reset(body, 1); err != nil {
		return nil, err
	}
	req := &writev2.Request{}
	for i := range s.symbols {
		req.Symbols = append(req.Symbols, string(s.symbol(uint32(i))))
	}
	for {
		it, err := s.next()
		if err != nil {
			return nil, err
		}
		if it == itemEnd {
			return req, wide
		}
		e := s.entry
		ts := writev2.TimeSeries{LabelsRefs: append([]uint32(nil), e.refs...)}
		ts.Metadata = writev2.Metadata{Type: writev2.Metadata_MetricType(e.meta.typ), HelpRef: uint32(e.meta.help), UnitRef: uint32(e.meta.unit)}
		for i, t := range e.t {
			ts.Samples = append(ts.Samples, writev2.Sample{Timestamp: t, Value: e.v[i], StartTimestamp: e.st[i]})
		}
		if e.refsFault != "" && e.refsFault != oddRefs(len(e.refs)) {
			wide = errWide // references out of range are not kept
		}
		for _, at := range e.exemplars {
			if err := x.decode2(body[:at.end], at.from, &s); err != nil {
				return nil, err
			}
			if x.bad != "" && x.bad != oddRefs(len(x.refs)) {
				wide = errWide
			}
			ts.Exemplars = append(ts.Exemplars, writev2.Exemplar{LabelsRefs: append([]uint32(nil), x.refs...), Value: x.v, Timestamp: x.t})
		}
		for _, at := range e.histograms {
			h, err := collectHistogram(&raw, body, at, true)
			if errors.Is(err, errWide) {
				wide = err
			} else if err != nil {
				return nil, err
			}
			ts.Histograms = append(ts.Histograms, toHistogram2(h, raw.st))
		}
		req.Timeseries = append(req.Timeseries, ts)
	}
}

func wantAlike(t *testing.T, body []byte, ours, theirs error, content func() (got, want []byte)) {
	t.Helper()
	switch {
	case theirs != nil && ours == nil, theirs != nil && errors.Is(ours, errWide):
		t.Fatalf("body %x: taken, but Prometheus's decoder says %v", body, theirs)
	case theirs == nil && ours != nil && !errors.Is(ours, errWide) && !stricter(ours):
		t.Fatalf("body %x: got %v, but Prometheus's decoder takes it", body, ours)
	case theirs == nil && ours == nil:
		if got, want := content(); !bytes.Equal(got, want) {
			t.Fatalf("body %x:\ngot  %x\nwant %x", body, got, want)
		}
	}
}

func checkOracle1(t *testing.T, body []byte) {
	t.Helper()
	var want prompb.WriteRequest
	theirs := want.Unmarshal(body)
	got, ours := collect1(body)
	wantAlike(t, body, ours, theirs, func() ([]byte, []byte) {
		dropUnknown(reflect.ValueOf(&want))
		for i := range want.Timeseries {
			for j := range want.Timeseries[i].Histograms {
				h := &want.Timeseries[i].Histograms[j]
				if h.Count == nil {
					h.Count = &prompb.Histogram_CountInt{}
				}
				if h.ZeroCount == nil {
					h.ZeroCount = &prompb.Histogram_ZeroCountInt{}
				}
			}
		}
		return mustMarshal(got), mustMarshal(&want)
	})
}

func checkOracle2(t *testing.T, body []byte) {
	t.Helper()
	var want writev2.Request
	theirs := want.Unmarshal(body)
	got, ours := collect2(body)
	wantAlike(t, body, ours, theirs, func() ([]byte, []byte) {
		dropUnknown(reflect.ValueOf(&want))
		for i := range want.Timeseries {
			for j := range want.Timeseries[i].Histograms {
				h := &want.Timeseries[i].Histograms[j]
				if h.Count == nil {
					h.Count = &writev2.Histogram_CountInt{}
				}
				if h.ZeroCount == nil {
					h.ZeroCount = &writev2.Histogram_ZeroCountInt{}
				}
			}
		}
		return mustMarshal(got), mustMarshal(&want)
	})
}

func mustMarshal(m interface{ Marshal() ([]byte, error) }) []byte {
	b, err := m.Marshal()
	if err != nil {
		panic(err)
	}
	return b
}

func newRand(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, math.MaxUint32))
}

// few is n, and with -short, as under the race detector, a tenth: for what one goroutine repeats.
func few(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

func TestScannersAgreeWithPrometheus(t *testing.T) {
	r := newRand(t, 20)
	for range few(2000) {
		body := mustMarshal(randRequest1(r))
		checkOracle1(t, body)
		for range 4 {
			checkOracle1(t, mutate(r, body))
		}
		body = mustMarshal(randRequest2(r))
		checkOracle2(t, body)
		for range 4 {
			checkOracle2(t, mutate(r, body))
		}
	}
}

func FuzzScan1(f *testing.F) {
	r := newRand(f, 21)
	for range 8 {
		f.Add(mustMarshal(randRequest1(r)))
	}
	f.Fuzz(checkOracle1)
}

func FuzzScan2(f *testing.F) {
	r := newRand(f, 22)
	for range 8 {
		f.Add(mustMarshal(randRequest2(r)))
	}
	f.Fuzz(checkOracle2)
}
