package head

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Samples of ranges long past are bounded in memory by Limits.ColdBytes. From
// three quarters of it on whoever flushes is told to (Pressure); at all of it
// a request that holds such samples waits for room, and is unavailable if there
// is none in time. Requests without are not held up.

// roomStep is how often a request that waits looks for room.
const roomStep = 5 * time.Millisecond

// ErrFull is why a request that waited for room is unavailable.
var ErrFull = errors.New("head: samples of long ago fill --storage.head-memory until they are written to blocks")

// ColdBytes returns the memory that cold runs hold.
func (h *Head) ColdBytes() int64 { return h.coldBytes.Load() }

// countCold counts what a cold run has grown or shrunk by since it was counted last.
func (h *Head) countCold(r *coldRun) {
	if now := r.memory(); now != r.counted {
		h.coldBytes.Add(int64(now - r.counted))
		r.counted = now
	}
}

// Pressure is signalled when cold runs hold so much that some are to be flushed now.
func (h *Head) Pressure() <-chan struct{} { return h.pressure }

// Pressed says whether it still is so.
func (h *Head) Pressed() bool { return h.coldBytes.Load() > int64(h.options.Limits.ColdBytes)/4*3 }

// full says whether cold runs hold all that they may.
func (h *Head) full() bool { return h.coldBytes.Load() >= int64(h.options.Limits.ColdBytes) }

// room waits, where b has samples of long ago, until cold runs may hold more.
func (h *Head) room(ctx context.Context, b *Batch) error {
	if !h.full() || !b.before(h.options.Accept.Now().Add(-2*h.options.BlockDuration).UnixMilli()) {
		return nil
	}
	tick := time.NewTicker(roomStep)
	defer tick.Stop()
	for waited := time.Duration(0); waited < h.roomWait; waited += roomStep {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if !h.full() || h.Ready() != nil {
			return nil
		}
	}
	return ErrFull
}

// before says whether some sample is older than t.
func (b *Batch) before(t int64) bool {
	return slices.ContainsFunc(b.times, func(at int64) bool { return at < t }) ||
		slices.ContainsFunc(b.hists, func(x histSample) bool { return x.t < t })
}
