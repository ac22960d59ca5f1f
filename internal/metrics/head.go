package metrics

import "github.com/prometheus/client_golang/prometheus"

// Head are the metrics of package head.
type Head struct{}

// NewHead registers them; reg may be nil.
func NewHead(reg prometheus.Registerer) *Head { return &Head{} }
