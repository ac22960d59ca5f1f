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
	LostChunks         prometheus.Counter
	Deletes            prometheus.Counter
	Tombstones         prometheus.Gauge
}

// NewStore registers them; reg may be nil.
func NewStore(reg prometheus.Registerer) *Store {
	f := at(reg)
	seconds := func(name, help string) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		})
	}
	m := &Store{
		Blocks:             f.gauge("rwsink_store_blocks", "Blocks on disk."),
		BlockBytes:         f.gauge("rwsink_store_block_bytes", "Bytes of all blocks."),
		BlockSamples:       f.gauge("rwsink_store_block_samples", "Samples of all blocks."),
		WrittenBytes:       f.counter("rwsink_store_written_bytes_total", "Bytes of blocks written, by flushes and compactions; over the bytes flushed, the write amplification."),
		FlushSeconds:       seconds("rwsink_store_flush_duration_seconds", "Time that a block of the head took."),
		FlushFailures:      f.counter("rwsink_store_flush_failures_total", "Flushes that failed; they are tried again."),
		CompactionSeconds:  seconds("rwsink_store_compaction_duration_seconds", "Time that a merge of blocks took."),
		CompactionFailures: f.counter("rwsink_store_compaction_failures_total", "Merges of blocks that failed; they are tried again."),
		Removed:            f.counter("rwsink_store_blocks_removed_total", "Blocks that retention removed."),
		SetAside:           f.counter("rwsink_store_blocks_set_aside_total", "Damaged blocks that were set aside."),
		LostChunks:         f.counter("rwsink_store_lost_chunks_total", "Damaged chunks of blocks that were set aside; what else these held was written anew."),
		Deletes:            f.counter("rwsink_store_deletes_total", "Selectors whose series had a range of time deleted."),
		Tombstones:         f.gauge("rwsink_store_tombstones", "Ranges of series that are deleted and still in blocks."),
	}
	// The name is the library's: Thanos reads it, at any moment.
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "prometheus_tsdb_lowest_timestamp_seconds",
		Help: "Lowest timestamp that may be stored, the largest time when there is none.",
	}, func() float64 {
		if m.Lowest == nil {
			return math.MaxInt64 / 1000
		}
		return m.Lowest()
	})
	return m
}
