package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rwsink/rwsink/store"
)

// TestRemovalIsTriedAgain merges blocks which then cannot be removed. What took their
// place is not merged before they are gone, so that a start at any time, which may
// find them, does not bring back what was deleted since; and the next round removes them.
func TestRemovalIsTriedAgain(t *testing.T) {
	ctx := context.Background()
	s, fs, o := rig(t, store.Options{})
	for range 2 {
		commit(t, s, 0, 12_000, 10, 1)
		flushAll(t, s)
	}
	olds := s.BlockDirs()
	fs.step = func(op, name string) error {
		if op == "rename" && slices.Contains(olds, strings.TrimSuffix(name, ".tmp")) {
			return syscall.EIO
		}
		return nil
	}
	if err := s.CompactSome(ctx, true); !errors.Is(err, syscall.EIO) || len(s.BlockDirs()) != 1 {
		t.Fatalf("%d blocks, %v", len(s.BlockDirs()), err)
	}
	deleteOf(t, s, 0, 20_000, "0")
	commit(t, s, 1, 12_000, 10, 1)
	flushAll(t, s)
	for _, write := range []func() error{
		func() error { return s.CompactSome(ctx, true) },
		func() error { return s.CleanTombstones(ctx) },
		func() error { return s.Round(ctx) },
	} {
		if err := write(); !errors.Is(err, syscall.EIO) {
			t.Errorf("what cannot be removed is forgotten: %v", err)
		}
		step := fs.step
		fs.step = nil
		reopened(t, fs, o, func(s *store.Store) {
			if a, b := samplesOf(t, s, 0), samplesOf(t, s, 1); a != 0 || b != 10 {
				t.Errorf("a start finds %d samples that were deleted, and %d of the others, want 10", a, b)
			}
		})
		fs.step = step
	}
	fs.step = nil
	must(t, s.Round(ctx))
	if left := leftovers(t, s, o.Path); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	closeStore(t, s)
}
