package query

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/store"
)

// Options configure the read handler. Zero limits take the defaults of their flags; the
// first two are none at all where they are negative.
type Options struct {
	Store          *store.Store
	ExternalLabels labels.Labels // --external-label
	SampleLimit    int           // --read.sample-limit, 50,000,000 a query in SAMPLES mode
	Concurrency    int           // --read.concurrent-limit, 10
	MaxFrameBytes  int           // --read.max-frame-bytes, just under 50,000,000
	Logger         *slog.Logger
	Metrics        *metrics.Query
}

// The defaults of Options.
const (
	DefaultSampleLimit   = 50_000_000
	DefaultConcurrency   = 10
	DefaultMaxFrameBytes = 49_900_000 // clients refuse more than 50,000,000
)

// retryAfter is what a reader is told to wait when there is no slot or no data yet, in seconds.
const retryAfter = 5

// handler serves POST /api/v1/read.
type handler struct {
	Options
	external External
	gate     *gate
	sessions sync.Pool // *session
}

// New returns the handler of POST /api/v1/read. It panics with
// http.ErrAbortHandler when a reply fails after its first byte, which makes the
// server break the connection.
func New(o Options) http.Handler {
	o.SampleLimit = orMost(cmp.Or(o.SampleLimit, DefaultSampleLimit), math.MaxInt)
	o.Concurrency = orMost(cmp.Or(o.Concurrency, DefaultConcurrency), math.MaxInt32)
	if o.MaxFrameBytes <= 0 {
		o.MaxFrameBytes = DefaultMaxFrameBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewQuery(nil)
	}
	return &handler{
		Options:  o,
		external: NewExternal(o.ExternalLabels),
		gate:     newGate(o.Concurrency, o.Metrics.InFlight, o.Metrics.Waiting),
		sessions: sync.Pool{New: func() any { return &session{} }},
	}
}

// orMost returns a limit, or most where it is negative, which is none.
func orMost(limit, most int) int {
	if limit < 0 {
		return most
	}
	return limit
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		h.refuse(w, &refusal{http.StatusMethodNotAllowed, "method", "remote read: want POST"})
		return
	}
	if err := h.Store.Ready(); err != nil {
		h.refuse(w, unavailable("not_ready", err))
		return
	}
	if err := h.gate.admit(); err != nil {
		h.refuse(w, unavailable("busy", err))
		return
	}
	ctx := r.Context()
	body, err := readBody(w, r)
	if err == nil {
		err = h.gate.wait(ctx)
	}
	if err != nil {
		h.gate.dismiss()
		h.fail(ctx, w, nil, err)
		return
	}
	defer h.gate.leave()
	start := time.Now()
	req, err := decodeRequest(body)
	if err != nil {
		h.fail(ctx, w, nil, err)
		return
	}
	s := h.sessions.Get().(*session)
	s.open(ctx, h, w)
	defer s.close()
	err = s.serve(req)
	s.mode.Duration.Observe(time.Since(start).Seconds())
	if err != nil {
		h.fail(ctx, w, s, err)
	}
}

// fail answers a read that cannot be completed. s is nil before there is one.
func (h *handler) fail(ctx context.Context, w http.ResponseWriter, s *session, err error) {
	var refused *refusal
	var lost *wireError
	switch {
	case errors.As(err, &refused):
	case ctx.Err() != nil || errors.As(err, &lost):
		refused = unavailable("canceled", err)
	case s == nil: // the body broke off; its client is at fault, if it is still there
		refused = badRequest("%v", err)
	default:
		h.Logger.Error("Remote read failed", "err", err)
		refused = &refusal{http.StatusInternalServerError, "failed", "remote read: " + err.Error()}
	}
	if s != nil && s.out.started {
		h.Metrics.Aborted.WithLabelValues(s.mode.Name).Inc()
		panic(http.ErrAbortHandler) // an ordinary end would look complete
	}
	h.refuse(w, refused)
}

// refuse answers with a status and a text.
func (h *handler) refuse(w http.ResponseWriter, r *refusal) {
	h.Metrics.Refused.WithLabelValues(r.reason).Inc()
	if r.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	http.Error(w, r.text, r.status)
}

// unavailable is a refusal that may go away by itself.
func unavailable(reason string, err error) *refusal {
	return &refusal{http.StatusServiceUnavailable, reason, "remote read: " + err.Error()}
}
