package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/store/block"
)

const (
	// maintainEvery is how often the store looks for what is due.
	maintainEvery = 5 * time.Second
	// quietFor is how long nothing may have come into a range that is over before it is flushed.
	quietFor = 5 * time.Minute
	// logMaxAge is the age of the oldest log segment at which those who need it are flushed, however hot.
	logMaxAge = 3 * time.Hour
	// collectEvery is how often the head is told to let go of series without samples.
	collectEvery = time.Minute
)

// maintain flushes, merges and removes what is due, until ctx ends.
func (s *Store) maintain(ctx context.Context) {
	defer close(s.stopped)
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	pressure := s.head.Pressure()
	for {
		s.gauge()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-pressure:
		case <-s.noticed:
		}
		pressure = s.head.Pressure()
		if err := s.round(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("maintenance of the blocks failed; it is tried again", "err", err)
			pressure = nil // until the next tick
		}
	}
}

// round does once what is due. While the clock is suspect nothing is, but that damaged
// blocks are seen to. Nothing waits for that, and retention for nothing: it makes
// room where the disk is full.
func (s *Store) round(ctx context.Context) error {
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	return errors.Join(s.setFaultyAside(), s.dueRound(ctx))
}

func (s *Store) dueRound(ctx context.Context) error {
	if time.Since(s.collected) >= collectEvery {
		if err := s.head.Collect(ctx); err != nil {
			return err
		}
		s.collected = time.Now()
	}
	if _, suspect := s.head.Now(); suspect {
		return nil
	}
	err := s.flush(ctx, s.due())
	if err == nil {
		if !s.anyFaulty() { // which go first: round has tried that, and the next one does
			// What is frozen must be in blocks: it may stand between two of them.
			err = s.compact(ctx, false)
		}
		err = errors.Join(err, s.cutLog(ctx))
	}
	return errors.Join(err, s.retain(), s.trySaveDeletes())
}

// due returns what chooses the containers to flush:
//
//   - those whose range ended more than half a block ago and that were quiet of late,
//   - the largest cold runs, when all together come near their bound,
//   - those that need the log's oldest segment, when the log is too large or too old.
func (s *Store) due() func(head.ContainerInfo) bool {
	now, _ := s.head.Now()
	over := now.UnixMilli() - s.blockMs()/2
	segments := s.wal.Segments()
	pressed := s.wal.Size() > s.logMax() ||
		len(segments) > 1 && now.Sub(segments[0].Created) > logMaxAge
	large := s.largestCold()
	return func(c head.ContainerInfo) bool {
		return c.Hi < over && c.Quiet >= quietFor ||
			large[[2]int64{c.Lo, c.Hi}] ||
			pressed && needsOldest(segments, c)
	}
}

// logMax is the size from which on the log's oldest segment is flushed. Where
// retention by size counts the log in, it must not take the place of the blocks.
func (s *Store) logMax() int64 {
	if s.o.MaxSize > 0 {
		return min(s.o.LogMax, s.o.MaxSize/logShare)
	}
	return s.o.LogMax
}

// logShare is the part of the retained size that the log may have.
const logShare = 4

// largestCold returns the ranges of the largest cold runs that have to go, when
// the head is pressed, so that those left hold at most half of the bound: fewer
// would be flushed later, and be larger then, as each block had better be.
func (s *Store) largestCold() map[[2]int64]bool {
	if !s.head.Pressed() {
		return nil
	}
	total := s.head.ColdBytes()
	var cold []head.ContainerInfo
	for _, c := range s.head.Containers() {
		if c.Cold && !c.Frozen {
			cold = append(cold, c)
		}
	}
	slices.SortFunc(cold, func(a, b head.ContainerInfo) int { return cmp.Compare(b.Bytes, a.Bytes) })
	out := map[[2]int64]bool{}
	for _, c := range cold {
		if total <= int64(s.o.Head.Limits.ColdBytes)/2 {
			break
		}
		out[[2]int64{c.Lo, c.Hi}] = true
		total -= int64(c.Bytes)
	}
	return out
}

// blockMs is the length of a block's range in milliseconds.
func (s *Store) blockMs() int64 { return s.o.Head.BlockDuration.Milliseconds() }

// retain removes the blocks that retention no longer reaches: by time those
// that ended before, counted from the newest sample or the clock, whichever is
// older; by size the oldest, log and head counted in, but never the last block:
// what the log takes cannot be made good by removing all.
func (s *Store) retain() error {
	errs := []error{s.removeLeft()}
	if bound, ok := s.retainFrom(); ok {
		s.forgetDeletes(bound)
		for _, b := range *s.blocks.Load() {
			if _, maxT := b.Range(); maxT < bound {
				errs = append(errs, s.remove(b, "older than retention", math.MinInt64))
			}
		}
	}
	for s.o.MaxSize > 0 && s.total() > s.o.MaxSize && len(*s.blocks.Load()) > 1 {
		oldest := s.oldest()
		_, maxT := oldest.Range()
		if maxT == math.MaxInt64 {
			break
		}
		if err := s.remove(oldest, "over the size of retention", maxT+1); err != nil {
			errs = append(errs, err)
			break
		}
		s.head.KeepFrom(maxT + 1)
	}
	return errors.Join(append(errs, s.forgetRemoved())...)
}

// retainFrom returns what retention by time reaches back to; ok is false when
// it keeps everything, or there is nothing.
func (s *Store) retainFrom() (bound int64, ok bool) {
	newest := int64(math.MinInt64)
	for _, b := range *s.blocks.Load() {
		_, maxT := b.Range()
		newest, ok = max(newest, maxT), true
	}
	for _, c := range s.head.Containers() {
		newest, ok = max(newest, c.Newest), true
	}
	now, _ := s.head.Now()
	keep := s.o.Head.Accept.Retention.Milliseconds()
	bound = min(now.UnixMilli(), newest) - keep
	return bound, ok && keep > 0 && bound < newest
}

// remove removes a block for good; samples before keepFrom are not taken any more.
func (s *Store) remove(b *block.Block, why string, keepFrom int64) error {
	if err := s.rememberRemoval(keepFrom, b); err != nil {
		return err
	}
	s.log.Info("removing a block", "block", b.Name(), "why", why, "bytes", b.Size())
	s.o.Metrics.Store.Removed.Inc()
	s.deletes.mu.Lock()
	s.swap([]*block.Block{b})
	s.deletes.mu.Unlock()
	return s.discard(b)
}

// total returns the bytes that retention by size counts.
func (s *Store) total() int64 {
	n := s.wal.Size() + s.head.ColdBytes()
	for _, b := range *s.blocks.Load() {
		n += b.Size()
	}
	return n
}

// oldest returns the block that ended first.
func (s *Store) oldest() (out *block.Block) {
	for _, b := range *s.blocks.Load() {
		_, maxT := b.Range()
		if out == nil {
			out = b
		} else if _, least := out.Range(); maxT < least {
			out = b
		}
	}
	return out
}
