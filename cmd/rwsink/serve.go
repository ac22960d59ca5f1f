package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	runner "github.com/oklog/run"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/rwsink/rwsink/admin"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/query"
	"github.com/rwsink/rwsink/receiver"
	"github.com/rwsink/rwsink/store"
)

const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 5 * time.Minute  // of a whole request: 32 MiB at 110 KB/s
	idleTimeout       = 5 * time.Minute  // senders keep connections between batches
	shutdownTimeout   = 30 * time.Second // for requests under way; senders give up after as long
)

// serve runs until a signal or a failure.
func serve(c *config, logger *slog.Logger) error {
	path, err := filepath.Abs(c.storage.path)
	if err != nil {
		return err
	}
	logger.Info("Starting rwsink", "data", path, "version", version.Info(), "build", version.BuildContext())
	setGC()
	limitMemory(c.limits.maxMemory, logger)
	if err := web.Validate(*c.web.WebConfigFile); err != nil {
		return fmt.Errorf("--web.config.file=%s: %w", *c.web.WebConfigFile, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		versioncollector.NewCollector("rwsink"),
	)
	listeners, err := listen(*c.web.WebListenAddresses)
	if err != nil {
		return err
	}
	st, err := openStore(c, registry, logger)
	if err != nil {
		closeAll(listeners)
		return err
	}
	err = runActors(c, st, listeners, registry, logger)
	if closeErr := st.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close %s: %w", c.storage.path, closeErr))
	}
	if err != nil {
		return err
	}
	logger.Info("rwsink has stopped")
	return nil
}

// runActors starts what runs and returns when all of it has ended, nil after a signal.
func runActors(c *config, st *store.Store, listeners []net.Listener, registry *prometheus.Registry, logger *slog.Logger) error {
	var g runner.Group
	{ // Signals, caught before the first request is. After the first, the next one ends the process: its handler is gone.
		signals, ended := make(chan os.Signal, 1), make(chan struct{})
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		g.Add(func() error {
			defer signal.Stop(signals)
			select {
			case s := <-signals:
				err := &runner.SignalError{Signal: s}
				logger.Info("Stopping", "reason", err)
				return err
			case <-ended:
				return nil
			}
		}, func(error) { close(ended) })
	}
	{ // HTTP.
		server := &http.Server{
			Handler:           handler(c, st, registry, logger),
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       readTimeout,
			IdleTimeout:       idleTimeout,
			ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		}
		stopped := make(chan struct{})
		g.Add(func() error {
			err := web.ServeMultiple(listeners, server, &c.web, logger)
			if !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve HTTP: %w", err)
			}
			<-stopped // Serve returns while requests are still under way
			return nil
		}, func(error) {
			defer close(stopped)
			ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
			defer cancel()
			if err := server.Shutdown(ctx); err != nil {
				logger.Warn("Requests under way are cut off", "after", shutdownTimeout, "err", err)
				_ = server.Close()
			}
		})
	}
	{ // Replay of the log, once; then there is nothing to do but to wait.
		ctx, cancel := context.WithCancel(context.Background())
		g.Add(func() error {
			if err := st.Replay(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("replay the log: %w", err)
			}
			<-ctx.Done()
			return nil
		}, func(error) { cancel() })
	}
	if err := g.Run(); !errors.Is(err, runner.ErrSignal) {
		return err
	}
	return nil
}

// listen opens every address, or none.
func listen(addresses []string) ([]net.Listener, error) {
	var ls []net.Listener
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			closeAll(ls)
			return nil, fmt.Errorf("--web.listen-address=%s: %w", a, err)
		}
		ls = append(ls, l)
	}
	return ls, nil
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		l.Close()
	}
}

// openStore opens the data directory as the flags say.
func openStore(c *config, reg prometheus.Registerer, logger *slog.Logger) (*store.Store, error) {
	rules, err := loadRelabel(c.write.relabelFile)
	if err != nil {
		return nil, err
	}
	return store.Open(store.Options{
		Path:    c.storage.path,
		FS:      vfs.OS{},
		Sync:    c.storage.syncPolicy(),
		LogMax:  int64(c.storage.walMaxSize),
		MaxSize: int64(c.storage.retentionSize),
		Head: head.Options{
			BlockDuration: time.Duration(c.storage.blockDuration),
			ChunkSamples:  int(c.storage.chunkSamples),
			Encoding:      c.storage.floatEncoding(),
			Exemplars:     orNone(c.storage.exemplars),
			Accept: head.Accept{
				Retention:  time.Duration(c.storage.retention),
				Window:     time.Duration(c.window),
				MaxFuture:  time.Duration(c.limits.maxFuture),
				TrustClock: c.storage.trustClock,
				Now:        time.Now,
			},
			Limits:  head.Limits{Series: int(c.limits.series), Labels: int(c.limits.labels), ColdBytes: int(c.storage.headMemory)},
			Relabel: rules,
			Logger:  logger.With("component", "head"),
			Metrics: metrics.NewHead(reg),
		},
		Logger:  logger.With("component", "store"),
		Metrics: store.Metrics{Store: metrics.NewStore(reg), WAL: metrics.NewWAL(reg)},
	})
}

// handler wires what answers HTTP.
func handler(c *config, st *store.Store, registry *prometheus.Registry, logger *slog.Logger) http.Handler {
	status, _ := strconv.Atoi(c.write.refusedStatus) // one of the two that the flag takes
	return routes{
		write: receiver.New(receiver.Options{
			Head:          st.Head(),
			BodyBytes:     int64(c.limits.body),
			DecodedBytes:  int64(c.limits.decoded),
			InFlight:      int(c.limits.inFlight),
			RefusedStatus: status,
			Logger:        logger.With("component", "receiver"),
			Metrics:       metrics.NewReceiver(registry),
		}),
		read: query.New(query.Options{
			Store:          st,
			ExternalLabels: c.externalLabels.labels(),
			SampleLimit:    orNone(uint(c.read.sampleLimit)),
			Concurrency:    orNone(uint(c.read.concurrency)),
			MaxFrameBytes:  int(c.read.maxFrameBytes),
			Logger:         logger.With("component", "query"),
			Metrics:        metrics.NewQuery(registry),
		}),
		admin:    admin.New(admin.Options{Store: st, Enabled: c.adminAPI, Logger: logger.With("component", "admin")}),
		ready:    st.Ready,
		notice:   st.Notice,
		registry: registry,
		profiles: c.adminAPI,
	}.mux()
}
