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
// so that the segments before may go. It returns once the frame is durable.
func (h *Head) LogState(ctx context.Context) error {
	var err error
	if e := h.between(ctx, func(c *committer) { err = c.logState() }); e != nil {
		return e
	}
	return err
}

func (c *committer) logState() error {
	segment, err := c.log.Begin()
	if err != nil {
		return err
	}
	r := &record.Batch{}
	for family, m := range c.head.Metadata() {
		r.Metadata = append(r.Metadata, record.Metadata{Family: family, Type: m.Type, Unit: m.Unit, Help: m.Help})
	}
	c.named = c.named[:0]
	c.record.Series = c.record.Series[:0]
	err = c.head.exemplars.ring.IterateExemplars(func(ls labels.Labels, e exemplar.Exemplar) error {
		s := c.head.identity.withLabels(ls)
		c.name(s, segment)
		r.Exemplars = append(r.Exemplars, record.Exemplar{Ref: s.ref, T: e.Ts, V: e.Value, Labels: e.Labels})
		return nil
	})
	if err != nil {
		c.unname(0)
		return err
	}
	if len(r.Metadata)+len(r.Exemplars) == 0 {
		return nil
	}
	r.Series = c.record.Series
	if _, err = c.log.Write(ClassWritten, record.Append(nil, r)); err == nil {
		err = c.log.Commit()
	}
	if err != nil {
		c.unname(0)
	}
	return err
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
