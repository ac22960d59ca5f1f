package store

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// alive returns a context that also ends when the store is closed.
func (s *Store) alive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// Flush makes blocks of everything in the head and merges what overlaps; it
// returns when done, or early when ctx ends or the store is closed. It works
// while the clock is suspect, too.
func (s *Store) Flush(ctx context.Context) error {
	ctx, cancel := s.alive(ctx)
	defer cancel()
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	all := func(head.ContainerInfo) bool { return true }
	if err := s.flush(ctx, all); err != nil {
		return err
	}
	// Merged before the log is cut: what a merge finds damaged may still be in the log.
	if err := s.compact(ctx, true); err != nil {
		return err
	}
	return s.cutLog(ctx)
}

// flush freezes the containers that pick chooses and makes a block of every
// frozen one, in order of LSN, so that of one timestamp the older is always
// published first. Called with maintenance held.
func (s *Store) flush(ctx context.Context, pick func(head.ContainerInfo) bool) error {
	frozen, err := s.head.Freeze(ctx, pick)
	if err != nil || len(frozen) == 0 {
		return err
	}
	// What a block covers must not be in the log only as far as it was written.
	if err := s.wal.Sync(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	// Most of a cold run is rows and pages without a pointer: to find them dead costs
	// little, but by itself the collector waits until the heap has doubled. Under
	// pressure the next samples need their memory; otherwise it is given back.
	pressed, freed, collected := s.head.Pressed(), int64(0), false
	for i, f := range frozen {
		if err := s.flushOne(ctx, f); err != nil {
			s.o.Metrics.Store.FlushFailures.Inc()
			return fmt.Errorf("flush: %w", err)
		}
		freed += f.ColdBytes()
		frozen[i] = nil
		if freed > int64(s.o.Head.Limits.ColdBytes)/collectShare {
			runtime.GC()
			freed, collected = 0, true
		}
	}
	if collected && !pressed {
		debug.FreeOSMemory()
	}
	return nil
}

// collectShare is the part of the bound on cold runs that is flushed between two
// collections: what is dead takes no more than that beside them.
const collectShare = 8

// flushOne makes a block of one frozen container. Whoever takes a view reads
// the head before the list of blocks, so that the samples are never missing.
func (s *Store) flushOne(ctx context.Context, f *head.Frozen) error {
	started := time.Now()
	w, err := s.begin()
	if err != nil {
		return err
	}
	err = f.Each(ctx, func(ls labels.Labels, list []chunkenc.Chunk) error { return w.AddSeries(ls, list) })
	if err != nil {
		return s.abandon(w, err)
	}
	lo, hi := f.Range()
	from, to := f.Log()
	b, err := s.publish(ctx, w, block.CommitInfo{
		Generation: block.Generation{Class: wal.ClassWritten, LSN: uint64(to)}, Level: 1,
		Logs: []block.LogRange{{MinT: lo, MaxT: hi, From: uint64(from), To: uint64(to)}},
	}, nil)
	if err != nil {
		return err
	}
	if b != nil {
		s.log.Info("flushed", "block", b.Name(), "samples", b.Meta().Stats.NumSamples, "series", b.Meta().Stats.NumSeries,
			"bytes", b.Size(), "took", time.Since(started).Round(time.Millisecond))
	}
	s.o.Metrics.Store.FlushSeconds.Observe(time.Since(started).Seconds())
	return s.head.Drop(ctx, f)
}

// openWritten opens a block that was just written. One that does not open is
// removed: it would be found, beside what takes its place, by the next start.
func (s *Store) openWritten(dir string) (*block.Block, error) {
	b, err := block.Open(dir, s.pages)
	if err == nil && b.LostTombstones() != nil {
		err = b.LostTombstones()
		b.Release()
	}
	if err != nil {
		return nil, s.reject(dir, err)
	}
	return b, nil
}

// cutLog removes the log segments that no container needs, after what else is
// in them was written again.
func (s *Store) cutLog(ctx context.Context) error {
	segments := s.wal.Segments()
	if len(segments) < 2 {
		return nil
	}
	keep := segments[len(segments)-1].First
	if first, ok := s.head.FirstNeeded(); ok {
		keep = min(keep, first)
	}
	if segments[1].First > keep {
		return nil
	}
	// A start that does not find a delete in the log does not apply it again.
	if err := s.trySaveDeletes(); err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	if err := s.head.LogState(ctx); err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	if err := s.wal.Sync(); err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	if err := s.wal.RemoveBefore(keep); err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	return nil
}

// needsOldest says whether a container needs the log's oldest segment.
func needsOldest(segments []wal.Segment, info head.ContainerInfo) bool {
	return len(segments) > 1 && info.First > 0 && info.First < segments[1].First
}
