package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// maker makes metrics at a registry, or at none.
type maker struct{ promauto.Factory }

func at(reg prometheus.Registerer) maker { return maker{promauto.With(reg)} }

func (m maker) counter(name, help string) prometheus.Counter {
	return m.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (m maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return m.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m maker) gauge(name, help string) prometheus.Gauge {
	return m.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}
