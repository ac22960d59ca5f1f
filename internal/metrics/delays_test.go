package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rwsink/rwsink/internal/metrics"
)

// TestDelayBuckets observes each bound and one past it: bounds are powers of
// two of a millisecond, and what is on a bound is within.
func TestDelayBuckets(t *testing.T) {
	d := metrics.NewDelays(nil, "x_seconds", "help")
	reg := prometheus.NewRegistry()
	reg.MustRegister(d)
	var c metrics.DelayCounts
	c.Observe(-5)
	c.Observe(0)
	c.ObserveZero(2)
	for i := range 40 {
		c.Observe(1 << i)
		c.Observe(1<<i + 1)
	}
	d.Take(&c)
	d.Take(&c) // it is empty
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	h := families[0].GetMetric()[0].GetHistogram()
	if got := h.GetSampleCount(); got != 84 {
		t.Errorf("%d delays, want 84", got)
	}
	for i, b := range h.GetBucket() {
		// Four of 0 and one of 1 ms, then with each bound itself and what is one past that before.
		want := uint64(5 + 2*i)
		if b.GetUpperBound() != float64(uint64(1)<<i)/1000 || b.GetCumulativeCount() != want {
			t.Errorf("bucket %d: bound %g, count %d, want %d", i, b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
}
