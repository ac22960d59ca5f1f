package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/rwsink/rwsink/internal/memlimit"
)

// gcPercent is how much the heap grows between two collections, in percent of what
// is alive. Most of what a head holds are labels and blocks of samples, which the
// collector does not look into, and a steady stream of samples allocates little:
// twice as many collections cost little, and half the slack is saved.
const gcPercent = 50

// setGC sets how often the collector runs, unless GOGC says so.
func setGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// limitMemory sets the runtime's soft memory limit: to flag when it is given, else
// to 0.8 of the container's limit when there is one and GOMEMLIMIT does not say
// otherwise. The rest is for what the collector does not see, pages of files first.
func limitMemory(flag size, logger *slog.Logger) {
	limit, from := int64(flag), "flag"
	if limit == 0 {
		if os.Getenv("GOMEMLIMIT") != "" {
			return
		}
		container, ok := memlimit.Container(os.DirFS("/"))
		if !ok {
			return
		}
		limit, from = container/10*8, "container"
	}
	debug.SetMemoryLimit(limit)
	logger.Info("Memory limit is set", "bytes", limit, "from", from)
}
