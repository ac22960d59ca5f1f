package head_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

const (
	secondMs = int64(1000)
	minuteMs = 60 * secondMs
	hourMs   = 60 * minuteMs
)

// refused returns the reasons of a result.
func refused(r head.Result) map[string]int {
	out := map[string]int{}
	r.Refused.Each(func(n int, first *head.Refusal) { out[first.Reason] += n })
	return out
}

// TestBoundsOfTime tries each bound and one past it, with a float and with a
// histogram, for a sample in order and for a late one.
func TestBoundsOfTime(t *testing.T) {
	const min64, max64 = math.MinInt64, math.MaxInt64
	for _, c := range []struct {
		name              string
		retention, window time.Duration
		future            time.Duration
		late              bool // a newer sample is there
		t                 int64
		reason            string
	}{
		{"retention", time.Hour, -1, 0, false, nowMs - hourMs, ""},
		{"past retention", time.Hour, -1, 0, false, nowMs - hourMs - 1, head.ReasonTooOld},
		{"late in retention", time.Hour, -1, 0, true, nowMs - hourMs, ""},
		{"late past retention", time.Hour, -1, 0, true, nowMs - hourMs - 1, head.ReasonTooOld},
		{"no retention", 0, -1, 0, false, min64, ""},
		{"no retention, late", 0, -1, 0, true, min64, ""},
		{"window", time.Hour, time.Minute, 0, true, nowMs - minuteMs, ""},
		{"past window", time.Hour, time.Minute, 0, true, nowMs - minuteMs - 1, head.ReasonTooLate},
		{"past window and retention", time.Hour, time.Minute, 0, true, nowMs - hourMs - 1, head.ReasonTooOld},
		{"past window in order", time.Hour, time.Minute, 0, false, nowMs - hourMs, ""},
		{"window past retention", time.Minute, time.Hour, 0, true, nowMs - minuteMs - 1, head.ReasonTooOld},
		{"window without retention", 0, time.Minute, 0, true, nowMs - minuteMs - 1, head.ReasonTooLate},
		{"no window", time.Hour, 0, 0, true, nowMs - 1, head.ReasonTooLate},
		{"no window, now", time.Hour, 0, 0, true, nowMs, ""},
		{"no window, in order", time.Hour, 0, 0, false, nowMs - 1, ""},
		{"no window, no retention", 0, 0, 0, true, min64, head.ReasonTooLate},
		{"future", time.Hour, -1, time.Minute, false, nowMs + minuteMs, ""},
		{"past future", time.Hour, -1, time.Minute, false, nowMs + minuteMs + 1, head.ReasonTooNew},
		{"no future", 0, -1, 0, false, nowMs + 1, head.ReasonTooNew},
		{"end of time", 0, -1, time.Minute, false, max64, head.ReasonTooNew},
		{"end of time under a window", 0, 0, time.Minute, true, max64, head.ReasonTooNew},
		{"endless future", 0, -1, math.MaxInt64, false, nowMs + time.Duration(math.MaxInt64).Milliseconds(), ""},
		{"endless retention", math.MaxInt64, -1, 0, false, nowMs - time.Duration(math.MaxInt64).Milliseconds(), ""},
		{"endless window", 0, math.MaxInt64, 0, true, nowMs - time.Duration(math.MaxInt64).Milliseconds(), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.Accept.Retention, o.Accept.Window, o.Accept.MaxFuture = c.retention, c.window, c.future
			p := run(t, o)
			want := oracle{}
			for i, x := range []sample{float(0, c.t, 1), ints(1, c.t, 1), floats(2, c.t, 1)} {
				beside := float(10+i, nowMs, 1)
				if c.late {
					newer := float(i, nowMs, 1)
					if c.t == nowMs {
						newer.t = nowMs + c.future.Milliseconds()
						x.t = newer.t
					}
					p.stored(t, newer)
					want.add(newer)
				}
				res, err := p.write(x, beside)
				if err != nil {
					t.Fatal(err)
				}
				want.add(beside)
				if c.reason == "" {
					want.add(x)
				}
				if n := refused(res)[c.reason]; c.reason != "" && n != 1 || c.reason == "" && res.Refused.Any() {
					t.Errorf("%v: got %v", x, refused(res))
				}
			}
			p.holds(t, want)
		})
	}
}

// TestRefusalNamesTheBound reads what a sender is told: the bound, as people read times.
func TestRefusalNamesTheBound(t *testing.T) {
	for _, tc := range []struct {
		at, bound  int64
		text, flag string
		window     time.Duration
		keepFrom   int64
	}{
		{nowMs - hourMs - 1, nowMs - hourMs, "too old: older than ", "--storage.retention.time", -1, 0},
		{nowMs - 2*minuteMs, nowMs - minuteMs, "too old: older than ", "--storage.retention.size", -1, nowMs - minuteMs},
		{nowMs - minuteMs - 1, nowMs - minuteMs, "too late: older than ", "--ooo.window", time.Minute, 0},
		{nowMs + minuteMs + 1, nowMs + minuteMs, "too new: newer than ", "--limits.max-future", -1, 0},
	} {
		o := options()
		o.Accept.Retention, o.Accept.Window, o.Accept.MaxFuture = time.Hour, tc.window, time.Minute
		p := run(t, o)
		p.head.KeepFrom(tc.keepFrom)
		p.stored(t, float(0, nowMs, 1))
		res, err := p.write(float(0, tc.at, 1))
		if err != nil {
			t.Fatal(err)
		}
		want := tc.text + time.UnixMilli(tc.bound).UTC().Format(time.RFC3339Nano) + " (" + tc.flag + "), series"
		if !strings.Contains(res.Refused.Error(), want) {
			t.Errorf("got %q, want %q", res.Refused.Error(), want)
		}
	}
}

// TestShuffledInsideARequest sends a request whose samples are in any order:
// under a window of 0 nothing of it is lost.
func TestShuffledInsideARequest(t *testing.T) {
	o := options()
	o.Accept.Window = 0
	p := run(t, o)
	want := oracle{}
	for round := range int64(20) {
		base := nowMs - hourMs + round*minuteMs
		list := []sample{
			float(0, base+5, 5), ints(0, base+4, 4), float(0, base+1, 1), floats(0, base+3, 3), float(1, base+9, 9),
			float(0, base+2, 2), float(1, base+1, 1), ints(1, base+2, 2), ints(0, base+6, 6), float(0, base, 0),
		}
		for i := range list {
			j := (i * 7) % len(list)
			list[i], list[j] = list[j], list[i]
		}
		p.stored(t, list...)
		want.add(list...)
	}
	p.holds(t, want)
}

// TestHeldIsWritten asks, under a narrow window, for what is there already.
func TestHeldIsWritten(t *testing.T) {
	at := nowMs - hourMs
	for name, x := range map[string]sample{
		"float": float(0, at, 1), "stale": float(0, at, staleNaN), "ints": ints(0, at, 1), "floats": floats(0, at, 1),
		"start": {series: 0, t: at, st: at - 1, v: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Accept.Window = time.Minute
			p := run(t, o)
			want := oracle{}
			p.stored(t, x, x) // twice in one request
			want.add(x)
			p.stored(t, x)
			p.stored(t, x, x)
			for i := range int64(100) { // into a sealed chunk
				newer := float(0, at+1+i, 2)
				p.stored(t, newer)
				want.add(newer)
			}
			p.stored(t, x, x)
			other := x
			other.st = at - 2
			res, err := p.write(x, other, x)
			if err != nil || res.Samples+res.Histograms != 2 || refused(res)[head.ReasonTooLate] != 1 {
				t.Errorf("another start timestamp: %+v, %v", res, err)
			}
			res, err = p.write(float(0, at, 3))
			if err != nil || res.Samples != 0 || refused(res)[head.ReasonTooLate] != 1 {
				t.Errorf("another value: %+v, %v", res, err)
			}
			p.holds(t, want)
		})
	}
}

// TestRefusedTwiceIsNotWritten sends a late sample twice in one request: the
// first was not stored, so the second is no duplicate.
func TestRefusedTwiceIsNotWritten(t *testing.T) {
	for _, c := range []struct {
		t      int64
		reason string
	}{
		{nowMs - hourMs, head.ReasonTooLate}, {nowMs - 3*hourMs, head.ReasonTooOld}, {nowMs + hourMs, head.ReasonTooNew},
	} {
		o := options()
		o.Accept.Window, o.Accept.Retention = time.Minute, 2*time.Hour
		p := run(t, o)
		p.stored(t, float(0, nowMs, 1))
		for _, x := range []sample{float(0, c.t, 2), ints(0, c.t, 2)} {
			res, err := p.write(x, x, x)
			if err != nil || res.Samples+res.Histograms != 0 || refused(res)[c.reason] != 3 {
				t.Errorf("%v: got %+v, %v", x, res, err)
			}
		}
	}
}

// TestDuplicatesOfOneGroup has many requests write the same samples at once
// under a window of 0: whichever comes first, the others are duplicates of it.
func TestDuplicatesOfOneGroup(t *testing.T) {
	o := options()
	o.Accept.Window = 0
	p := run(t, o)
	want := oracle{}
	for round := range 20 {
		at := nowMs - hourMs + int64(round)
		list := []sample{float(0, at, 1), ints(1, at, 1), float(2+round%3, at, 2)}
		want.add(list...)
		var writers sync.WaitGroup
		for range 16 {
			writers.Go(func() {
				res, err := p.write(list...)
				if err != nil || res.Samples != 2 || res.Histograms != 1 {
					t.Errorf("got %+v, %v, %v", res, err, res.Refused.Error())
				}
			})
		}
		writers.Wait()
	}
	p.holds(t, want)
}

// TestSuspectClockAtStart restarts with a clock that is behind what is stored.
func TestSuspectClockAtStart(t *testing.T) {
	fs, clock, o := memfs.New(1), newClock(), options()
	o.Accept.Now, o.Accept.Retention, o.Accept.MaxFuture = clock.now, 24*time.Hour, time.Minute
	p := mustStart(t, fs, o)
	p.stored(t, float(0, nowMs, 1))
	p.stop()

	want := oracle{}
	want.add(float(0, nowMs, 1))
	const at = nowMs - minuteMs - 1
	clock.ms.Store(at)
	p = mustStart(t, fs, o)
	if p.head.Notice() == "" {
		t.Fatal("nothing is said of the clock")
	}
	if err := p.head.Ready(); err != nil {
		t.Fatalf("not ready: %v", err)
	}
	// A batch that fails by time is refused for now, whole; others flow.
	for _, bad := range []sample{float(0, at+2*minuteMs, 3), ints(0, at+2*minuteMs, 3), float(0, at-25*hourMs, 3)} {
		_, err := p.write(float(1, at, 1), bad)
		var u *head.UnavailableError
		if !errors.As(err, &u) || !errors.Is(err, head.ErrClockSuspect) || u.RetryAfter <= 0 {
			t.Fatalf("%v: got %v", bad, err)
		}
		p.holds(t, want)
	}
	p.stored(t, float(1, at, 2))
	want.add(float(1, at, 2))
	p.holds(t, want)

	clock.ms.Store(at + 1) // the bound is inclusive
	if why := p.head.Notice(); why != "" {
		t.Errorf("still: %s", why)
	}
	res, err := p.write(float(1, at+2*minuteMs, 3))
	if err != nil || refused(res)[head.ReasonTooNew] != 1 {
		t.Errorf("got %+v, %v", res, err)
	}
	p.stop()

	clock.ms.Store(at)
	o.Accept.TrustClock = true
	p = mustStart(t, fs, o)
	defer p.stop()
	if why := p.head.Notice(); why != "" {
		t.Errorf("a trusted clock: %s", why)
	}
	res, err = p.write(float(1, at+2*minuteMs, 3))
	if err != nil || refused(res)[head.ReasonTooNew] != 1 {
		t.Errorf("got %+v, %v", res, err)
	}
	p.holds(t, want)
}

// TestClockThatMoved moves the clock against the monotonic one, and back.
func TestClockThatMoved(t *testing.T) {
	for _, by := range []int64{minuteMs + 30*secondMs, -minuteMs - 30*secondMs} {
		clock, o := newClock(), options()
		o.Accept.Now, o.Accept.Retention, o.Accept.MaxFuture = clock.now, time.Hour, time.Minute
		p := run(t, o)
		clock.ms.Add(by / 2)
		p.stored(t, float(0, nowMs, 1))
		if why := p.head.Notice(); why != "" {
			t.Errorf("by %d ms: %s", by/2, why)
		}
		clock.ms.Store(nowMs + by)
		for _, bad := range []int64{nowMs - 2*hourMs, nowMs + hourMs} {
			if _, err := p.write(float(0, bad, 1)); !errors.Is(err, head.ErrClockSuspect) {
				t.Errorf("by %d ms: got %v", by, err)
			}
		}
		p.stored(t, float(0, nowMs+by, 2))
		if p.head.Notice() == "" {
			t.Errorf("by %d ms: nothing is said of the clock", by)
		}
		clock.ms.Store(nowMs)
		if why := p.head.Notice(); why != "" {
			t.Errorf("still: %s", why)
		}
	}
}

// TestClockThatMovedUnwatched moves the clock while nobody writes: whoever is
// about to flush or remove by it must know all the same.
func TestClockThatMovedUnwatched(t *testing.T) {
	clock, o := newClock(), options()
	o.Accept.Now, o.Metrics = clock.now, metrics.NewHead(nil)
	p := run(t, o)
	p.stored(t, float(0, nowMs, 1))
	for _, step := range []struct {
		by      int64
		suspect bool
	}{{0, false}, {hourMs, true}, {0, false}, {-hourMs, true}} {
		clock.ms.Store(nowMs + step.by)
		if now, suspect := p.head.Now(); suspect != step.suspect || now.UnixMilli() != nowMs+step.by {
			t.Errorf("moved by %d ms: got %v, suspect %v", step.by, now, suspect)
		}
		if got := testutil.ToFloat64(o.Metrics.ClockSuspect) == 1; got != step.suspect {
			t.Errorf("moved by %d ms: the metric says %v", step.by, got)
		}
	}
}

func ExampleRefusals() {
	var r head.Refusals
	r.Add(2, &head.Refusal{Item: head.ItemSample, Reason: head.ReasonTooOld, Detail: "older than 5", Series: `{__name__="m"}`, T: 4, Value: "1"})
	fmt.Println(r.Error())
	// Output: 2 samples refused: too old: older than 5, series {__name__="m"}, timestamp 4, value 1
}
