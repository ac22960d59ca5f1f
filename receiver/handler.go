package receiver

import (
	"log/slog"
	"net/http"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/metrics"
)

// Options configure a Handler. Zero limits take the defaults of their flags.
type Options struct {
	Head          *head.Head
	BodyBytes     int64 // --limits.body, 32 MiB
	DecodedBytes  int64 // --limits.decoded, 32 MiB
	InFlight      int   // --limits.in-flight
	RefusedStatus int   // --write.refused-status, 400 or 204
	Logger        *slog.Logger
	Metrics       *metrics.Receiver
}

// New returns the handler of POST /api/v1/write.
func New(o Options) http.Handler { panic("BUG: not built") }
