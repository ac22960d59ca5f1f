package e2e

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// startTarget serves a scrape target of values that are hard to carry: every kind
// of number, series that come and go, exemplars, a histogram that becomes one
// with custom buckets, odd labels. It returns its address. (Minus zero is not among
// the numbers: Prometheus leaves a value that equals zero out of its messages.)
func startTarget(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", freeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	var scrapes atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
		fmt.Fprint(w, exposition(scrapes.Add(1)))
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
	return l.Addr().String()
}

// exposition is the text of the n-th scrape, in OpenMetrics.
func exposition(n int64) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

	line("# TYPE odd_value gauge")
	line("# HELP odd_value Numbers, one kind a series, some of which change kind.")
	for kind, v := range map[string]float64{
		"nan": math.NaN(), "inf": math.Inf(1), "minus_inf": math.Inf(-1),
		"subnormal": math.SmallestNonzeroFloat64 * float64(n), "max": math.MaxFloat64,
		"pi": math.Pi * float64(n), "tenths": float64(n) / 10, "whole": float64(n * n),
		"mixed": []float64{math.NaN(), 1, math.Inf(1), -1.5}[n%4],
	} {
		line("odd_value{kind=%q} %s", kind, number(v))
	}
	line("# TYPE flapping gauge")
	for phase := range int64(5) {
		if (n+phase)%5 < 3 { // there for three scrapes, away for two
			line("flapping{phase=\"%d\"} %d", phase, n)
		}
	}
	line("# TYPE churning gauge")
	line("churning{generation=\"%d\"} 1", n/7)
	line("# TYPE work counter")
	line("work_total{path=\"/\"} %d # {trace_id=\"t%d\"} %s", 3*n, n, number(float64(n)/8))
	line("work_created{path=\"/\"} 1700000000")
	line("work_total{path=\"ünï/日本\\\\\\\"\\n\"} %d", n%50) // resets every 50 scrapes
	line("# TYPE wait histogram")
	count := int64(0)
	for i, le := range []string{"0.1", "0.25", "1.0", "10.0", "+Inf"} {
		count += n * int64(i+1)
		line("wait_bucket{le=%q} %d # {trace_id=\"w%d\"} 0.05", le, count, n)
	}
	line("wait_count %d", count)
	line("wait_sum %s", number(float64(n)*0.7))
	line("# EOF")
	return b.String()
}
