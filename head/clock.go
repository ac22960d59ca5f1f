package head

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// clock judges time by the receiver's own clock, and the clock by what it sees:
// it is suspect when at start it is more than max-future behind the newest
// stored sample, or when it has moved against the monotonic clock by more than
// maxDrift. It is trusted again once that no longer holds.
type clock struct {
	accept Accept
	mono   func() time.Duration // since the head was made
	epoch  time.Time            // the wall clock when mono was zero
	newest int64                // newest stored sample at start, Unix milliseconds
	stored bool                 // there was one
	why    atomic.Pointer[string]
	gauge  prometheus.Gauge // 1 while it is suspect
	kept   atomic.Int64     // what retention by size has removed lies below, Unix milliseconds
}

// maxDrift is how far the wall clock may move against the monotonic one: far
// above what slewing does, far below what a wrong date does.
const maxDrift = time.Minute

// started is the zero of Go's monotonic clock, where there is no better one.
var started = time.Now()

func newClock(a Accept, gauge prometheus.Gauge) *clock {
	start := sinceBoot()
	c := &clock{accept: a, mono: func() time.Duration { return sinceBoot() - start }, epoch: a.Now(), gauge: gauge}
	c.kept.Store(math.MinInt64)
	return c
}

// see notes a timestamp that is stored at start.
func (c *clock) see(t int64) {
	if !c.stored || t > c.newest {
		c.newest, c.stored = t, true
	}
}

// bounds are the accepted times of one group, both ends included, Unix milliseconds.
type bounds struct {
	nowMs   int64
	floor   int64 // in order: what retention reaches
	late    int64 // late: the out-of-order window, never below floor
	ceil    int64
	suspect bool
}

// outside says whether t is too old or too new for a sample in order.
func (w bounds) outside(t int64) bool { return t < w.floor || t > w.ceil }

// narrow says whether the late are bounded more tightly than the others.
func (w bounds) narrow() bool { return w.late > w.floor }

// bounds reads the clock.
func (c *clock) bounds() bounds {
	now := c.accept.Now()
	b := bounds{nowMs: now.UnixMilli(), floor: math.MinInt64, late: math.MinInt64}
	if c.accept.Retention > 0 {
		b.floor = addMs(b.nowMs, -c.accept.Retention)
	}
	b.floor = max(b.floor, c.kept.Load())
	b.late = b.floor
	if c.accept.Window >= 0 {
		b.late = max(b.floor, addMs(b.nowMs, -c.accept.Window))
	}
	b.ceil = addMs(b.nowMs, c.accept.MaxFuture)
	b.suspect = c.judge(now, b.ceil)
	return b
}

// judge says whether the clock is suspect now, and keeps why.
func (c *clock) judge(now time.Time, ceil int64) bool {
	var why string
	drift := now.Round(0).Sub(c.epoch.Round(0)) - c.mono()
	switch {
	case c.accept.TrustClock:
	case c.stored && c.newest > ceil:
		why = fmt.Sprintf("the clock is suspect: it says %s, but the newest stored sample is of %s",
			now.UTC().Format(time.RFC3339), time.UnixMilli(c.newest).UTC().Format(time.RFC3339))
	case drift > maxDrift || drift < -maxDrift:
		why = fmt.Sprintf("the clock is suspect: it moved by %s against the monotonic clock", drift.Round(time.Second))
	}
	if why == "" {
		c.why.Store(nil)
		c.gauge.Set(0)
		return false
	}
	c.gauge.Set(1)
	reason := why // allocated only here
	c.why.Store(&reason)
	return true
}

// elapsed returns the milliseconds between two times, 0 when they are in no order.
func elapsed(from, to int64) int64 {
	switch d := to - from; {
	case to <= from:
		return 0
	case d < 0:
		return math.MaxInt64
	default:
		return d
	}
}

// addMs adds a duration to a time in milliseconds, stopping at the ends of int64.
func addMs(ms int64, d time.Duration) int64 {
	sum := ms + d.Milliseconds()
	if d > 0 && sum < ms {
		return math.MaxInt64
	}
	if d < 0 && sum > ms {
		return math.MinInt64
	}
	return sum
}
