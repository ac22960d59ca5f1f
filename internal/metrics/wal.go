package metrics

import "github.com/prometheus/client_golang/prometheus"

// WAL are the metrics of package wal.
type WAL struct{}

// NewWAL registers them; reg may be nil.
func NewWAL(reg prometheus.Registerer) *WAL { return &WAL{} }
