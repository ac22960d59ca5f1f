package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/store"
)

// late is a store under a clock of its own, to which samples come mostly late.
type late struct {
	t   *testing.T
	s   *store.Store
	now atomic.Int64 // Unix milliseconds
	m   *metrics.Head
	rnd *rand.Rand
	n   map[int]map[int64]bool // what was acknowledged, by series
}

func newLate(t *testing.T) *late {
	l := &late{t: t, m: metrics.NewHead(prometheus.NewRegistry()), rnd: rand.New(rand.NewPCG(1, 2)), n: map[int]map[int64]bool{}}
	l.now.Store(1_700_000_000_000)
	l.s = start(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data"), Head: head.Options{
		Metrics: l.m,
		Accept:  head.Accept{Window: -1, TrustClock: true, Now: func() time.Time { return time.UnixMilli(l.now.Load()) }},
	}})
	return l
}

// send commits a batch with samples of series i at the given times.
func (l *late) send(each func(add func(i int, t int64))) {
	l.t.Helper()
	h := l.s.Head()
	b := h.NewBatch()
	defer b.Release()
	n := 0
	each(func(i int, at int64) {
		b.Float(resolve(l.t, h, i), at, 0, float64(at))
		if l.n[i] == nil {
			l.n[i] = map[int64]bool{}
		}
		l.n[i][at] = true
		n++
	})
	if res, err := h.Commit(context.Background(), b); err != nil || res.Samples != n {
		l.t.Fatalf("%+v, %v", res, err)
	}
}

// flush is what a minute brings: a flush of everything, and a collection when it hurts most.
func (l *late) flush() {
	l.t.Helper()
	ctx := context.Background()
	if err := l.s.Flush(ctx); err != nil {
		l.t.Fatal(err)
	}
	if err := l.s.Head().Collect(ctx); err != nil {
		l.t.Fatal(err)
	}
}

// created returns how many series were made so far.
func (l *late) created() int {
	return int(testutil.ToFloat64(l.m.Created))
}

// holds compares what is there with what was acknowledged.
func (l *late) holds() {
	l.t.Helper()
	want, got := 0, len(read(l.t, l.s))
	for _, times := range l.n {
		want += len(times)
	}
	if got != want {
		l.t.Errorf("%d samples, want %d", got, want)
	}
}

// TestNoChurnWhereMostIsLate sends the same series, 95 % of the samples late by up to
// three hours, into many ranges at a time, and flushes everything each minute: no
// series is let go of and made again.
func TestNoChurnWhereMostIsLate(t *testing.T) {
	l := newLate(t)
	defer func() { closeStore(t, l.s) }()
	const series, minutes = 40, 20
	for minute := range minutes {
		for range 4 {
			l.now.Add(15_000)
			now := l.now.Load()
			l.send(func(add func(int, int64)) {
				for i := range series {
					add(i, now)
					for range 19 {
						add(i, now-1-l.rnd.Int64N(3*time.Hour.Milliseconds()))
					}
				}
			})
		}
		l.flush()
		if n := l.created(); n != series {
			t.Fatalf("minute %d: %d series were made, there are %d", minute, n, series)
		}
	}
	l.holds()
	// Those that do not come any more go.
	for range 3 {
		l.now.Add(60_000)
		l.send(func(add func(int, int64)) { add(0, l.now.Load()) })
		l.flush()
	}
	if n := testutil.ToFloat64(l.m.Series); n > 1 {
		t.Errorf("%v series are still in the head", n)
	}
}

// TestAnHourOfLateSamples sends one series 60 late samples a second, for an hour, with
// a flush each minute: it stays one series, everything is there, blocks stay few.
func TestAnHourOfLateSamples(t *testing.T) {
	l := newLate(t)
	defer func() { closeStore(t, l.s) }()
	minutes := 60
	if testing.Short() {
		minutes = 10
	}
	for minute := range minutes {
		for range 60 {
			l.now.Add(1000)
			now := l.now.Load()
			l.send(func(add func(int, int64)) {
				add(0, now)
				for range 60 {
					add(0, now-1-l.rnd.Int64N(time.Hour.Milliseconds()))
				}
			})
		}
		l.flush()
		if n := l.created(); n != 1 {
			t.Fatalf("minute %d: the series was made %d times", minute, n)
		}
	}
	l.holds()
	if n := len(l.s.BlockDirs()); n > 6 {
		t.Errorf("%d blocks: %v", n, fmt.Sprint(l.s.BlockRanges()))
	}
}
