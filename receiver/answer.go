package receiver

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/rwsink/rwsink/head"
)

// Reasons of this package, beside those of the head. A reason is a metric label;
// in an answer its underscores read as spaces.
const (
	reasonReferences = "label_references"   // 2.0: references that name no labels
	reasonHistogram  = "invalid_histogram"  // buckets, counts or bounds that do not fit together
	reasonTimestamp  = "exemplar_timestamp" // 2.0: an exemplar without one
)

// Names of headers.
const (
	headerSamples    = "X-Prometheus-Remote-Write-Samples-Written"
	headerHistograms = "X-Prometheus-Remote-Write-Histograms-Written"
	headerExemplars  = "X-Prometheus-Remote-Write-Exemplars-Written"
)

// busyRetry is how long a sender is asked to wait when too many requests are in flight.
const busyRetry = time.Second

var (
	errMethod = errors.New("remote write takes POST only")
	errBusy   = errors.New("too many requests in flight (--limits.in-flight)")
)

// refusedError says that some of a request was refused; the rest is stored.
type refusedError struct{ refused *head.Refusals }

func (e *refusedError) Error() string { return e.refused.Error() }

// status returns the HTTP status that answers err. What a client causes is 4xx,
// and whatever is not known to be temporary is taken as caused by the client:
// senders repeat a request for ever on 5xx, and lose it on 4xx.
func status(err error, refusedStatus int) int {
	var refused *refusedError
	var media *mediaError
	var unavailable *head.UnavailableError
	switch {
	case err == nil:
		return http.StatusNoContent
	case errors.As(err, &refused):
		return refusedStatus
	case errors.Is(err, errMethod):
		return http.StatusMethodNotAllowed
	case errors.As(err, &media):
		return http.StatusUnsupportedMediaType
	case errors.As(err, &unavailable), errors.Is(err, errBusy), errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}

// retryAfter returns what a sender is told to wait, in whole seconds, at least one.
func retryAfter(err error) string {
	wait := busyRetry
	var unavailable *head.UnavailableError
	if errors.As(err, &unavailable) {
		wait = max(wait, unavailable.RetryAfter)
	}
	return strconv.Itoa(int(math.Ceil(wait.Seconds())))
}

// answer writes the response: 2.0 is told what is stored whatever the status,
// and only errors have a body.
func answer(w http.ResponseWriter, v version, n written, code int, err error) {
	h := w.Header()
	if v == version2 {
		h.Set(headerSamples, strconv.Itoa(n.samples))
		h.Set(headerHistograms, strconv.Itoa(n.histograms))
		h.Set(headerExemplars, strconv.Itoa(n.exemplars))
	}
	switch code {
	case http.StatusNoContent:
		w.WriteHeader(code)
		return
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter(err))
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	fmt.Fprintln(w, err)
}
