package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/rwsink/rwsink/store"
)

// flushHandler makes blocks of everything, merges them, and answers 204 when
// that is done. Errors have the form of Prometheus's HTTP API. Without the flag
// the answer is 403: a 503 would be tried again. A client that goes away ends
// the work; what is not in a block by then stays in the head and the log.
func flushHandler(enabled bool, st *store.Store, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !enabled {
			apiError(w, http.StatusForbidden, "unavailable", "admin APIs disabled: start rwsink with --web.enable-admin-api")
			return
		}
		if err := st.Ready(); err != nil {
			w.Header().Set("Retry-After", "5")
			apiError(w, http.StatusServiceUnavailable, "unavailable", "rwsink is not ready: "+err.Error())
			return
		}
		// The deadline of reading is for requests; it would end a long flush.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		if err := st.Flush(r.Context()); err != nil {
			logger.Error("the flush that was asked for failed", "err", err)
			apiError(w, http.StatusInternalServerError, "internal", err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// apiError answers as Prometheus's HTTP API does.
func apiError(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Status    string `json:"status"`
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}{"error", kind, message})
}
