package head_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/proc"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

const (
	benchSeries = 100_000
	benchBatch  = 2000
	stepMs      = 15_000 // between two samples of a series
)

// load writes batches of benchBatch samples of benchSeries series in turn.
type load struct {
	p     *process
	known []*head.Series
	keys  []head.Key
	next  int // of known
	t     int64
}

func newLoad(tb testing.TB, fs vfs.FS, series int) *load {
	p, err := start(fs, nearOptions(), wal.Options{Sync: wal.SyncNever})
	if err != nil {
		tb.Fatal(err)
	}
	l := &load{p: p, known: make([]*head.Series, series), keys: make([]head.Key, series), t: nowMs + hourMs}
	for i := range l.known {
		l.known[i], l.keys[i] = p.series(i), key(i)
	}
	return l
}

// batch commits one; delay says how late sample i is.
func (l *load) batch(tb testing.TB, delay func(i int) int64) {
	b := l.p.head.NewBatch()
	for i := range benchBatch {
		if l.next == len(l.known) {
			l.next, l.t = 0, l.t+stepMs
		}
		s, _ := l.p.head.Lookup(l.keys[l.next])
		b.Float(s, l.t-delay(i), 0, float64(l.t/stepMs+int64(l.next)))
		l.next++
	}
	if _, err := l.p.head.Commit(context.Background(), b); err != nil {
		tb.Fatal(err)
	}
	b.Release()
}

// usage is what the process has taken so far.
type usage struct {
	mem runtime.MemStats
	cpu time.Duration
}

func readUsage() (u usage) {
	runtime.ReadMemStats(&u.mem)
	u.cpu = proc.CPUTime()
	return u
}

// perSample reports what was taken since before; cpu-ns is of all goroutines,
// the collector's included, and does not grow when others use the machine.
func perSample(b *testing.B, samples int, before usage) {
	after, n := readUsage(), float64(samples)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/sample")
	b.ReportMetric(float64((after.cpu-before.cpu).Nanoseconds())/n, "cpu-ns/sample")
	b.ReportMetric(float64(after.mem.TotalAlloc-before.mem.TotalAlloc)/n, "B/sample")
	b.ReportMetric(float64(after.mem.Mallocs-before.mem.Mallocs)/n, "allocs/sample")
}

// BenchmarkCommit is the way of a batch of known series through the head, on a
// disk that costs nothing.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct {
		name  string
		delay func(i int) int64
	}{
		{"in-order", func(int) int64 { return 0 }},
		{"late-25%", func(i int) int64 {
			if i%4 != 0 {
				return 0
			}
			return int64(i*7919%120) * stepMs
		}},
		{"duplicates", nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := newLoad(b, discard{memfs.New(1)}, benchSeries)
			defer l.p.stop()
			delay := c.delay
			if delay == nil {
				first := l.t
				delay = func(int) int64 { return l.t - first }
			}
			for range benchSeries / benchBatch {
				l.batch(b, delay)
			}
			before := readUsage()
			for b.Loop() {
				l.batch(b, delay)
			}
			perSample(b, b.N*benchBatch, before)
		})
	}
}

// BenchmarkReplay reads a log of 10,000 series.
func BenchmarkReplay(b *testing.B) {
	fs := memfs.New(1)
	l := newLoad(b, fs, 10_000)
	const batches = 500
	for range batches {
		l.batch(b, func(int) int64 { return 0 })
	}
	l.p.stop()
	before := readUsage()
	for b.Loop() {
		p := mustStart(b, fs, nearOptions())
		b.StopTimer()
		p.stop()
		b.StartTimer()
	}
	perSample(b, b.N*batches*benchBatch, before)
}

// BenchmarkMemory tells what a series takes, its labels and its samples included.
func BenchmarkMemory(b *testing.B) {
	for _, samples := range []int{1, 100} {
		b.Run(fmt.Sprint("samples-", samples), func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				l := newLoad(b, discard{memfs.New(1)}, benchSeries)
				for range samples * benchSeries / benchBatch {
					l.batch(b, func(int) int64 { return 0 })
				}
				l.known, l.keys = nil, nil
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/benchSeries, "B/series")
				l.p.stop()
			}
		})
	}
}
