package metrics

import "github.com/prometheus/client_golang/prometheus"

// Receiver are the metrics of package receiver.
type Receiver struct{}

// NewReceiver registers them; reg may be nil.
func NewReceiver(reg prometheus.Registerer) *Receiver { return &Receiver{} }
