package record_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/wal/record"
)

func perSample(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/sample")
}

func BenchmarkFloats(b *testing.B) {
	const n = 2000
	for name, value := range map[string]func(int) float64{
		"counters": func(i int) float64 { return float64(i * 7919 % 1_000_000) },
		"gauges":   func(i int) float64 { return float64(i) / 3 },
	} {
		batch := typical(n, value)
		src := record.Append(nil, batch)
		b.Run(name+"/append", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			var dst []byte
			for b.Loop() {
				dst = record.Append(dst[:0], batch)
			}
			perSample(b, n)
			b.ReportMetric(float64(len(dst))/n, "B/sample")
		})
		b.Run(name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			var out record.Batch
			for b.Loop() {
				if err := record.Decode(&out, src); err != nil {
					b.Fatal(err)
				}
			}
			perSample(b, n)
		})
	}
}

// someSeries are n series as a node exporter has them.
func someSeries(n int) *record.Batch {
	batch := &record.Batch{}
	for i := range n {
		batch.Series = append(batch.Series, record.Series{Ref: uint64(1 + i), Labels: labels.FromStrings(
			"__name__", fmt.Sprintf("node_metric_%d_total", i%100), "instance", fmt.Sprintf("host-%d.example:9100", i/100),
			"job", "node", "device", fmt.Sprint("eth", i%4))})
	}
	return batch
}

func BenchmarkSeries(b *testing.B) {
	const n = 2000
	batch := someSeries(n)
	src := record.Append(nil, batch)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			dst = record.Append(dst[:0], batch)
		}
		perSample(b, n)
		b.ReportMetric(float64(len(dst))/n, "B/series")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		var out record.Batch
		for b.Loop() {
			if err := record.Decode(&out, src); err != nil {
				b.Fatal(err)
			}
		}
		perSample(b, n)
	})
}

func TestAppendAllocatesNothing(t *testing.T) {
	batch := full()
	batch.Series = someSeries(200).Series
	dst := record.Append(nil, batch)
	if allocs := testing.AllocsPerRun(100, func() { dst = record.Append(dst[:0], batch) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestDecodeOfFloatsAllocatesNothing(t *testing.T) {
	src := record.Append(nil, typical(2000, func(i int) float64 { return float64(i) }))
	var b record.Batch
	if allocs := testing.AllocsPerRun(100, func() {
		if err := record.Decode(&b, src); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestSeriesArePacked(t *testing.T) {
	batch := someSeries(2000)
	plain := 0
	for _, s := range batch.Series {
		s.Labels.Range(func(l labels.Label) { plain += len(l.Name) + len(l.Value) })
	}
	got := len(record.Append(nil, batch))
	t.Logf("%.1f bytes a series, of labels %.1f", float64(got)/2000, float64(plain)/2000)
	if got > plain/3 {
		t.Errorf("got %d bytes for %d of labels, want a third at most", got, plain)
	}
}
