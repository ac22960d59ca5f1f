package head

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/rwsink/rwsink/wal"
)

// containerList is the head's containers at one moment. Immutable: a change
// makes a new list.
type containerList struct {
	frozen []*Container // in order of LSN; a block takes their place when they are flushed
	open   []*Container // ascending, disjoint
}

// find returns the open container of t, or where in open it would stand.
func (l *containerList) find(t int64) (*Container, int) {
	if i := l.guess(t); i >= 0 && i < len(l.open) && l.open[i].contains(t) {
		return l.open[i], i
	}
	i := sort.Search(len(l.open), func(i int) bool { return l.open[i].hi >= t })
	if i < len(l.open) && l.open[i].contains(t) {
		return l.open[i], i
	}
	return nil, i
}

// guess returns where the open container of t would be if all were as long as the
// first and there were no gap: what scatters over days would lead a search
// astray at every step.
func (l *containerList) guess(t int64) int {
	if len(l.open) < 4 {
		return -1
	}
	first := l.open[0]
	return int(uint64(t-first.lo) / max(1, uint64(first.hi-first.lo)+1))
}

// overlapping returns the containers that overlap [lo, hi], oldest first where they overlap each other.
func (l *containerList) overlapping(lo, hi int64) []*Container {
	var out []*Container
	for _, c := range l.frozen {
		if c.overlaps(lo, hi) {
			out = append(out, c)
		}
	}
	_, i := l.find(lo)
	for ; i < len(l.open) && l.open[i].lo <= hi; i++ {
		out = append(out, l.open[i])
	}
	return out
}

// container returns the open container of t, opening one when there is none.
// last is the newest frame before the one that t came in.
func (c *committer) container(t int64, last wal.LSN) *Container {
	if box := c.recent; box != nil && box.contains(t) {
		return box
	}
	list := c.head.containers.Load()
	box, i := list.find(t)
	if c.recent = box; box != nil {
		return box
	}
	lo, hi, cold := c.rangeFor(list, t)
	box = newContainer(lo, hi, last, cold)
	c.recent = box
	c.head.containers.Store(&containerList{frozen: list.frozen, open: slices.Insert(slices.Clone(list.open), i, box)})
	return box
}

// coldDay is the widest range of a cold run of recent times, coldBlocks how many
// blocks it spans at most. A range may span the coldAge-th part of its own age:
// so the number of ranges is bounded even where any age is accepted.
const (
	coldDay    = 24 * time.Hour
	coldBlocks = 12
	coldAge    = 32
)

// rangeFor chooses the range of a new container: that of a block, near, while
// it is not long over; else cold, the widest aligned range that is wholly over
// and that no open container overlaps.
func (c *committer) rangeFor(list *containerList, t int64) (lo, hi int64, cold bool) {
	block := c.head.options.BlockDuration.Milliseconds()
	over := c.nowMs - block/2
	lo, hi = aligned(t, block)
	if hi >= over {
		return lo, hi, false
	}
	for length, least := c.coldLength(t); length >= least && length > block; length /= 2 {
		if wideLo, wideHi := aligned(t, length); wideHi < over && !list.anyOpen(wideLo, wideHi) {
			return wideLo, wideHi, true
		}
	}
	return lo, hi, true
}

// coldLength returns the length in milliseconds of a cold range that t, which is
// past, falls into: least times a power of two, so that shorter ranges nest in
// longer ones. least is a number of blocks; retention may leave no room for one.
func (c *committer) coldLength(t int64) (length, least int64) {
	block, most := c.head.options.BlockDuration.Milliseconds(), int64(math.MaxInt64)
	if r := c.head.options.Accept.Retention.Milliseconds(); r > 0 {
		most = r / 10
	}
	least = min(coldDay.Milliseconds(), coldBlocks*block, most) / block * block
	most = min(most, int64(uint64(c.nowMs-t)/coldAge))
	for length = least; length > 0 && length <= most/2; {
		length *= 2
	}
	return length, least
}

// anyOpen says whether an open container overlaps [lo, hi].
func (l *containerList) anyOpen(lo, hi int64) bool {
	_, i := l.find(lo)
	return i < len(l.open) && l.open[i].lo <= hi
}
