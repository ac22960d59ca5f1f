package head

import (
	"cmp"
	"math"
	"slices"

	"github.com/rwsink/rwsink/wal"
)

// container holds the samples of one aligned range of time, a part a series.
// Its bounds never change; the rest is the committer's, readers hold Head.mu.
type container struct {
	lo, hi      int64   // both ends included, Unix milliseconds
	first, last wal.LSN // of the frames that its samples came in
	parts       map[*Series]*part
}

// boxes are the head's containers, as the committer finds them.
type boxes struct {
	rangeMs int64
	byStart map[int64]*container
	opened  []*container // those that views cannot see yet
}

// of returns the container of t, opening one when there is none.
func (b *boxes) of(t int64) *container {
	lo, hi := alignedRange(t, b.rangeMs)
	c := b.byStart[lo]
	if c == nil {
		c = &container{lo: lo, hi: hi, parts: map[*Series]*part{}}
		b.byStart[lo] = c
		b.opened = append(b.opened, c)
	}
	return c
}

// publish lets views see the containers that were opened: once a batch, since
// the list is replaced, never changed, and one batch may open very many.
func (b *boxes) publish(h *Head) {
	if len(b.opened) == 0 {
		return
	}
	list := slices.Concat(*h.containers.Load(), b.opened)
	slices.SortFunc(list, func(x, y *container) int { return cmp.Compare(x.lo, y.lo) })
	h.containers.Store(&list)
	b.opened = nil
}

// alignedRange returns the range of a multiple of rangeMs that t falls into,
// both ends included; at the ends of int64 it is shorter.
func alignedRange(t, rangeMs int64) (lo, hi int64) {
	mod := t % rangeMs
	if mod < 0 {
		mod += rangeMs
	}
	lo, hi = t-mod, t+(rangeMs-1-mod)
	if lo > t {
		lo = math.MinInt64
	}
	if hi < t {
		hi = math.MaxInt64
	}
	return lo, hi
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
