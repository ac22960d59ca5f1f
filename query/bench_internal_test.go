package query

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/rwsink/rwsink/internal/proc"
)

// BenchmarkRead reads a million samples, 5,000 series of 200, without a network.
func BenchmarkRead(b *testing.B) {
	const series, n = 5000, 200
	r := newRig(b, Options{})
	rng := rand.New(rand.NewPCG(1, 1))
	base := hourAgo()
	for i := range series {
		points := floatPoints(base, 15_000, n, 0)
		v := 0.0
		for k := range points {
			switch i % 4 {
			case 0: // a gauge
				v = rng.NormFloat64()
			case 1: // a counter
				v += float64(rng.IntN(100))
			case 2: // a counter at a steady rate
				v += 30
			}
			points[k].v = v
		}
		r.write(b, labels.FromStrings("__name__", fmt.Sprintf("m_%d", i%50), "i", fmt.Sprint(i), "instance", "host:9100", "job", "node"), points...)
	}
	for _, mode := range bothModes {
		b.Run(mode.String(), func(b *testing.B) {
			in := request1(b, []prompb.ReadRequest_ResponseType{mode}, everything(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}))
			h := r.srv.Config.Handler
			b.ReportAllocs()
			start := proc.CPUTime()
			for b.Loop() {
				h.ServeHTTP(discard{}, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(in)))
			}
			b.ReportMetric(float64((proc.CPUTime()-start).Nanoseconds())/float64(b.N*series*n), "cpu-ns/sample")
			b.ReportMetric(r.metric(b, "rwsink_read_bytes_total", metricMode(mode))/r.metric(b, "rwsink_read_samples_total", metricMode(mode)), "bytes/sample")
		})
	}
}

func metricMode(m prompb.ReadRequest_ResponseType) string {
	if m == modeChunks {
		return "streamed_xor_chunks"
	}
	return "samples"
}
