package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rwsink/rwsink/admin"
)

// endpoints is the page at /.
const endpoints = `rwsink

POST /api/v1/write   Prometheus remote write 1.0 and 2.0
POST /api/v1/read    Prometheus remote read, sampled or streamed
POST /api/v1/admin/tsdb/delete_series      match[], start, end; these need --web.enable-admin-api
POST /api/v1/admin/tsdb/clean_tombstones   what is deleted leaves the disk
POST /api/v1/admin/tsdb/snapshot           skip_head; hard links of the blocks
POST /api/v1/admin/tsdb/flush              everything to blocks
GET  /debug/pprof/   profiles of this process; needs --web.enable-admin-api, too
GET  /metrics        metrics of this process
GET  /-/healthy      200 while the process serves
GET  /-/ready        200 when reads are served and writes tried, else 503 and why; tells of a disk that fails and of a suspect clock
`

// notHere is what those get who take rwsink for Prometheus, or for a collector.
const notHere = "rwsink has no query API and takes no OTLP; the page at / lists what it serves\n"

// routes are the handlers by path.
type routes struct {
	write, read, admin http.Handler
	ready              func() error  // nil, or why not
	notice             func() string // what to know although it is ready, or nothing
	registry           *prometheus.Registry
	profiles           bool // --web.enable-admin-api
}

// mux says which handler answers which path; write, read and admin judge methods
// themselves. A GET pattern answers HEAD too.
func (r routes) mux() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/api/v1/write", r.write)
	mux.Handle("/api/v1/read", r.read)
	mux.Handle(admin.Path, r.admin)
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(r.registry,
		promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{Registry: r.registry})))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "rwsink is healthy.\n")
	})
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := r.ready(); err != nil {
			text(w, http.StatusServiceUnavailable, fmt.Sprintf("rwsink is not ready: %v\n", err))
			return
		}
		body := "rwsink is ready.\n"
		if n := r.notice(); n != "" {
			body += n + "\n"
		}
		text(w, http.StatusOK, body)
	})
	r.debug(mux)
	for _, elsewhere := range []string{"/api/", "/v1/"} {
		mux.HandleFunc(elsewhere, func(w http.ResponseWriter, _ *http.Request) {
			text(w, http.StatusNotFound, notHere)
		})
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, endpoints)
	})
	return mux
}

// debug adds the profiles, which cost a server what it has left, to mux: those who
// may ask for them may do what the admin API does.
func (r routes) debug(mux *http.ServeMux) {
	if !r.profiles {
		mux.HandleFunc("/debug/", func(w http.ResponseWriter, _ *http.Request) {
			text(w, http.StatusNotFound, "profiles disabled: start rwsink with --web.enable-admin-api\n")
		})
		return
	}
	for path, h := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("GET /debug/pprof/"+path, h)
	}
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
