package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/instant"
	"github.com/rwsink/rwsink/store"
)

// Options configure the handler.
type Options struct {
	Store   *store.Store
	Enabled bool // --web.enable-admin-api
	Logger  *slog.Logger
}

// retryAfter is what a client is told to wait while the store is not ready, in seconds.
const retryAfter = 5

// Path is where the handler is to be registered: what it does is told by the path value "what".
const Path = "/api/v1/admin/tsdb/{what}"

// action is what one endpoint does; data is nil where there is nothing to answer.
type action func(*store.Store, *http.Request) (data any, err error)

var actions = map[string]action{
	"flush":            func(st *store.Store, r *http.Request) (any, error) { return nil, st.Flush(r.Context()) },
	"clean_tombstones": func(st *store.Store, r *http.Request) (any, error) { return nil, st.CleanTombstones(r.Context()) },
	"delete_series":    deleteSeries,
	"snapshot":         snapshot,
}

type handler struct{ Options }

// New returns the handler of Path.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &handler{o}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.PathValue("what")
	do, ok := actions[what]
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost && r.Method != http.MethodPut:
		w.Header().Set("Allow", http.MethodPost+", "+http.MethodPut)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	case !h.Enabled:
		fail(w, http.StatusInternalServerError, "unavailable", "admin APIs disabled: start rwsink with --web.enable-admin-api")
		return
	}
	if err := h.Store.Ready(); err != nil {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		fail(w, http.StatusServiceUnavailable, "unavailable", "rwsink is not ready: "+err.Error())
		return
	}
	// The deadline of reading is for requests; it would end a long flush.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	data, err := do(h.Store, r)
	switch {
	case err != nil:
		if status := refuse(w, err); status != http.StatusBadRequest { // that is the client's
			h.Logger.Error("what was asked for failed", "what", what, "err", err)
		}
	case data == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		answer(w, http.StatusOK, struct {
			Status string `json:"status"`
			Data   any    `json:"data"`
		}{"success", data})
	}
}

// badRequestError is of a parameter.
type badRequestError struct{ error }

// deleteSeries deletes what start and end say of the series that match[] select.
func deleteSeries(st *store.Store, r *http.Request) (any, error) {
	if err := r.ParseForm(); err != nil {
		return nil, badRequestError{fmt.Errorf("error parsing form values: %w", err)}
	}
	if len(r.Form["match[]"]) == 0 {
		return nil, badRequestError{errors.New("no match[] parameter provided")}
	}
	start, end := instant.Time(math.MinInt64), instant.Time(math.MaxInt64)
	for name, at := range map[string]*instant.Time{"start": &start, "end": &end} {
		if s := r.FormValue(name); s != "" {
			if err := at.Set(s); err != nil {
				return nil, badRequestError{fmt.Errorf("invalid parameter %q: %w", name, err)}
			}
		}
	}
	if start > end {
		return nil, badRequestError{fmt.Errorf("invalid parameter \"end\": end %s is before start %s", end.String(), start.String())}
	}
	var selectors [][]*labels.Matcher
	for _, s := range r.Form["match[]"] {
		ms, err := parser.NewParser(parser.Options{}).ParseMetricSelector(s)
		if err != nil {
			return nil, badRequestError{fmt.Errorf("invalid parameter \"match[]\": %q: %w", s, err)}
		}
		selectors = append(selectors, ms)
	}
	// Once asked for it is done: a client that goes away must not leave half of it.
	return nil, st.Delete(context.WithoutCancel(r.Context()), int64(start), int64(end), selectors...)
}

// snapshot makes one and answers its name.
func snapshot(st *store.Store, r *http.Request) (any, error) {
	skipHead := false
	if s := r.FormValue("skip_head"); s != "" {
		var err error
		if skipHead, err = strconv.ParseBool(s); err != nil {
			return nil, badRequestError{fmt.Errorf("invalid parameter \"skip_head\": got %q, want true or false", s)}
		}
	}
	name, err := st.Snapshot(r.Context(), skipHead)
	return struct {
		Name string `json:"name"`
	}{name}, err
}

// refuse answers why a request failed, and returns the status.
func refuse(w http.ResponseWriter, err error) int {
	var bad badRequestError
	var badDelete *store.BadDeleteError
	var unavailable *head.UnavailableError
	status, kind := http.StatusInternalServerError, "internal"
	switch {
	case errors.As(err, &bad), errors.As(err, &badDelete):
		status, kind = http.StatusBadRequest, "bad_data"
	case errors.As(err, &unavailable):
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(unavailable.RetryAfter.Seconds())))))
		status, kind = http.StatusServiceUnavailable, "unavailable"
	}
	fail(w, status, kind, err.Error())
	return status
}

// fail answers as Prometheus's HTTP API does.
func fail(w http.ResponseWriter, status int, kind, message string) {
	answer(w, status, struct {
		Status    string `json:"status"`
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}{"error", kind, message})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
