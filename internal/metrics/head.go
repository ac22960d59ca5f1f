package metrics

import "github.com/prometheus/client_golang/prometheus"

// Head are the metrics of package head.
type Head struct {
	Registerer prometheus.Registerer // for library parts that register their own; may be nil

	InOrder     prometheus.Counter
	Late        prometheus.Counter
	Duplicates  prometheus.Counter
	Overwritten prometheus.Counter
	Lateness    *Delays
	Disorder    *Delays

	Series       prometheus.Gauge
	Created      prometheus.Counter
	Chunks       prometheus.Gauge
	Containers   prometheus.Gauge
	ClockSuspect prometheus.Gauge

	Groups        prometheus.Counter
	GroupFailures prometheus.Counter
	Merges        prometheus.Counter
	TailsSealed   prometheus.Counter
	Unnamed       prometheus.Counter
}

// NewHead registers them; reg may be nil.
func NewHead(reg prometheus.Registerer) *Head {
	m := at(reg)
	accepted := m.counters("rwsink_head_samples_accepted_total",
		"Samples and histograms accepted, by whether they were newer than all of their series.", "order")
	return &Head{
		Registerer:  reg,
		InOrder:     accepted.WithLabelValues("in_order"),
		Late:        accepted.WithLabelValues("late"),
		Duplicates:  m.counter("rwsink_head_samples_duplicate_total", "Accepted samples that were stored already, counted where a merge meets them."),
		Overwritten: m.counter("rwsink_head_samples_overwritten_total", "Accepted samples that lost their timestamp to another value, counted where a merge meets them."),
		Lateness: NewDelays(reg, "rwsink_head_sample_lateness_seconds",
			"Arrival less timestamp of the accepted samples."),
		Disorder: NewDelays(reg, "rwsink_head_sample_disorder_seconds",
			"Newest timestamp of the series less that of the accepted sample, 0 if in order."),
		Series:        m.gauge("rwsink_head_series", "Series in the head."),
		Created:       m.counter("rwsink_head_series_created_total", "Series that requests brought and the head did not have: new ones, and those that it had let go of."),
		Chunks:        m.gauge("rwsink_head_chunks", "Sealed chunks in the head."),
		Containers:    m.gauge("rwsink_head_containers", "Time ranges that the head holds."),
		ClockSuspect:  m.gauge("rwsink_clock_suspect", "1 while the receiver's clock is suspect."),
		Groups:        m.counter("rwsink_head_groups_total", "Groups of batches committed."),
		GroupFailures: m.counter("rwsink_head_group_failures_total", "Groups of batches of which nothing was stored, since the log refused them."),
		Merges:        m.counter("rwsink_head_merges_total", "Merges of late samples into chunks."),
		TailsSealed:   m.counter("rwsink_head_tails_sealed_total", "Full tails sealed into chunks before their slot was over."),
		Unnamed:       m.counter("rwsink_head_replay_unnamed_samples_total", "Replayed samples whose series record was lost with a damaged stretch of the log."),
	}
}
