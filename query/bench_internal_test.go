package query

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
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
			start := cpuTime()
			for b.Loop() {
				h.ServeHTTP(discard{}, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(in)))
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N*series*n), "cpu-ns/sample")
			b.ReportMetric(r.metric(b, "rwsink_read_bytes_total", metricMode(mode))/r.metric(b, "rwsink_read_samples_total", metricMode(mode)), "bytes/sample")
		})
	}
}

// cpuTime returns the CPU time of the process so far, in nanoseconds: other work
// on the machine does not count, nor does the benchmark's wall time mean much.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func metricMode(m prompb.ReadRequest_ResponseType) string {
	if m == modeChunks {
		return "streamed_xor_chunks"
	}
	return "samples"
}
