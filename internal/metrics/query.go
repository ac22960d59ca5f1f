package metrics

import "github.com/prometheus/client_golang/prometheus"

// Query are the metrics of package query.
type Query struct {
	InFlight prometheus.Gauge       // reads that hold a slot
	Waiting  prometheus.Gauge       // reads that wait for one
	Refused  *prometheus.CounterVec // reads that got no reply, by reason
	Aborted  *prometheus.CounterVec // replies broken off after their first byte, by mode
	Split    prometheus.Counter     // series sent in several frames
	Samples  ReadMode               // SAMPLES
	Chunks   ReadMode               // STREAMED_XOR_CHUNKS
}

// ReadMode are the metrics of one response type of remote read.
type ReadMode struct {
	Name     string              // the value of the label mode
	Duration prometheus.Observer // seconds from the slot to the last byte, waiting excluded
	Samples  prometheus.Counter  // samples sent; a histogram is one
	Series   prometheus.Counter  // series sent
	Bytes    prometheus.Counter  // bytes of body sent
}

// NewQuery registers them; reg may be nil.
func NewQuery(reg prometheus.Registerer) *Query {
	f := at(reg)
	duration := f.NewHistogramVec(prometheus.HistogramOpts{
		Name:                        "rwsink_read_duration_seconds",
		Help:                        "Time a remote read took from its slot to the last byte of its reply.",
		Buckets:                     prometheus.ExponentialBuckets(0.001, 4, 9),
		NativeHistogramBucketFactor: 1.1,
	}, []string{"mode"})
	samples := f.counters("rwsink_read_samples_total", "Samples sent by remote read; a histogram is one.", "mode")
	series := f.counters("rwsink_read_series_total", "Series sent by remote read.", "mode")
	bytes := f.counters("rwsink_read_bytes_total", "Bytes of reply bodies sent by remote read.", "mode")
	q := &Query{
		InFlight: f.gauge("rwsink_read_in_flight", "Remote reads being served."),
		Waiting:  f.gauge("rwsink_read_waiting", "Remote reads waiting for a slot."),
		Refused:  f.counters("rwsink_read_refused_total", "Remote reads that got no reply, by reason.", "reason"),
		Aborted:  f.counters("rwsink_read_aborted_total", "Remote read replies broken off after their first byte.", "mode"),
		Split:    f.counter("rwsink_read_split_series_total", "Series sent in several frames because they did not fit one."),
	}
	mode := func(name string) ReadMode {
		q.Aborted.WithLabelValues(name)
		return ReadMode{
			Name:     name,
			Duration: duration.WithLabelValues(name),
			Samples:  samples.WithLabelValues(name),
			Series:   series.WithLabelValues(name),
			Bytes:    bytes.WithLabelValues(name),
		}
	}
	q.Samples, q.Chunks = mode("samples"), mode("streamed_xor_chunks")
	return q
}
