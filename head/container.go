package head

import (
	"math"

	"github.com/rwsink/rwsink/wal"
)

// container holds the samples of one aligned range of time, a part a series.
// Its bounds never change; the rest is the committer's, readers hold Head.mu.
type container struct {
	lo, hi      int64   // both ends included, Unix milliseconds
	first, last wal.LSN // of the frames that its samples came in
	parts       map[*Series]*part
}

// newContainer returns the container of the aligned range that t falls into.
func newContainer(t, blockMs int64) *container {
	mod := t % blockMs
	if mod < 0 {
		mod += blockMs
	}
	c := &container{lo: t - mod, hi: t + (blockMs - 1 - mod), parts: map[*Series]*part{}}
	if c.lo > t {
		c.lo = math.MinInt64
	}
	if c.hi < t {
		c.hi = math.MaxInt64
	}
	return c
}

func (c *container) contains(t int64) bool { return t >= c.lo && t <= c.hi }

// touch notes that the frame lsn put samples here.
func (c *container) touch(lsn wal.LSN) {
	if c.first == 0 {
		c.first = lsn
	}
	c.last = lsn
}

// slotEnd returns the last millisecond of the slot that t falls into, when the
// range is cut into 2^shift slots. Slots are counted from the range's start,
// so those of a finer cut nest in those of a coarser one.
func (c *container) slotEnd(t int64, shift uint8) int64 {
	slot := slotLen(c.hi-c.lo+1, shift)
	rest := slot - 1 - (t-c.lo)%slot
	if rest > c.hi-t {
		return c.hi
	}
	return t + rest
}

// slotStart returns the first millisecond of the slot that t falls into.
func (c *container) slotStart(t int64, shift uint8) int64 {
	return t - (t-c.lo)%slotLen(c.hi-c.lo+1, shift)
}

// slotLen is the length of a slot in milliseconds, at least 1.
func slotLen(rangeMs int64, shift uint8) int64 { return max(1, rangeMs>>shift) }
