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

// stateFrame is about how many bytes of state go into one frame.
const stateFrame = 4 << 20

// logState writes frame after frame, each in a group of its own: a segment may
// end between them.
func (c *committer) logState() error {
	r, size := &record.Batch{}, 0
	for family, m := range c.head.Metadata() {
		r.Metadata = append(r.Metadata, record.Metadata{Family: family, Type: m.Type, Unit: m.Unit, Help: m.Help})
		if size += len(family) + len(m.Unit) + len(m.Help); size >= stateFrame {
			if err := c.logFrame(r, nil); err != nil {
				return err
			}
			r.Metadata, size = r.Metadata[:0], 0
		}
	}
	var list []batchExemplar
	err := c.head.exemplars.ring.IterateExemplars(func(ls labels.Labels, e exemplar.Exemplar) error {
		list = append(list, batchExemplar{c.head.identity.withLabels(ls), e})
		return nil
	})
	if err != nil {
		return err
	}
	from := 0
	for i := range list {
		l := list[i].Labels
		if size += exemplarBytes + len(l.Bytes(nil)) + len(list[i].series.labels.Bytes(nil)); size >= stateFrame {
			if err := c.logFrame(r, list[from:i+1]); err != nil {
				return err
			}
			r.Metadata, from, size = r.Metadata[:0], i+1, 0
		}
	}
	return c.logFrame(r, list[from:])
}

// exemplarBytes is about what an exemplar takes beside its labels.
const exemplarBytes = 32

// logFrame writes metadata and exemplars, with the records of their series.
func (c *committer) logFrame(r *record.Batch, list []batchExemplar) error {
	if len(r.Metadata)+len(list) == 0 {
		return nil
	}
	segment, err := c.log.Begin()
	if err != nil {
		return err
	}
	c.named = c.named[:0]
	c.record.Series = c.record.Series[:0]
	r.Exemplars = r.Exemplars[:0]
	for i := range list {
		e := &list[i]
		c.name(e.series, segment)
		r.Exemplars = append(r.Exemplars, record.Exemplar{Ref: e.series.ref, T: e.Ts, V: e.Value, Labels: e.Labels})
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

// Now returns the receiver's clock, and whether it is suspect.
func (h *Head) Now() (now time.Time, suspect bool) {
	return h.clock.accept.Now(), h.clock.why.Load() != nil
}
