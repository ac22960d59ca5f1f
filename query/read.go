package query

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/store"
)

// Options configure the read handler. Zero limits take the defaults of their flags.
type Options struct {
	Store          *store.Store
	ExternalLabels labels.Labels // --external-label
	SampleLimit    int           // --read.sample-limit, 50,000,000 a query in SAMPLES mode
	Concurrency    int           // --read.concurrent-limit, 10
	MaxFrameBytes  int           // --read.max-frame-bytes, just under 50,000,000
	Logger         *slog.Logger
	Metrics        *metrics.Query
}

// New returns the handler of POST /api/v1/read.
func New(o Options) http.Handler { panic("BUG: not built") }
