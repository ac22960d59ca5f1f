package store

import (
	"context"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/ooo"
	"github.com/rwsink/rwsink/store/block"
)

// Filling adds samples from elsewhere, in blocks of the class that ranks below
// all that was written. It only ever adds:
//
//  1. the caller brings the series of one range of time in order of labels, each
//     with the layers that hold its samples; they are merged by the one rule,
//  2. what the directory holds at the same timestamp stays: the new sample is
//     left out, unless it is a number and there is a stale marker only,
//  3. the rest is cut, sealed and written as one block, published as a flush does.
//
// So the same filled twice is nothing the second time, which makes it safe to
// repeat what was broken off. A deleted sample is not held any more: filling it
// again, which somebody must ask for, brings it back.

// Filled says what became of the samples of one range.
type Filled struct {
	Block   string // the block's ULID; "" when nothing was new
	Samples uint64 // written
	Same    uint64 // held already
	Other   uint64 // left out: another sample is held at their timestamp
}

// FillRanges returns what gives the range of a block that is filled with t, both
// ends included: the widest aligned one that merges reach, over for long, and at
// most a tenth of retention, so that retention can let go of it. The ranges of
// two times are the same or disjoint.
func (s *Store) FillRanges() func(t int64) (lo, hi int64) {
	now, _ := s.head.Now()
	over, levels := now.UnixMilli()-s.blockMs(), s.levels()
	return func(t int64) (lo, hi int64) {
		for _, length := range levels {
			if lo, hi = RangeOf(t, length); hi <= over {
				return lo, hi
			}
		}
		return RangeOf(t, s.blockMs())
	}
}

// RangeOf returns the aligned range of that length around t, both ends included, in
// milliseconds. At the ends of time it is shorter.
func RangeOf(t, length int64) (lo, hi int64) {
	if first := floor(math.MinInt64+length, length); t < first {
		return math.MinInt64, first - 1
	}
	lo = floor(t, length)
	if lo > math.MaxInt64-length {
		return lo, math.MaxInt64
	}
	return lo, lo + length - 1
}

// FillBounds returns the times that may be filled, both ends included: what
// retention reaches, and at most max-future ahead of the clock.
func (s *Store) FillBounds() (from, to int64) {
	now, _ := s.head.Now()
	a := s.o.Head.Accept
	from = s.removed.KeepFrom
	if a.Retention > 0 {
		from = max(from, now.Add(-a.Retention).UnixMilli())
	}
	return from, now.Add(a.MaxFuture).UnixMilli()
}

// Fill writes one block of what each adds: series in order of labels, each once,
// with the layers that hold its samples, the later ones ranking higher; only
// samples in [lo, hi] are taken. After an error nothing of it is left.
func (s *Store) Fill(ctx context.Context, lo, hi int64, each func(add func(labels.Labels, []ooo.Layer) error) error) (out Filled, err error) {
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	view := s.View()
	defer view.Close()
	held, err := view.SelectAny(ctx, lo, hi, nil)
	if err != nil {
		return out, err
	}
	w, err := s.begin()
	if err != nil {
		return out, err
	}
	f := filler{
		store: s, w: w, lo: lo, hi: hi, held: held, reader: view.NewReader(),
		seal: head.NewSealer(s.o.Head), joined: &chunkenc.Samples{}, kept: &chunkenc.Samples{},
	}
	if err := each(func(ls labels.Labels, layers []ooo.Layer) error { return f.add(ctx, ls, layers) }); err != nil {
		return out, s.abandon(w, err)
	}
	out = f.out
	out.Samples = w.Samples()
	b, err := s.publish(ctx, w, block.CommitInfo{Generation: block.Generation{Class: block.ClassFilled, LSN: uint64(s.wal.Last())}, Level: 1}, nil)
	if err == nil && b != nil {
		out.Block = b.Name()
	}
	return out, err
}

// fillRun is how many samples wait to be sealed, at most.
const fillRun = 1 << 16

// filler writes one block.
type filler struct {
	store  *Store
	w      *block.Writer
	lo, hi int64
	held   []Series // what the directory holds, in order of labels; those behind are taken off
	reader *Reader
	stack  ooo.Stack
	seal   *head.Sealer
	joined *chunkenc.Samples // of one kind, to be sealed
	kept   *chunkenc.Samples // scratch
	chunks []chunkenc.Chunk
	out    Filled
}

func (f *filler) add(ctx context.Context, ls labels.Labels, layers []ooo.Layer) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for len(f.held) > 0 && labels.Compare(f.held[0].Labels, ls) < 0 {
		f.held = f.held[1:]
	}
	var held *Series
	if len(f.held) > 0 && labels.Equal(f.held[0].Labels, ls) {
		held = &f.held[0]
	}
	f.chunks = f.chunks[:0]
	err := f.stack.Read(layers, f.lo, f.hi, f.store.blockMs(), func(run *chunkenc.Samples) error {
		if held != nil {
			var err error
			if run, err = f.missing(run, held); err != nil {
				return err
			}
		}
		f.join(run)
		return nil
	})
	if err != nil {
		return fmt.Errorf("series %s: %w", ls, err)
	}
	f.flush()
	return f.w.AddSeries(ls, f.chunks)
}

// join adds a run to those that are sealed together.
func (f *filler) join(run *chunkenc.Samples) {
	if run.Kind != f.joined.Kind || f.joined.Len() >= fillRun {
		f.flush()
	}
	if f.joined.Len() == 0 {
		f.joined.Reset(run.Kind)
	}
	f.joined.Append(run)
}

func (f *filler) flush() {
	if f.joined.Len() > 0 {
		f.chunks = f.seal.Seal(f.chunks, f.joined)
		f.joined.Reset(f.joined.Kind)
	}
}

// missing returns what of a run is not held: a view of it, or scratch memory.
func (f *filler) missing(run *chunkenc.Samples, held *Series) (*chunkenc.Samples, error) {
	n, i := run.Len(), 0
	f.kept.Reset(run.Kind)
	keep := func(to int) {
		if i < to {
			part := run.Slice(i, to)
			f.kept.Append(&part)
		}
	}
	err := f.reader.Read(held, run.T[0], run.T[n-1], func(old *chunkenc.Samples) error {
		for k, t := range old.T {
			j := i
			for j < n && run.T[j] < t {
				j++
			}
			if j == n {
				break
			}
			if run.T[j] != t || ooo.Stale(old, k) && !ooo.Stale(run, j) {
				keep(j)
				i = j
				continue
			}
			keep(j)
			i = j + 1
			if ooo.Same(old, k, run, j) {
				f.out.Same++
			} else {
				f.out.Other++
			}
		}
		return nil
	})
	keep(n)
	return f.kept, err
}
