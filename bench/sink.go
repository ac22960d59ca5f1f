package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// sinkBytes bounds a body of the sink.
const sinkBytes = 64 << 20

// Sink is an HTTP server that reads every body and answers 204: what net/http
// costs alone. It runs until ctx is done.
func Sink(ctx context.Context, address string) error {
	pool := sync.Pool{New: func() any { return new([]byte) }}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	srv := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := r.ContentLength
			if n < 0 || n > sinkBytes {
				http.Error(w, "a body of known length is wanted", http.StatusBadRequest)
				return
			}
			buf := pool.Get().(*[]byte)
			defer pool.Put(buf)
			if int64(cap(*buf)) < n {
				*buf = make([]byte, n)
			}
			if _, err := io.ReadFull(r.Body, (*buf)[:n]); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		}),
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
