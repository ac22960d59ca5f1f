package store

import (
	"context"

	"github.com/rwsink/rwsink/head"
)

// FlushSome flushes the containers that pick chooses, without merging.
func (s *Store) FlushSome(ctx context.Context, pick func(head.ContainerInfo) bool) error {
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	return s.flush(ctx, pick)
}
