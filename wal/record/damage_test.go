package record_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/wal/record"
)

// full is a batch with every kind.
func full() *record.Batch {
	b := typical(5, func(i int) float64 { return float64(i) / 3 })
	b.Floats.ST = []int64{0, 5, math.MinInt64, math.MaxInt64, 0}
	for i := range 6 {
		b.Series = append(b.Series, record.Series{Ref: uint64(i * i), Labels: labels.FromStrings("__name__", "some_metric_total", "instance", fmt.Sprint("host-", i, ".example:9100"))})
	}
	b.Histograms = []record.Histogram{
		{Ref: 1, T: 2, ST: 3, H: &histogram.Histogram{Count: 5, Sum: 1, PositiveSpans: []histogram.Span{{Offset: -1, Length: 2}}, PositiveBuckets: []int64{1, -1}}},
		{Ref: 2, T: 2, FH: &histogram.FloatHistogram{Schema: -53, Count: 5, Sum: 1, CustomValues: []float64{1, 2}}},
	}
	b.Metadata = []record.Metadata{{Family: "some_metric", Type: "counter", Unit: "", Help: "Some."}}
	b.Exemplars = []record.Exemplar{{Ref: 9, T: 9, V: 9, Labels: labels.FromStrings("trace_id", "1")}}
	b.Deletes = []record.Delete{{MinT: 1, MaxT: 9, Matchers: []record.Matcher{{Type: labels.MatchRegexp, Name: "job", Value: "a.*"}}}}
	return b
}

// rec makes a record of a kind with a body.
func rec(kind byte, body ...byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(body))), body...)
}

func TestDecodeRefuses(t *testing.T) {
	ok := record.Append(nil, full())
	floats := rec(2, 1, 0, 0) // one sample: ref 1, time 0, value 0
	tests := []struct {
		name    string
		corrupt func() []byte
		want    string
	}{
		{"an unknown kind", func() []byte { return rec(8, 1) }, "offset 0: unknown kind 8"},
		{"a reserved kind", func() []byte { return append(slices.Clone(floats), rec(7, 1)...) }, "offset 8: unknown kind 7"},
		{"an unknown type of matcher", func() []byte { return rec(6, 1, 0, 0, 1, 4, 0, 0) }, "unknown type 4 of a matcher"},
		{"a count of matchers beyond the end", func() []byte { return rec(6, 1, 0, 0, 0xff, 0xff, 3, 0, 0, 0) }, "count 65535"},
		{"kind 0", func() []byte { return rec(0) }, "offset 0: kind 0"},
		{"a kind twice", func() []byte { return append(slices.Clone(floats), floats...) }, "offset 8: kind 2 after kind 2"},
		{"kinds out of order", func() []byte { return append(slices.Clone(floats), rec(1, 0, 0)...) }, "offset 8: kind 1 after kind 2"},
		{"half a header", func() []byte { return append(slices.Clone(ok), 7, 0, 0) }, fmt.Sprintf("offset %d: got 3 bytes", len(ok))},
		{"a length beyond the end", func() []byte { return []byte{2, 9, 0, 0, 0, 1, 0, 0} }, "offset 5: a body of 9 bytes, got 3"},
		{"an empty body", func() []byte { return rec(2) }, "offset 5: bad uvarint"},
		{"bytes behind the samples", func() []byte { return rec(2, 1, 0, 0, 7) }, "offset 8: 1 bytes behind"},
		{"unknown flags of floats", func() []byte { return rec(2, 1, 2, 0) }, "unknown flags 0x2"},
		{"unknown flags of series", func() []byte { return rec(1, 4, 0) }, "unknown flags 0x4"},
		{"unknown flags of a histogram", func() []byte { return rec(3, append([]byte{1, 4}, make([]byte, 40)...)...) }, "unknown flags 0x4"},
		{"a count of samples beyond the end", func() []byte { return rec(2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0) }, "offset 10: count 4294967295"},
		{"a count of series beyond the end", func() []byte { return rec(1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f) }, "count 4294967295"},
		{"a value of nine bytes", func() []byte { return rec(2, append([]byte{1, 0, 0x90}, make([]byte, 9)...)...) }, "control byte 0x90"},
		{"a sample cut short", func() []byte { return rec(2, 1, 0, 0x40, 1, 2, 3) }, "control byte 0x40 with 4 bytes left"},
		{"a snappy block that claims too much", func() []byte { return rec(1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0) }, "snappy block"},
		{"a snappy block that is none", func() []byte { return rec(1, 1, 4, 0xff, 0xff) }, "snappy"},
		{"a schema that is no int32", func() []byte {
			return rec(3, 1, 0, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		}, "no int32"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := full() // what it held must be gone
			err := record.Decode(b, test.corrupt())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if len(b.Series)+len(b.Floats.Ref)+len(b.Histograms)+len(b.Metadata)+len(b.Exemplars)+len(b.Deletes) != 0 {
				t.Errorf("something was decoded: %+v", b)
			}
		})
	}
}

func TestTruncatedAndFlipped(t *testing.T) {
	src := record.Append(nil, full())
	var b record.Batch
	whole := map[int]bool{0: true} // where a record ends, the rest may be missing
	for off := 0; off < len(src); {
		off += 5 + int(binary.LittleEndian.Uint32(src[off+1:]))
		whole[off] = true
	}
	for n := range src {
		if err := record.Decode(&b, src[:n]); (err == nil) != whole[n] {
			t.Errorf("cut at %d of %d: %v", n, len(src), err)
		}
	}
	for i := range src {
		for bit := range 8 {
			c := slices.Clone(src)
			c[i] ^= 1 << bit
			_ = record.Decode(&b, c) // an error or another batch
			if err := record.Dump(io.Discard, c); err != nil && !strings.Contains(err.Error(), "offset") {
				t.Errorf("byte %d bit %d: %v", i, bit, err)
			}
		}
	}
}

func TestDumpTellsThatItCouldNotWrite(t *testing.T) {
	if err := record.Dump(brokenWriter{}, record.Append(nil, full())); err != os.ErrClosed {
		t.Errorf("got %v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

// What decodes encodes again to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	f.Add(record.Append(nil, full()))
	f.Add(record.Append(nil, typical(3, func(i int) float64 { return float64(i) })))
	f.Add(rec(1, 1, 4, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, src []byte) {
		var b, again record.Batch
		err := record.Decode(&b, src)
		if derr := record.Dump(io.Discard, src); (derr == nil) != (err == nil) {
			t.Fatalf("Decode: %v, Dump: %v", err, derr)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "offset") {
				t.Fatalf("an error without a place: %v", err)
			}
			return
		}
		if n := len(b.Floats.Ref) + len(b.Histograms) + len(b.Metadata) + len(b.Exemplars) + len(b.Deletes); n > len(src) || len(b.Series) > 64*len(src) {
			t.Fatalf("%d things and %d series of %d bytes", n, len(b.Series), len(src))
		}
		if err := record.Decode(&again, record.Append(nil, &b)); err != nil {
			t.Fatal(err)
		}
		if err := same(&again, &b); err != nil {
			t.Fatal(err)
		}
	})
}
