package store

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rwsink/rwsink/head"
)

// ReplayOnly is Replay without the maintenance loop: only what the test asks for happens.
func (s *Store) ReplayOnly(ctx context.Context) error {
	return s.replayHead(ctx)
}

// FlushSome flushes the containers that pick chooses, without merging.
func (s *Store) FlushSome(ctx context.Context, pick func(head.ContainerInfo) bool) error {
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	return s.flush(ctx, pick)
}

// CutLog removes the log segments that nothing needs.
func (s *Store) CutLog(ctx context.Context) error {
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	return s.cutLog(ctx)
}

// Round does once what the maintenance loop does.
func (s *Store) Round(ctx context.Context) error { return s.round(ctx) }

// Retain removes what retention no longer reaches.
func (s *Store) Retain() error {
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	return s.retain()
}

// BlockDirs returns the directories of the open blocks, by generation.
func (s *Store) BlockDirs() (dirs []string) {
	for _, b := range *s.blocks.Load() {
		dirs = append(dirs, b.Dir())
	}
	return dirs
}

// Segments returns how many segments the log has.
func (s *Store) Segments() int { return len(s.wal.Segments()) }

// Closing is closed once Close has begun.
func (s *Store) Closing() <-chan struct{} { return s.ctx.Done() }

// CompactSome merges what is worth it, or with all set everything that can be.
func (s *Store) CompactSome(ctx context.Context, all bool) error {
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	return s.compact(ctx, all)
}

// BlockRanges returns the ranges of the open blocks, by name.
func (s *Store) BlockRanges() map[string][2]int64 {
	out := map[string][2]int64{}
	for _, b := range *s.blocks.Load() {
		minT, maxT := b.Range()
		out[b.Name()] = [2]int64{minT, maxT}
	}
	return out
}

// Total returns the bytes that retention by size counts, SetMaxSize sets its limit.
func (s *Store) Total() int64 { return s.total() }

// SetMaxSize is for a store without a maintenance loop.
func (s *Store) SetMaxSize(n int64) { s.o.MaxSize = n }

// SetRetention sets retention by time.
func (s *Store) SetRetention(d time.Duration) { s.o.Head.Accept.Retention = d }

// Written returns the bytes of blocks written so far.
func (s *Store) Written() float64 {
	return testutil.ToFloat64(s.o.Metrics.Store.WrittenBytes)
}

// ForgetDeletes forgets the deletes of what ended before bound.
func (s *Store) ForgetDeletes(bound int64) { s.forgetDeletes(bound) }

// RememberDelete remembers one that is in no log.
func (s *Store) RememberDelete(d head.Delete) {
	s.deletes.mu.Lock()
	defer s.deletes.mu.Unlock()
	s.deletes.remember(d)
	s.deletes.trim()
}
