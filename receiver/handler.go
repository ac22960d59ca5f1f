package receiver

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/seldom"
)

// Options configure a Handler. Zero limits take the defaults of their flags.
type Options struct {
	Head          *head.Head
	BodyBytes     int64 // --limits.body, 32 MiB
	DecodedBytes  int64 // --limits.decoded, 32 MiB
	InFlight      int   // --limits.in-flight, 256
	RefusedStatus int   // --write.refused-status, 400 or 204
	Logger        *slog.Logger
	Metrics       *metrics.Receiver
}

// New returns the handler of POST /api/v1/write. It may serve any path.
func New(o Options) http.Handler {
	if o.BodyBytes <= 0 {
		o.BodyBytes = defaultBodyBytes
	}
	if o.DecodedBytes <= 0 {
		o.DecodedBytes = defaultDecodedBytes
	}
	o.DecodedBytes = min(o.DecodedBytes, math.MaxInt32)
	if o.InFlight <= 0 {
		o.InFlight = defaultInFlight
	}
	if o.RefusedStatus == 0 {
		o.RefusedStatus = http.StatusBadRequest
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewReceiver(nil)
	}
	h := &handler{Options: o}
	h.pool.New = func() any { return &scratch{} }
	return h
}

type handler struct {
	Options
	inFlight atomic.Int64
	pool     sync.Pool // of *scratch
	trouble  seldom.Gate
}

// scratch is the memory of one request.
type scratch struct {
	body, decoded []byte
	filler        filler
}

// ServeHTTP takes one write request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	h.Metrics.InFlight.Inc()
	defer h.Metrics.InFlight.Dec()
	v, n, err := h.serve(r)
	code := status(err, h.RefusedStatus)
	answer(w, v, n, code, err)
	h.Metrics.Request(v.String(), code, time.Since(begin))
	if err != nil {
		h.warn(r, code, err)
	}
}

// serve does everything up to the answer.
func (h *handler) serve(r *http.Request) (version, written, error) {
	if r.Method != http.MethodPost {
		return versionNone, written{}, errMethod
	}
	v, err := negotiate(r.Header)
	if err != nil {
		return v, written{}, err
	}
	defer h.inFlight.Add(-1)
	if h.inFlight.Add(1) > int64(h.InFlight) {
		return v, written{}, errBusy
	}
	if err := h.Head.Ready(); err != nil {
		return v, written{}, &head.UnavailableError{RetryAfter: notReadyRetry, Err: err}
	}
	n, err := h.write(r, v)
	return v, n, err
}

// notReadyRetry is how long a sender is asked to wait for a head that is not ready.
const notReadyRetry = 5 * time.Second

// write reads, decodes and commits the body of a request.
func (h *handler) write(r *http.Request, v version) (written, error) {
	b := h.Head.NewBatch()
	defer b.Release()
	var refused head.Refusals
	dropped, err := h.fill(r, v, b, &refused)
	if err != nil {
		return written{}, err
	}
	res, err := h.Head.Commit(r.Context(), b)
	if err != nil {
		return written{}, unavailable(err)
	}
	refused.Merge(&res.Refused)
	n := written{
		samples:    res.Samples + dropped.samples,
		histograms: res.Histograms + dropped.histograms,
		exemplars:  res.Exemplars + dropped.exemplars,
	}
	return n, h.judge(v, &refused)
}

// unavailable makes sure that an error of the head asks for the request again.
func unavailable(err error) error {
	var u *head.UnavailableError
	if errors.As(err, &u) {
		return err
	}
	return &head.UnavailableError{RetryAfter: busyRetry, Err: err}
}

// fill reads and decodes the body of a request into b. Its memory is free again
// before the batch is committed.
func (h *handler) fill(r *http.Request, v version, b *head.Batch, refused *head.Refusals) (dropped written, err error) {
	s := h.pool.Get().(*scratch)
	defer h.release(s)
	if s.body, err = readBody(s.body, r.Body, r.ContentLength, h.BodyBytes); err != nil {
		h.drain(r, err)
		return written{}, err
	}
	h.Metrics.BodyBytes.Add(float64(len(s.body)))
	decoded, err := decompress(s.decoded, s.body, h.DecodedBytes)
	s.decoded = decoded
	if err != nil {
		return written{}, err
	}
	h.Metrics.DecodedBytes.Add(float64(len(decoded)))
	f := &s.filler
	f.begin(h.Head, b, refused)
	defer f.end()
	if v == version1 {
		err = f.fill1(decoded)
	} else {
		err = f.fill2(decoded)
	}
	if err != nil {
		return written{}, err
	}
	h.count(f, v)
	return f.dropped, nil
}

// count tells the metrics what was in a request that could be decoded.
func (h *handler) count(f *filler, v version) {
	n, metadata := f.scan1.totals, f.scan1.totals.metadata
	if v == version2 {
		n, metadata = f.scan2.totals, f.metadata
	}
	h.Metrics.Received(n.samples, n.histograms, n.exemplars, metadata)
}

// drain reads on after a body that is too large, within reason, so that a sender
// that reads no answer before it has sent everything gets to read this one.
func (h *handler) drain(r *http.Request, err error) {
	var large *tooLargeError
	if errors.As(err, &large) && r.ContentLength <= 2*h.BodyBytes {
		_, _ = io.CopyN(io.Discard, r.Body, h.BodyBytes) // whatever goes wrong, the answer stands
	}
}

// release puts the memory of a request back, unless it is unusually large.
func (h *handler) release(s *scratch) {
	if cap(s.body) > maxPooled {
		s.body = nil
	}
	if cap(s.decoded) > maxPooled {
		s.decoded = nil
	}
	h.pool.Put(s)
}

// warn logs a request that was not answered with success, or counts it for the
// next line.
func (h *handler) warn(r *http.Request, code int, err error) {
	if held, ok := h.trouble.Pass(); ok {
		h.Logger.Warn("write request not stored as a whole", "status", code, "remote", r.RemoteAddr,
			"err", err, "not_logged_before", held)
	}
}
