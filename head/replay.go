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
	times             []int64 // of the frame's histograms
	spans, histSpans  []span  // what no block holds of the frame's floats and histograms
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
	r.times = r.times[:0]
	for i := range b.Histograms {
		r.times = append(r.times, b.Histograms[i].T)
	}
	r.head.mu.Lock()
	r.spans, r.histSpans = r.sift(r.spans[:0], b.Floats.T, f.LSN), r.sift(r.histSpans[:0], r.times, f.LSN)
	r.floats(f.LSN)
	r.histograms(f.LSN)
	r.head.mu.Unlock()
	for i := range b.Exemplars {
		r.exemplar(&b.Exemplars[i])
	}
	r.head.metadata.apply(b.Metadata)
	r.deletes(b.Deletes, f.LSN)
	return nil
}

// span is samples of a frame that stand together and have one time.
type span struct{ from, to int }

// sift appends to out those samples, of which these are the times, that no block holds.
// All containers that have to make way for a block are closed before the first sample
// is placed: what a container says that it holds of the log is whole frames.
func (r *replayer) sift(out []span, times []int64, lsn wal.LSN) []span {
	for from, to := 0, 0; from < len(times); from = to {
		t := times[from]
		for to = from + 1; to < len(times) && times[to] == t; {
			to++
		}
		if r.covered != nil {
			if after, held := r.covered(t, lsn); held {
				r.makeWay(t, after)
				r.skipped += to - from
				continue
			}
		}
		out = append(out, span{from, to})
	}
	return out
}

// floats places those of the frame. References are mostly neighbours, so that the
// page of the one before nearly always is that of the next.
func (r *replayer) floats(lsn wal.LSN) {
	f, id := &r.batch.Floats, r.head.identity
	id.mu.RLock()
	defer id.mu.RUnlock()
	page, number := (*[pageSize]*Series)(nil), uint64(math.MaxUint64)
	for _, sp := range r.spans {
		t, unnamed := f.T[sp.from], 0
		for i := sp.from; i < sp.to; i++ {
			ref := f.Ref[i]
			if n := ref / pageSize; n != number {
				page, number = id.pages[n], n
			}
			if page == nil || page[ref%pageSize] == nil {
				unnamed++
				continue
			}
			st := int64(0)
			if len(f.ST) > 0 {
				st = f.ST[i]
			}
			r.committer.placeFloat(page[ref%pageSize], lsn, t, st, f.V[i])
		}
		r.named(t, sp.to-sp.from-unnamed, unnamed)
	}
}

// histograms places those of the frame.
func (r *replayer) histograms(lsn wal.LSN) {
	for _, sp := range r.histSpans {
		for i := sp.from; i < sp.to; i++ {
			x := &r.batch.Histograms[i]
			s := r.head.identity.byRef(x.Ref)
			if s == nil {
				r.named(x.T, 0, 1)
				continue
			}
			r.named(x.T, 1, 0)
			r.committer.place(s, lsn, &sample{t: x.T, st: x.ST, h: x.H, fh: x.FH})
		}
	}
}

// named counts samples of time t, and those whose series nobody named: they are not placed.
func (r *replayer) named(t int64, n, unnamed int) {
	r.samples += n
	r.unnamed += unnamed
	if n > 0 {
		r.head.clock.see(t)
	}
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
