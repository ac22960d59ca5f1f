package head

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/wal"
	"github.com/rwsink/rwsink/wal/record"
)

// LogState writes the metadata table and the exemplar ring to the log again,
// so that the segments before may go. It returns once all of it is durable.
func (h *Head) LogState(ctx context.Context) error {
	var err error
	if e := h.between(ctx, func(c *committer) { err = c.logState() }); e != nil {
		return e
	}
	return err
}

// stateShare is the part of what a frame may hold at which logState begins
// another: what senders made grow must never be more than the log takes.
const stateShare = 64

func (c *committer) logState() error {
	b, size := &Batch{}, 0
	write := func() error {
		err := c.write([]*Batch{b})
		if err != nil {
			c.unname(0)
		}
		b.clear()
		size = 0
		return err
	}
	grow := func(n int) error {
		if size += n; size < c.maxPayload/stateShare {
			return nil
		}
		return write()
	}
	for family, m := range c.head.Metadata() {
		b.metadata = append(b.metadata, record.Metadata{Family: family, Type: m.Type, Unit: m.Unit, Help: m.Help})
		if err := grow(len(family) + len(m.Unit) + len(m.Help)); err != nil {
			return err
		}
	}
	err := c.head.exemplars.ring.IterateExemplars(func(ls labels.Labels, e exemplar.Exemplar) error {
		b.exemplars = append(b.exemplars, batchExemplar{c.head.identity.withLabels(ls), e})
		return grow(int(ls.ByteSize() + e.Labels.ByteSize()))
	})
	if err != nil || b.items() == 0 {
		return err
	}
	return write()
}

// FirstNeeded returns the first frame whose samples are in the head only; ok
// is false when there is none.
func (h *Head) FirstNeeded() (lsn wal.LSN, ok bool) {
	for _, info := range h.Containers() {
		if info.First > 0 && (!ok || info.First < lsn) {
			lsn, ok = info.First, true
		}
	}
	return lsn, ok
}

// Stored tells the head of a timestamp that a block holds, before Replay: the
// clock is suspect when it is far behind it.
func (h *Head) Stored(t int64) { h.clock.see(t) }

// KeepFrom moves the accept bound: samples before t, Unix milliseconds, were
// removed by retention by size and are not taken again.
func (h *Head) KeepFrom(t int64) { h.clock.kept.Store(max(t, h.clock.kept.Load())) }

// Now returns the receiver's clock, and whether it is suspect at this moment,
// also where no write has asked for long. Called once Ready has returned nil.
func (h *Head) Now() (now time.Time, suspect bool) {
	w := h.clock.bounds()
	return time.UnixMilli(w.nowMs), w.suspect
}
