package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Receiver are the metrics of package receiver.
type Receiver struct {
	InFlight     prometheus.Gauge
	BodyBytes    prometheus.Counter // as received, compressed
	DecodedBytes prometheus.Counter

	requests *prometheus.CounterVec // version, code
	duration prometheus.ObserverVec // version
	received [4]prometheus.Counter  // samples, histograms, exemplars, metadata
	refused  *prometheus.CounterVec // item, reason
	forgiven prometheus.Counter
}

// NewReceiver registers them; reg may be nil.
func NewReceiver(reg prometheus.Registerer) *Receiver {
	f := at(reg)
	m := &Receiver{
		InFlight:     f.gauge("rwsink_write_requests_in_flight", "Write requests being served."),
		BodyBytes:    f.counter("rwsink_write_body_bytes_total", "Bytes of the bodies of write requests, compressed as they came."),
		DecodedBytes: f.counter("rwsink_write_decoded_bytes_total", "Bytes of the bodies of write requests, decompressed."),
		requests:     f.counters("rwsink_write_requests_total", "Write requests answered, by protocol version and status.", "version", "code"),
		refused:      f.counters("rwsink_write_refused_total", "What was refused in write requests, by kind of item and reason.", "item", "reason"),
		forgiven: f.counter("rwsink_write_refused_requests_answered_ok_total",
			"Write requests answered with success although something was refused: --write.refused-status, or exemplars out of order in 1.0."),
	}
	m.duration = f.NewHistogramVec(prometheus.HistogramOpts{
		Name:                            "rwsink_write_request_duration_seconds",
		Help:                            "Time from the header of a write request to its answer, by protocol version.",
		Buckets:                         []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"version"})
	for i, item := range []string{"samples", "histograms", "exemplars", "metadata"} {
		m.received[i] = f.counter("rwsink_write_received_"+item+"_total", "How many "+item+" were in the write requests that could be decoded.")
	}
	return m
}

// Request counts one request of a protocol version, answered with an HTTP status.
func (m *Receiver) Request(version string, code int, took time.Duration) {
	m.requests.WithLabelValues(version, strconv.Itoa(code)).Inc()
	m.duration.WithLabelValues(version).Observe(took.Seconds())
}

// Received counts what a request that could be decoded holds.
func (m *Receiver) Received(samples, histograms, exemplars, metadata int) {
	for i, n := range [...]int{samples, histograms, exemplars, metadata} {
		m.received[i].Add(float64(n))
	}
}

// Refused counts n items refused for a reason.
func (m *Receiver) Refused(item, reason string, n int) {
	m.refused.WithLabelValues(item, reason).Add(float64(n))
}

// Forgiven counts a request answered with success although something was refused.
func (m *Receiver) Forgiven() { m.forgiven.Inc() }
