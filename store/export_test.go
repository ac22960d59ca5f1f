package store

import (
	"context"

	"github.com/rwsink/rwsink/head"
)

// ReplayOnly is Replay without the maintenance loop: only what the test asks for happens.
func (s *Store) ReplayOnly(ctx context.Context) error {
	return s.head.Replay(ctx, s.coverage().find)
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
