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
	counter := func(name, help string) prometheus.Counter {
		return register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return register(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	accepted := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rwsink_head_samples_accepted_total",
		Help: "Samples and histograms accepted, by whether they were newer than all of their series.",
	}, []string{"order"}))
	return &Head{
		Registerer:  reg,
		InOrder:     accepted.WithLabelValues("in_order"),
		Late:        accepted.WithLabelValues("late"),
		Duplicates:  counter("rwsink_head_samples_duplicate_total", "Accepted samples that were stored already, counted where a merge meets them."),
		Overwritten: counter("rwsink_head_samples_overwritten_total", "Accepted samples that lost their timestamp to another value, counted where a merge meets them."),
		Lateness: register(reg, NewDelays("rwsink_head_sample_lateness_seconds",
			"Arrival less timestamp of the accepted samples.")),
		Disorder: register(reg, NewDelays("rwsink_head_sample_disorder_seconds",
			"Newest timestamp of the series less that of the accepted sample, 0 if in order.")),
		Series:        gauge("rwsink_head_series", "Series in the head."),
		Chunks:        gauge("rwsink_head_chunks", "Sealed chunks in the head."),
		Containers:    gauge("rwsink_head_containers", "Time ranges that the head holds."),
		ClockSuspect:  gauge("rwsink_clock_suspect", "1 while the receiver's clock is suspect."),
		Groups:        counter("rwsink_head_groups_total", "Groups of batches committed."),
		GroupFailures: counter("rwsink_head_group_failures_total", "Groups of batches of which nothing was stored, since the log refused them."),
		Merges:        counter("rwsink_head_merges_total", "Merges of late samples into chunks."),
		TailsSealed:   counter("rwsink_head_tails_sealed_total", "Tails of raw samples sealed into chunks."),
		Unnamed:       counter("rwsink_head_replay_unnamed_samples_total", "Replayed samples whose series record was lost with a damaged stretch of the log."),
	}
}

// register registers c unless reg is nil.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg != nil {
		reg.MustRegister(c)
	}
	return c
}
