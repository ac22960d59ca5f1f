package receiver

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
)

// A tiny encoder for messages that no well-behaved encoder writes.

func join(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func rawTag(num uint64, wt int) []byte { return binary.AppendUvarint(nil, num<<3|uint64(wt)) }

func fieldVarint(num, v uint64) []byte { return binary.AppendUvarint(rawTag(num, wtVarint), v) }

func fieldDouble(num uint64, v float64) []byte {
	return binary.LittleEndian.AppendUint64(rawTag(num, wtFixed64), math.Float64bits(v))
}

func fieldBytes(num uint64, parts ...[]byte) []byte {
	content := join(parts...)
	return append(binary.AppendUvarint(rawTag(num, wtBytes), uint64(len(content))), content...)
}

func fieldString(num uint64, s string) []byte { return fieldBytes(num, []byte(s)) }

// label1Field is a label field of a 1.0 entry or exemplar.
func label1Field(name, value string) []byte {
	return fieldBytes(1, fieldString(1, name), fieldString(2, value))
}

// sampleField is a sample field of an entry; start is left out when 0.
func sampleField(t int64, v float64, start int64) []byte {
	parts := [][]byte{fieldDouble(1, v), fieldVarint(2, uint64(t))}
	if start != 0 {
		parts = append(parts, fieldVarint(3, uint64(start)))
	}
	return fieldBytes(2, parts...)
}

// packed is the content of a packed field of varints.
func packed(refs ...uint64) []byte {
	var out []byte
	for _, r := range refs {
		out = binary.AppendUvarint(out, r)
	}
	return out
}

// Random messages of Prometheus's own types.

var oddFloats = []float64{0, 1, -1, math.NaN(), math.Inf(1), math.Copysign(0, -1), math.Float64frombits(0x7ff0000000000002), 1e300}

func randFloat(r *rand.Rand) float64 {
	if r.IntN(2) == 0 {
		return oddFloats[r.IntN(len(oddFloats))]
	}
	return r.NormFloat64()
}

func randTime(r *rand.Rand) int64 {
	switch r.IntN(6) {
	case 0:
		return int64(r.Uint64())
	case 1:
		return r.Int64N(300) - 150
	}
	return 1_764_000_000_000 + r.Int64N(1e9)
}

func randString(r *rand.Rand) string {
	n := r.IntN(20)
	if r.IntN(20) == 0 {
		n = 100 + r.IntN(300)
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return string(b)
}

func some[T any](r *rand.Rand, most int, f func() T) []T {
	n := r.IntN(most + 1)
	if n == 0 {
		return nil
	}
	out := make([]T, n)
	for i := range out {
		out[i] = f()
	}
	return out
}

func randHistogram1(r *rand.Rand) prompb.Histogram {
	spans := func() prompb.BucketSpan {
		return prompb.BucketSpan{Offset: int32(r.Uint32()) >> r.IntN(32), Length: r.Uint32() >> r.IntN(32)}
	}
	h := prompb.Histogram{
		Sum: randFloat(r), Schema: int32(r.IntN(70) - 60), ZeroThreshold: randFloat(r),
		NegativeSpans: some(r, 3, spans), PositiveSpans: some(r, 3, spans),
		NegativeDeltas: some(r, 4, func() int64 { return int64(r.Uint64()) >> r.IntN(64) }),
		PositiveDeltas: some(r, 4, func() int64 { return int64(r.Uint64()) >> r.IntN(64) }),
		NegativeCounts: some(r, 3, func() float64 { return randFloat(r) }),
		PositiveCounts: some(r, 3, func() float64 { return randFloat(r) }),
		ResetHint:      prompb.Histogram_ResetHint(r.IntN(4)),
		Timestamp:      randTime(r),
		CustomValues:   some(r, 3, func() float64 { return randFloat(r) }),
	}
	switch r.IntN(3) {
	case 0:
		h.Count = &prompb.Histogram_CountInt{CountInt: r.Uint64()}
		h.ZeroCount = &prompb.Histogram_ZeroCountInt{ZeroCountInt: r.Uint64()}
	case 1:
		h.Count = &prompb.Histogram_CountFloat{CountFloat: randFloat(r)}
		h.ZeroCount = &prompb.Histogram_ZeroCountFloat{ZeroCountFloat: randFloat(r)}
	}
	return h
}

func randRequest1(r *rand.Rand) *prompb.WriteRequest {
	label := func() prompb.Label { return prompb.Label{Name: randString(r), Value: randString(r)} }
	return &prompb.WriteRequest{
		Timeseries: some(r, 4, func() prompb.TimeSeries {
			return prompb.TimeSeries{
				Labels: some(r, 6, label),
				Samples: some(r, 5, func() prompb.Sample {
					return prompb.Sample{Value: randFloat(r), Timestamp: randTime(r)}
				}),
				Exemplars: some(r, 2, func() prompb.Exemplar {
					return prompb.Exemplar{Labels: some(r, 3, label), Value: randFloat(r), Timestamp: randTime(r)}
				}),
				Histograms: some(r, 2, func() prompb.Histogram { return randHistogram1(r) }),
			}
		}),
		Metadata: some(r, 3, func() prompb.MetricMetadata {
			return prompb.MetricMetadata{Type: prompb.MetricMetadata_MetricType(r.IntN(10)),
				MetricFamilyName: randString(r), Help: randString(r), Unit: randString(r)}
		}),
	}
}

// toHistogram2 carries a 1.0 histogram over to the type of 2.0.
func toHistogram2(h prompb.Histogram, start int64) writev2.Histogram {
	var out writev2.Histogram
	b, err := h.Marshal()
	if err != nil {
		panic(err)
	}
	if err := out.Unmarshal(b); err != nil {
		panic(err)
	}
	out.StartTimestamp = start
	return out
}

func randRequest2(r *rand.Rand) *writev2.Request {
	symbols := append([]string{""}, some(r, 12, func() string { return randString(r) })...)
	ref := func() uint32 {
		if r.IntN(50) == 0 {
			return r.Uint32() >> r.IntN(32)
		}
		return uint32(r.IntN(len(symbols)))
	}
	start := func() int64 { return randTime(r) * int64(r.IntN(2)) }
	return &writev2.Request{
		Symbols: symbols,
		Timeseries: some(r, 4, func() writev2.TimeSeries {
			return writev2.TimeSeries{
				LabelsRefs: some(r, 10, ref),
				Samples: some(r, 5, func() writev2.Sample {
					return writev2.Sample{Value: randFloat(r), Timestamp: randTime(r), StartTimestamp: start()}
				}),
				Exemplars: some(r, 2, func() writev2.Exemplar {
					return writev2.Exemplar{LabelsRefs: some(r, 4, ref), Value: randFloat(r), Timestamp: randTime(r)}
				}),
				Histograms: some(r, 2, func() writev2.Histogram { return toHistogram2(randHistogram1(r), start()) }),
				Metadata: writev2.Metadata{Type: writev2.Metadata_MetricType(r.IntN(8)),
					HelpRef: ref() * uint32(r.IntN(2)), UnitRef: ref() * uint32(r.IntN(2))},
			}
		}),
	}
}

// dropUnknown removes what Prometheus's decoder keeps of unknown fields.
func dropUnknown(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			dropUnknown(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			dropUnknown(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "XXX_unrecognized" {
				v.Field(i).SetZero()
				continue
			}
			dropUnknown(v.Field(i))
		}
	}
}

// mutate damages a few bytes of a copy of b.
func mutate(r *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			return b
		}
		i := r.IntN(len(b))
		switch r.IntN(5) {
		case 0:
			b[i] = byte(r.Uint32())
		case 1:
			b[i] ^= 1 << r.IntN(8)
		case 2:
			b = b[:i]
		case 3:
			b = append(b[:i], b[min(i+1+r.IntN(4), len(b)):]...)
		case 4:
			b = append(b[:i], append([]byte{byte(r.Uint32())}, b[i:]...)...)
		}
	}
	return b
}

// checksum is what the label "sum" of a self-checking series holds.
func checksum(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }

// selfChecking is a body of series that carry a checksum of their text, in
// either version by turns.
func selfChecking(writer, request, series int, now int64) ([]byte, version) {
	table := writev2.NewSymbolTable()
	one, two := &prompb.WriteRequest{}, &writev2.Request{}
	for i := range series {
		text := fmt.Sprintf("%d/%d/%d %s", writer, request, i, strings.Repeat("x", (writer*37+request*11+i*5)%300))
		ls := []string{"__name__", "m", "sum", checksum(text), "text", text}
		var a prompb.TimeSeries
		var b writev2.TimeSeries
		for j := 0; j < len(ls); j += 2 {
			a.Labels = append(a.Labels, prompb.Label{Name: ls[j], Value: ls[j+1]})
			b.LabelsRefs = append(b.LabelsRefs, table.Symbolize(ls[j]), table.Symbolize(ls[j+1]))
		}
		a.Samples = []prompb.Sample{{Timestamp: now, Value: 1}}
		b.Samples = []writev2.Sample{{Timestamp: now, Value: 1}}
		one.Timeseries, two.Timeseries = append(one.Timeseries, a), append(two.Timeseries, b)
	}
	if (writer+request)%2 == 0 {
		return mustMarshal(one), version1
	}
	two.Symbols = table.Symbols()
	return mustMarshal(two), version2
}
