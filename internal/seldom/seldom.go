package seldom

import (
	"sync/atomic"
	"time"
)

// Every is how often a line is logged at most.
const Every = 10 * time.Second

// Gate lets one line of trouble through in Every and counts the others. The zero
// value is open; any goroutine may use it.
type Gate struct {
	last atomic.Pointer[time.Time] // when one was let through; nil is long ago
	held atomic.Int64
}

// Pass says whether a line may be logged now, and how many were not since the last that was.
func (g *Gate) Pass() (held int64, ok bool) {
	now, last := time.Now(), g.last.Load()
	if last != nil && now.Sub(*last) < Every || !g.last.CompareAndSwap(last, &now) {
		g.held.Add(1)
		return 0, false
	}
	return g.held.Swap(0), true
}

// Open has the next line pass: the trouble is over. It returns how many were not logged.
func (g *Gate) Open() (held int64) {
	g.last.Store(nil)
	return g.held.Swap(0)
}
