package head

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/wal"
)

// Container holds the samples of one aligned range of time: near, a part a
// series, or cold, a run of samples. Every timestamp belongs to at most one open
// container at any moment; a frozen one takes no more samples, and its
// successor sees only later frames. So for one timestamp the containers that
// ever held it are in order of their LSNs.
//
// The bounds never change. The rest is the committer's while the container is
// open, readers hold Head.mu; frozen, it is immutable but for what is erased of it.
type Container struct {
	lo, hi int64 // both ends included, Unix milliseconds
	// opened is the last frame before it was opened, last the newest frame that put samples here.
	opened, last wal.LSN
	first        wal.LSN // the first frame that put samples here; 0 is none yet
	parts        refTable[part]
	arena        *arena   // of the streams of parts
	cold         *coldRun // instead of parts
	samples      int      // put here
	newest       int64    // the newest timestamp put here
	touchedMs    int64    // when last, monotonic
	frozen       bool
	unlinked     atomic.Bool                      // frozen, and no series points to a part here any more
	erased       map[*Series]tombstones.Intervals // what deletes have removed since it was frozen
	dropped      bool                             // a block holds its samples: only views from before still have it
}

// newContainer returns the container [lo, hi].
func newContainer(lo, hi int64, opened wal.LSN, cold bool) *Container {
	c := &Container{lo: lo, hi: hi, opened: opened, newest: math.MinInt64}
	if cold {
		c.cold = &coldRun{}
	} else {
		c.arena = &arena{}
	}
	return c
}

// aligned returns the aligned range of that length which t falls into, both
// ends included, stopping at the ends of int64.
func aligned(t, lengthMs int64) (lo, hi int64) {
	mod := t % lengthMs
	if mod < 0 {
		mod += lengthMs
	}
	lo, hi = t-mod, t+(lengthMs-1-mod)
	if lo > t {
		lo = math.MinInt64
	}
	if hi < t {
		hi = math.MaxInt64
	}
	return lo, hi
}

func (c *Container) contains(t int64) bool { return t >= c.lo && t <= c.hi }

func (c *Container) overlaps(lo, hi int64) bool { return c.lo <= hi && c.hi >= lo }

// rank is the LSN by which the container stands among layers of one time.
// Head.mu is held.
func (c *Container) rank() uint64 {
	if c.frozen {
		return uint64(c.last)
	}
	return math.MaxUint64
}

// has says whether the container holds samples of s.
func (c *Container) has(s *Series) bool {
	if c.cold != nil {
		return c.cold.series.of(s) != nil
	}
	return c.parts.of(s) != nil
}

// touch notes that the frame lsn put a sample of time t here.
func (c *Container) touch(t int64, lsn wal.LSN, monoMs int64) {
	if c.first == 0 {
		c.first = lsn
	}
	c.last = lsn
	c.newest = max(c.newest, t)
	c.samples++
	c.touchedMs = monoMs
}

// each calls f for every series that the container holds samples of.
func (c *Container) each(f func(*Series)) {
	c.parts.each(func(p *part) { f(p.series) })
	if c.cold != nil {
		c.cold.series.each(func(x *coldSeries) { f(x.series) })
	}
}

// slotEnd returns the last millisecond of the slot that t falls into, when the
// range is cut into 2^shift slots. Slots are counted from the range's start,
// so those of a finer cut nest in those of a coarser one.
func (c *Container) slotEnd(t int64, shift uint8) int64 {
	slot := slotLen(c.hi-c.lo+1, shift)
	rest := slot - 1 - (t-c.lo)%slot
	if rest > c.hi-t {
		return c.hi
	}
	return t + rest
}

// slotStart returns the first millisecond of the slot that t falls into.
func (c *Container) slotStart(t int64, shift uint8) int64 {
	return t - (t-c.lo)%slotLen(c.hi-c.lo+1, shift)
}

// slotLen is the length of a slot in milliseconds, at least 1.
func slotLen(rangeMs int64, shift uint8) int64 { return max(1, rangeMs>>shift) }
