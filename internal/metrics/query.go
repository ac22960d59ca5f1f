package metrics

import "github.com/prometheus/client_golang/prometheus"

// Query are the metrics of package query.
type Query struct{}

// NewQuery registers them; reg may be nil.
func NewQuery(reg prometheus.Registerer) *Query { return &Query{} }
