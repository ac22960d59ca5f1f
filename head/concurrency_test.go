package head_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

// TestReadersAndWriters writes from 8 goroutines, in order and late, floats and
// histograms, while 4 read: each view holds all that was acknowledged before it
// was taken, and what a reader was given stays as it was.
func TestReadersAndWriters(t *testing.T) {
	t.Run("near", func(t *testing.T) { readAndWrite(t, nowMs) })
	t.Run("cold", func(t *testing.T) { readAndWrite(t, nowMs-100*hourMs) })
}

func readAndWrite(t *testing.T, base int64) {
	const writers, rounds = 8, 150
	o := nearOptions()
	o.ChunkSamples = 20
	p := run(t, o)
	var acknowledged [writers]atomic.Int64
	// Writer w has series w (floats) and writers+w (histograms); round i is at
	// times that go up in steps of 8 and down within.
	at := func(i int) int64 { return base + int64(i^7)*60_000 }
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			for i := range rounds {
				res, err := p.write(float(w, at(i), float64(i)), ints(writers+w, at(i), i), float(w, at(i), float64(i)))
				if err != nil || res.Samples != 2 || res.Histograms != 1 {
					t.Errorf("got %+v, %v", res, err)
				}
				acknowledged[w].Store(int64(i + 1))
			}
		})
	}
	for range 4 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				var least [writers]int64
				for w := range writers {
					least[w] = acknowledged[w].Load()
				}
				v := p.head.View()
				r := v.NewReader()
				for w := range writers {
					if least[w] > 0 {
						checkSeries(t, r, p.series(w), int(least[w]))
						checkSeries(t, r, p.series(writers+w), int(least[w]))
					}
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	want := oracle{}
	for w := range writers {
		for i := range rounds {
			want.add(float(w, at(i), float64(i)), ints(writers+w, at(i), i))
		}
	}
	p.holds(t, want)
}

// checkSeries reads a series that holds at least n samples.
func checkSeries(t *testing.T, r *head.Reader, s *head.Series, n int) {
	last, count := int64(math.MinInt64), 0
	err := r.Read(s, math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
		for i, ts := range run.T {
			if ts <= last {
				t.Errorf("%d after %d", ts, last)
			}
			last = ts
			count++
			if run.Kind == chunkenc.KindHistogram {
				h := run.H[i]
				if h.Sum != float64(h.Count) {
					t.Errorf("histogram of %d with sum %g", h.Count, h.Sum)
				}
				h.Sum, h.PositiveBuckets = -1, append(h.PositiveBuckets[:0], 99) // it is the caller's
			}
		}
		return nil
	})
	if err != nil || count < n {
		t.Errorf("%v: %d samples, %d acknowledged, %v", s.Labels(), count, n, err)
	}
}

// TestEachSeriesItsOwn gives 500 series their number as value, over tails,
// chunks and late buffers, and collects all before it compares.
func TestEachSeriesItsOwn(t *testing.T) {
	const series = 500
	p := run(t, nearOptions())
	for i := range int64(50) {
		list := make([]sample, series)
		for s := range series {
			list[s] = float(s, nowMs+(i^3)*1000, float64(s))
		}
		p.stored(t, list...)
	}
	v := p.head.View()
	r := v.NewReader()
	got := make([][]float64, series)
	for s := range series {
		err := r.Read(p.series(s), 0, math.MaxInt64, func(run *chunkenc.Samples) error {
			got[s] = append(got[s], run.V...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for s, values := range got {
		if len(values) != 50 {
			t.Fatalf("series %d has %d samples", s, len(values))
		}
		for _, x := range values {
			if x != float64(s) {
				t.Fatalf("series %d has %g", s, x)
			}
		}
	}
}

// TestCloseDuringCommits closes while many commit: each was stored or is told
// why not, and what was acknowledged is there after a restart.
func TestCloseDuringCommits(t *testing.T) {
	for range 20 {
		fs := memfs.New(1)
		p := mustStart(t, fs, options())
		want := oracle{}
		var mu sync.Mutex
		var writing sync.WaitGroup
		for w := range 8 {
			p.series(w)
			writing.Go(func() {
				for i := range 1000 {
					s := float(w, int64(i), 1)
					_, err := p.write(s)
					if err != nil {
						var u *head.UnavailableError
						if !errors.As(err, &u) || !errors.Is(err, head.ErrClosed) {
							t.Errorf("got %v", err)
						}
						return
					}
					mu.Lock()
					want.add(s)
					mu.Unlock()
				}
			})
		}
		var closing sync.WaitGroup
		for range 2 {
			closing.Go(p.head.Close)
		}
		closing.Wait()
		writing.Wait()
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		if err := p.head.Ready(); !errors.Is(err, head.ErrClosed) {
			t.Errorf("ready after Close: %v", err)
		}
		p = mustStart(t, fs, options())
		p.holds(t, want)
		p.stop()
	}
}

// TestCommitBeforeReplay is refused for now; so is one whose request has gone
// while the queue is full, and a head closed before its replay stays closed.
func TestCommitBeforeReplay(t *testing.T) {
	log, err := wal.Open(wal.Options{FS: memfs.New(1), Dir: "/wal"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	o := options()
	o.Log = log
	h, err := head.New(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{log, h}
	var u *head.UnavailableError
	if _, err := p.write(float(0, 1, 1)); !errors.As(err, &u) || !errors.Is(err, head.ErrReplaying) {
		t.Errorf("got %v", err)
	}
	if err := h.Ready(); !errors.Is(err, head.ErrReplaying) {
		t.Errorf("ready: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	h.Close()
	if err := h.Replay(context.Background(), nil); err != nil {
		t.Errorf("replay: %v", err)
	}
	if _, err := h.Commit(gone, p.batch(float(0, 1, 1))); !errors.Is(err, head.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestReplayEndsWithItsContext ends a replay, which can begin again.
func TestReplayEndsWithItsContext(t *testing.T) {
	fs := memfs.New(1)
	p := mustStart(t, fs, options())
	p.stored(t, float(0, 1, 1))
	p.stop()
	log, err := wal.Open(wal.Options{FS: fs, Dir: "/wal"})
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Log = log
	h, err := head.New(o)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Replay(gone, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if h.Ready() == nil {
		t.Error("ready without a replay")
	}
	h.Close()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	p = mustStart(t, fs, options())
	defer p.stop()
	want := oracle{}
	want.add(float(0, 1, 1))
	p.holds(t, want)
}

// TestFullQueue lets a request give up while it waits for a place.
func TestFullQueue(t *testing.T) {
	clock, o := newClock(), options()
	gate := make(chan struct{})
	var shut atomic.Bool
	o.Accept.Now = func() time.Time {
		if shut.Load() {
			<-gate // holds the committer
		}
		return clock.now()
	}
	p := run(t, o)
	p.series(0)
	shut.Store(true)
	var waiting sync.WaitGroup
	for i := range 200 {
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			b := p.batch(float(0, int64(i), 1))
			_, err := p.head.Commit(ctx, b)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	shut.Store(false)
	close(gate)
	waiting.Wait()
	p.stored(t, float(0, 1000, 1))
}

// TestSelect matches absent labels, and nothing without matchers.
func TestSelect(t *testing.T) {
	p := run(t, nearOptions())
	p.stored(t, float(0, nowMs, 1), float(1, nowMs+10*hourMs, 1))
	v := p.head.View()
	for _, c := range []struct {
		mint, maxt int64
		ms         []*labels.Matcher
		want       int
	}{
		{math.MinInt64, math.MaxInt64, nil, 0},
		{math.MinInt64, math.MaxInt64, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "absent", "")}, 2},
		{math.MinInt64, math.MaxInt64, []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotEqual, "absent", "")}, 0},
		{math.MinInt64, math.MaxInt64, []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "i", "0|1")}, 2},
		{math.MinInt64, math.MaxInt64, []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotRegexp, "i", "0")}, 1},
		{nowMs, nowMs, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "absent", "")}, 1},
		{nowMs + 20*hourMs, nowMs + 30*hourMs, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "absent", "")}, 0},
	} {
		got, err := v.Select(t.Context(), c.mint, c.maxt, c.ms...)
		if err != nil || len(got) != c.want {
			t.Errorf("%v: %d series, want %d; %v", c.ms, len(got), c.want, err)
		}
	}
}

// TestManyRanges writes one request with a range of its own for each sample.
func TestManyRanges(t *testing.T) {
	const n = 30_000
	p := run(t, options())
	var list []sample
	want := oracle{}
	for i := range int64(n) {
		list = append(list, float(0, nowMs-(i*7919%n)*2*hourMs, float64(i)))
	}
	want.add(list...)
	p.stored(t, list...)
	p.holds(t, want)
}
