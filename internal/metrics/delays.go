package metrics

import (
	"math/bits"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// delayBuckets is how many buckets Delays has: bucket i is up to 2^i
// milliseconds, that included, and the last one beyond half a year.
const delayBuckets = 36

// DelayCounts are delays counted by one goroutine until it hands them to
// Delays; observing costs a few instructions, so that every sample can be observed.
type DelayCounts struct {
	buckets [delayBuckets]uint64
	sumMs   float64
}

// Observe counts a delay in milliseconds; one below 0 counts as 0.
func (c *DelayCounts) Observe(ms int64) {
	ms = max(0, ms)
	c.buckets[min(bits.Len64(uint64(max(1, ms)-1)), delayBuckets-1)]++
	c.sumMs += float64(ms)
}

// ObserveZero counts n delays of 0.
func (c *DelayCounts) ObserveZero(n int) { c.buckets[0] += uint64(n) }

// Delays is a histogram of delays with a bucket for every power of two of a millisecond.
type Delays struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	counts DelayCounts
}

// NewDelays returns a histogram of that name, whose unit is seconds, at reg, which may be nil.
func NewDelays(reg prometheus.Registerer, name, help string) *Delays {
	d := &Delays{desc: prometheus.NewDesc(name, help, nil, nil)}
	if reg != nil {
		reg.MustRegister(d)
	}
	return d
}

// Take adds what c counted and empties c.
func (d *Delays) Take(c *DelayCounts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, n := range c.buckets {
		d.counts.buckets[i] += n
	}
	d.counts.sumMs += c.sumMs
	*c = DelayCounts{}
}

// Describe is part of prometheus.Collector.
func (d *Delays) Describe(ch chan<- *prometheus.Desc) { ch <- d.desc }

// Collect is part of prometheus.Collector.
func (d *Delays) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cumulative := make(map[float64]uint64, delayBuckets)
	var n uint64
	for i, c := range d.counts.buckets[:delayBuckets-1] {
		n += c
		cumulative[float64(int64(1)<<i)/1000] = n
	}
	n += d.counts.buckets[delayBuckets-1]
	ch <- prometheus.MustNewConstHistogram(d.desc, n, d.counts.sumMs/1000, cumulative)
}
