package head

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/exemplar"

	"github.com/rwsink/rwsink/wal"
	"github.com/rwsink/rwsink/wal/record"
)

// Replay reads the log into the head and then takes writes. It logs its
// progress and ends early, with ctx's error, when ctx ends.
//
// It applies each frame as the committer did, without judging: what was
// acknowledged stays, whatever the flags say now. Frames whose series nobody
// named (the record was lost in a damaged stretch) are counted and logged.
//
// covered says whether a block holds what the frame lsn had of timestamp t, and
// after which frame what it holds of t begins; such samples are skipped. It may
// be nil. Samples from before that frame, which then must have been of a block
// that was set aside, end up in a container of their own: Freeze returns it.
func (h *Head) Replay(ctx context.Context, covered func(t int64, lsn wal.LSN) (from wal.LSN, ok bool)) error {
	r := replayer{head: h, covered: covered, remembered: h.deletes, committer: newCommitter(h), started: time.Now(), reported: time.Now()}
	r.committer.nowMs = h.clock.bounds().nowMs
	rec, err := h.options.Log.Replay(r.progress, func(f wal.Frame) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return r.frame(f)
	})
	if err != nil {
		return fmt.Errorf("replay of the log: %w", err)
	}
	r.erasedBefore(math.MaxUint64)
	h.identity.list(true)
	h.deletes = r.found
	r.committer.suspect = h.clock.bounds().suspect
	level := h.log.Info
	if len(rec.Lost) > 0 || r.unnamed > 0 {
		level = h.log.Error
	}
	level("the log is replayed", "frames", rec.Frames, "bytes", rec.Bytes, "samples", r.samples, "in_blocks", r.skipped,
		"series", h.identity.count.Load(), "torn_tail_bytes", rec.TornTail, "set_aside", rec.SetAside,
		"lost", rec.Lost, "samples_without_series", r.unnamed, "took", time.Since(r.started).Round(time.Millisecond))
	if why := h.clockNotice(); why != "" {
		h.log.Error(why)
	}
	h.options.Metrics.Unnamed.Add(float64(r.unnamed))
	r.committer.forget()
	r.committer.report()
	h.start(r.committer)
	return nil
}

// progressEvery is how often a long replay says how far it is.
const progressEvery = 5 * time.Second

type replayer struct {
	head              *Head
	committer         *committer
	covered           func(t int64, lsn wal.LSN) (from wal.LSN, ok bool)
	skipped           int
	batch             record.Batch
	series            []*Series // of the frame's samples, floats first; nil where nobody named it
	held              []bool    // likewise: which a block holds
	remembered, found []Delete
	samples           int
	unnamed           int
	started, reported time.Time
}

func (r *replayer) progress(done, total int64) {
	if now := time.Now(); now.Sub(r.reported) >= progressEvery {
		r.reported = now
		r.head.log.Info("replaying the log", "done_bytes", done, "total_bytes", total,
			"percent", 100*done/max(1, total))
	}
}

// frame applies one frame.
func (r *replayer) frame(f wal.Frame) error {
	b := &r.batch
	if err := record.Decode(b, f.Payload); err != nil {
		return fmt.Errorf("frame %d of segment %d: %w", f.LSN, f.Segment, err)
	}
	r.erasedBefore(f.LSN)
	id := r.head.identity
	for _, s := range b.Series {
		id.restore(s.Ref, s.Labels)
	}
	r.find()
	r.head.mu.Lock()
	r.sift(f.LSN)
	r.floats(f.LSN)
	for i := range b.Histograms {
		if s, k := &b.Histograms[i], len(b.Floats.Ref)+i; !r.held[k] && r.named(r.series[k], s.T) {
			r.committer.place(r.series[k], f.LSN, &sample{t: s.T, st: s.ST, h: s.H, fh: s.FH})
		}
	}
	r.head.mu.Unlock()
	for i := range b.Exemplars {
		r.exemplar(&b.Exemplars[i])
	}
	r.head.metadata.apply(b.Metadata)
	r.deletes(b.Deletes, f.LSN)
	return nil
}

// sift finds which samples of the frame a block holds, floats first. All
// containers that have to make way for a block are closed before the first
// sample is placed: what a container says that it holds of the log is whole frames.
func (r *replayer) sift(lsn wal.LSN) {
	b := &r.batch
	r.held = append(r.held[:0], make([]bool, len(b.Floats.Ref)+len(b.Histograms))...)
	if r.covered == nil {
		return
	}
	n, last, lastHeld := len(b.Floats.Ref), int64(0), false
	for i := range r.held {
		t := int64(0)
		if i < n {
			t = b.Floats.T[i]
		} else {
			t = b.Histograms[i-n].T
		}
		if i == 0 || t != last { // those of one scrape have the same time
			var from wal.LSN
			if from, lastHeld = r.covered(t, lsn); lastHeld {
				r.makeWay(t, from)
			}
			last = t
		}
		if lastHeld {
			r.held[i] = true
			r.skipped++
		}
	}
}

// find finds the series of the frame's samples. References of a frame are mostly
// neighbours, so that the page of the one before nearly always is that of the next.
func (r *replayer) find() {
	b, id := &r.batch, r.head.identity
	r.series = r.series[:0]
	id.mu.RLock()
	defer id.mu.RUnlock()
	page, number := (*[pageSize]*Series)(nil), uint64(math.MaxUint64)
	at := func(ref uint64) *Series {
		if n := ref / pageSize; n != number {
			page, number = id.pages[n], n
		}
		if page == nil {
			return nil
		}
		return page[ref%pageSize]
	}
	for _, ref := range b.Floats.Ref {
		r.series = append(r.series, at(ref))
	}
	for i := range b.Histograms {
		r.series = append(r.series, at(b.Histograms[i].Ref))
	}
}

// floats places those of the frame.
func (r *replayer) floats(lsn wal.LSN) {
	f := &r.batch.Floats
	for i, s := range r.series[:len(f.Ref)] {
		if r.held[i] || !r.named(s, f.T[i]) {
			continue
		}
		st := int64(0)
		if len(f.ST) > 0 {
			st = f.ST[i]
		}
		r.committer.placeFloat(s, lsn, f.T[i], st, f.V[i])
	}
}

// named counts a sample of s, nil where nobody named it: then there is nothing to place.
func (r *replayer) named(s *Series, t int64) bool {
	if s == nil {
		r.unnamed++
		return false
	}
	r.samples++
	r.head.clock.see(t)
	return true
}

// makeWay closes the open container of t where it holds samples from before a
// block that begins after the frame from: with later samples beside them the
// container would rank above the block as a whole.
func (r *replayer) makeWay(t int64, from wal.LSN) {
	if box, _ := r.head.containers.Load().find(t); box != nil && box.first <= from {
		r.committer.freezeLocked(func(c *Container) bool { return c == box })
	}
}

// exemplar restores one; what the ring refuses now it refused then.
func (r *replayer) exemplar(e *record.Exemplar) {
	if s := r.head.identity.byRef(e.Ref); s != nil {
		_ = r.head.exemplars.add(s.labels, exemplar.Exemplar{Labels: e.Labels, Value: e.V, Ts: e.T, HasTs: true})
	}
}
