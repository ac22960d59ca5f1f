package receiver

import (
	"fmt"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/proc"
)

// Bodies as the peers' figures were measured with: 2,000 series a request, one
// sample each, about 356 bytes a sample decoded in 1.0 and 66 in 2.0, over
// 100,000 series so that caches are as cold as in life.
const (
	benchSeries = 100_000
	benchBatch  = 2_000
)

// benchLabels are those of series i: targets of 500 series, 50 metrics each.
func benchLabels(i int) []string {
	host, metric, handler := i/500, i%500/10, i%10
	return []string{
		"__name__", fmt.Sprintf("http_server_request_duration_seconds_%02d_total", metric),
		"cluster", "eu-central-1-production", "container", "application-server",
		"endpoint", "http-metrics", "handler", fmt.Sprintf("/api/v1/resource/%d", handler),
		"instance", fmt.Sprintf("10.%d.%d.%d:9100", host/65536%256, host/256%256, host%256),
		"job", "kubernetes-service-endpoints", "namespace", fmt.Sprintf("team-%d", host%17),
		"pod", fmt.Sprintf("application-server-7f9c6d5b8-%05d", host), "status", fmt.Sprint(200 + metric%5),
	}
}

func benchBodies1(series int) (raw [][]byte) {
	for from := 0; from < series; from += benchBatch {
		req := prompb.WriteRequest{}
		for i := from; i < min(from+benchBatch, series); i++ {
			var ts prompb.TimeSeries
			ls := benchLabels(i)
			for j := 0; j < len(ls); j += 2 {
				ts.Labels = append(ts.Labels, prompb.Label{Name: ls[j], Value: ls[j+1]})
			}
			ts.Samples = []prompb.Sample{{Timestamp: 1_764_500_000_000 + int64(i%1000), Value: float64(i) * 1.1}}
			req.Timeseries = append(req.Timeseries, ts)
		}
		raw = append(raw, mustMarshal(&req))
	}
	return raw
}

func benchBodies2(series int, metadata bool) (raw [][]byte) {
	for from := 0; from < series; from += benchBatch {
		table := writev2.NewSymbolTable()
		req := writev2.Request{}
		for i := from; i < min(from+benchBatch, series); i++ {
			var ts writev2.TimeSeries
			for _, s := range benchLabels(i) {
				ts.LabelsRefs = append(ts.LabelsRefs, table.Symbolize(s))
			}
			if metadata {
				help := fmt.Sprintf("Requests that the server has answered, as seen by stage %d.", i%500/10)
				ts.Metadata = writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_COUNTER,
					HelpRef: table.Symbolize(help), UnitRef: table.Symbolize("seconds")}
			}
			ts.Samples = []writev2.Sample{{Timestamp: 1_764_500_000_000 + int64(i%1000), Value: float64(i) * 1.1}}
			req.Timeseries = append(req.Timeseries, ts)
		}
		req.Symbols = table.Symbols()
		b, err := req.OptimizedMarshal(nil)
		if err != nil {
			panic(err)
		}
		raw = append(raw, append([]byte(nil), b...))
	}
	return raw
}

// perSample runs f over the bodies by turns and reports what a sample costs.
func perSample(b *testing.B, bodies [][]byte, f func(body []byte)) {
	size := 0
	for _, body := range bodies {
		size += len(body)
	}
	b.SetBytes(int64(size / len(bodies)))
	b.ReportAllocs()
	i := 0
	start := proc.CPUTime()
	for b.Loop() {
		f(bodies[i%len(bodies)])
		i++
	}
	b.ReportMetric(float64(proc.CPUTime()-start)/float64(i)/benchBatch, "cpu-ns/sample")
	b.ReportMetric(float64(size)/benchSeries, "B/sample")
}

var sink uint64

// scanAll1 scans a body and computes the key of every entry, if seed says so.
func scanAll1(s *scanner1, body []byte, keys bool) {
	s.reset(body)
	for {
		it, err := s.next()
		if err != nil {
			panic(err)
		}
		if it == itemEnd {
			return
		}
		if keys {
			sink += key1(s.entry.ident, 7).Lo
		}
	}
}

func scanAll2(s *scanner2, body []byte, keys bool) {
	if err := s.reset(body, 7); err != nil {
		panic(err)
	}
	for {
		it, err := s.next()
		if err != nil {
			panic(err)
		}
		if it == itemEnd {
			return
		}
		if keys {
			sink += s.key().Lo
		}
	}
}

func BenchmarkScan(b *testing.B) {
	one, two := benchBodies1(benchSeries), benchBodies2(benchSeries, false)
	for _, keys := range []bool{false, true} {
		b.Run(fmt.Sprintf("1.0/keys=%v", keys), func(b *testing.B) {
			var s scanner1
			perSample(b, one, func(body []byte) { scanAll1(&s, body, keys) })
		})
		b.Run(fmt.Sprintf("2.0/keys=%v", keys), func(b *testing.B) {
			var s scanner2
			perSample(b, two, func(body []byte) { scanAll2(&s, body, keys) })
		})
	}
}

// BenchmarkSnappy compares the two decoders that read snappy blocks.
func BenchmarkSnappy(b *testing.B) {
	decoders := []struct {
		name   string
		decode func(dst, src []byte) ([]byte, error)
	}{{"golang", snappy.Decode}, {"s2", s2.Decode}}
	for i, raw := range [][][]byte{benchBodies1(benchSeries), benchBodies2(benchSeries, false)} {
		var bodies [][]byte
		for _, body := range raw {
			bodies = append(bodies, snappy.Encode(nil, body))
		}
		for _, d := range decoders {
			b.Run(fmt.Sprintf("%d.0/%s", i+1, d.name), func(b *testing.B) {
				buf := make([]byte, 1<<21)
				perSample(b, bodies, func(body []byte) {
					if _, err := d.decode(buf, body); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// BenchmarkDecode is the way from the compressed body to keys.
func BenchmarkDecode(b *testing.B) {
	for i, raw := range [][][]byte{benchBodies1(benchSeries), benchBodies2(benchSeries, false)} {
		var bodies [][]byte
		for _, body := range raw {
			bodies = append(bodies, snappy.Encode(nil, body))
		}
		b.Run(fmt.Sprintf("%d.0", i+1), func(b *testing.B) {
			var one scanner1
			var two scanner2
			var buf []byte
			perSample(b, bodies, func(body []byte) {
				var err error
				if buf, err = decompress(buf, body, defaultDecodedBytes); err != nil {
					b.Fatal(err)
				}
				if i == 0 {
					scanAll1(&one, buf, true)
				} else {
					scanAll2(&two, buf, true)
				}
			})
		})
	}
}

// BenchmarkFill is the way from the compressed body to a batch whose series are
// all known.
func BenchmarkFill(b *testing.B) {
	for _, c := range []struct {
		name string
		v    version
		raw  [][]byte
	}{
		{"1.0", version1, benchBodies1(benchSeries)},
		{"2.0", version2, benchBodies2(benchSeries, false)},
		{"2.0-metadata", version2, benchBodies2(benchSeries, true)},
	} {
		var bodies [][]byte
		for _, body := range c.raw {
			bodies = append(bodies, snappy.Encode(nil, body))
		}
		b.Run(c.name, func(b *testing.B) {
			h := newHead(b)
			s := &scratch{}
			for _, body := range c.raw {
				commitBody(b, &s.filler, h, body, c.v)
			}
			perSample(b, bodies, func(body []byte) {
				var err error
				if s.decoded, err = decompress(s.decoded, body, defaultDecodedBytes); err != nil {
					b.Fatal(err)
				}
				batch := h.NewBatch()
				var refused head.Refusals
				if err := fillBody(&s.filler, h, batch, &refused, s.decoded, c.v); err != nil {
					b.Fatal(err)
				}
				batch.Release()
			})
		})
	}
}
