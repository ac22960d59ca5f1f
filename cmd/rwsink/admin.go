package main

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
	"github.com/rwsink/rwsink/store"
)

// adminHandlers are the endpoints of /api/v1/admin/tsdb by name. Parameters and
// answers are Prometheus's, also where the flag that enables them is not given:
// 500 with the type "unavailable". A client that goes away ends the work; what
// is not in a block by then stays in the head and the log.
func adminHandlers(enabled bool, st *store.Store, logger *slog.Logger) map[string]http.Handler {
	handler := func(what string, do func(*store.Store, *http.Request) (data any, err error)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !enabled {
				apiError(w, http.StatusInternalServerError, "unavailable", "admin APIs disabled: start rwsink with --web.enable-admin-api")
				return
			}
			if err := st.Ready(); err != nil {
				w.Header().Set("Retry-After", "5")
				apiError(w, http.StatusServiceUnavailable, "unavailable", "rwsink is not ready: "+err.Error())
				return
			}
			// The deadline of reading is for requests; it would end a long flush.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			data, err := do(st, r)
			if err != nil {
				if status := adminError(w, err); status != http.StatusBadRequest { // that is the client's
					logger.Error("what was asked for failed", "what", what, "err", err)
				}
				return
			}
			if data == nil {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			answerJSON(w, http.StatusOK, struct {
				Status string `json:"status"`
				Data   any    `json:"data"`
			}{"success", data})
		})
	}
	return map[string]http.Handler{
		"flush":            handler("flush", func(st *store.Store, r *http.Request) (any, error) { return nil, st.Flush(r.Context()) }),
		"clean_tombstones": handler("clean tombstones", func(st *store.Store, r *http.Request) (any, error) { return nil, st.CleanTombstones(r.Context()) }),
		"delete_series":    handler("delete series", deleteSeries),
		"snapshot":         handler("snapshot", snapshot),
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
	start, end := instant(math.MinInt64), instant(math.MaxInt64)
	for name, at := range map[string]*instant{"start": &start, "end": &end} {
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
			return nil, badRequestError{fmt.Errorf("invalid parameter \"skip_head\": unable to parse boolean: %w", err)}
		}
	}
	name, err := st.Snapshot(r.Context(), skipHead)
	return struct {
		Name string `json:"name"`
	}{name}, err
}

// adminError answers why an admin request failed, and returns the status.
func adminError(w http.ResponseWriter, err error) int {
	var bad badRequestError
	var badDelete *store.BadDeleteError
	var unavailable *head.UnavailableError
	status, kind := http.StatusInternalServerError, "internal"
	switch {
	case errors.As(err, &bad), errors.As(err, &badDelete):
		status, kind = http.StatusBadRequest, "bad_data"
	case errors.As(err, &unavailable):
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(unavailable.RetryAfter.Seconds()))))
		status, kind = http.StatusServiceUnavailable, "unavailable"
	}
	apiError(w, status, kind, err.Error())
	return status
}

// apiError answers as Prometheus's HTTP API does.
func apiError(w http.ResponseWriter, status int, kind, message string) {
	answerJSON(w, status, struct {
		Status    string `json:"status"`
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}{"error", kind, message})
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
