package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// Store are the metrics of package store.
type Store struct {
	Lowest func() float64 // set before the first scrape: the lowest timestamp in seconds

	Blocks       prometheus.Gauge
	BlockBytes   prometheus.Gauge
	BlockSamples prometheus.Gauge

	WrittenBytes       prometheus.Counter
	FlushSeconds       prometheus.Histogram
	FlushFailures      prometheus.Counter
	CompactionSeconds  prometheus.Histogram
	CompactionFailures prometheus.Counter
	Removed            prometheus.Counter
	SetAside           prometheus.Counter
}

// NewStore registers them; reg may be nil.
func NewStore(reg prometheus.Registerer) *Store {
	counter := func(name, help string) prometheus.Counter {
		return register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return register(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	seconds := func(name, help string) prometheus.Histogram {
		return register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		}))
	}
	m := &Store{
		Blocks:             gauge("rwsink_store_blocks", "Blocks on disk."),
		BlockBytes:         gauge("rwsink_store_block_bytes", "Bytes of all blocks."),
		BlockSamples:       gauge("rwsink_store_block_samples", "Samples of all blocks."),
		WrittenBytes:       counter("rwsink_store_written_bytes_total", "Bytes of blocks written, by flushes and compactions; over the bytes flushed, the write amplification."),
		FlushSeconds:       seconds("rwsink_store_flush_duration_seconds", "Time that a block of the head took."),
		FlushFailures:      counter("rwsink_store_flush_failures_total", "Flushes that failed; they are tried again."),
		CompactionSeconds:  seconds("rwsink_store_compaction_duration_seconds", "Time that a merge of blocks took."),
		CompactionFailures: counter("rwsink_store_compaction_failures_total", "Merges of blocks that failed; they are tried again."),
		Removed:            counter("rwsink_store_blocks_removed_total", "Blocks that retention removed."),
		SetAside:           counter("rwsink_store_blocks_set_aside_total", "Damaged blocks that were set aside."),
	}
	// The name is the library's: Thanos reads it, at any moment.
	register(reg, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "prometheus_tsdb_lowest_timestamp_seconds",
		Help: "Lowest timestamp that may be stored, the largest time when there is none.",
	}, func() float64 {
		if m.Lowest == nil {
			return math.MaxInt64 / 1000
		}
		return m.Lowest()
	}))
	return m
}
