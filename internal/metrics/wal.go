package metrics

import "github.com/prometheus/client_golang/prometheus"

// WAL are the metrics of package wal.
type WAL struct {
	WrittenBytes    prometheus.Counter   // bytes handed to the operating system, headers included
	FsyncSeconds    prometheus.Histogram // of segments
	Segments        prometheus.Gauge
	SizeBytes       prometheus.Gauge   // bytes of all segments
	WriteErrors     prometheus.Counter // groups refused and segments that could not be created
	LostFrames      prometheus.Counter // LSNs that damage took
	DamagedSegments prometheus.Counter
	TornBytes       prometheus.Counter // cut from the end of the newest segment at start
}

// NewWAL registers them; reg may be nil.
func NewWAL(reg prometheus.Registerer) *WAL {
	f := at(reg)
	return &WAL{
		WrittenBytes: f.counter("rwsink_wal_written_bytes_total", "Bytes written to the log."),
		FsyncSeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "rwsink_wal_fsync_duration_seconds",
			Help:    "Duration of an fsync of a log segment.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12), // 0.1 ms to 2.4 s
		}),
		Segments:        f.gauge("rwsink_wal_segments", "Segments of the log."),
		SizeBytes:       f.gauge("rwsink_wal_size_bytes", "Bytes of all segments of the log."),
		WriteErrors:     f.counter("rwsink_wal_write_errors_total", "Writes and syncs of the log that failed, segments that could not be created included."),
		LostFrames:      f.counter("rwsink_wal_lost_frames_total", "Log sequence numbers whose frames damage took."),
		DamagedSegments: f.counter("rwsink_wal_damaged_segments_total", "Segments found damaged at start."),
		TornBytes:       f.counter("rwsink_wal_torn_bytes_total", "Bytes of an unfinished write cut from the end of the log at start."),
	}
}
