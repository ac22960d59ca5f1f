package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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

// TestRemovalOutlivesARestart: blocks that nothing takes the place of cannot be removed.
// Whatever is deleted since, a start does not find them, also where it cannot remove them
// either; the next round that can does, and then knows nothing of them any more.
func TestRemovalOutlivesARestart(t *testing.T) {
	ctx := context.Background()
	for name, remove := range map[string]func(s *store.Store) error{
		"retention by size": func(s *store.Store) error { s.SetMaxSize(1); return s.Retain() },
		"retention by time": func(s *store.Store) error { s.SetRetention(10 * time.Second); return s.Retain() },
		"nothing is left": func(s *store.Store) error {
			deleteOf(t, s, 3_000, 3_999, "0|1")
			return s.CleanTombstones(ctx)
		},
	} {
		s, fs, o := rig(t, store.Options{Segment: 400})
		commit(t, s, 0, 3_000, 10, 1)
		commit(t, s, 1, 3_000, 10, 1)
		flushAll(t, s)
		old := s.BlockDirs()[0]
		for k := range int64(20) { // so that the log does not reach back
			commit(t, s, 2, 19_000, 10, float64(k))
		}
		flushAll(t, s)
		must(t, s.CutLog(ctx))
		refuse := func(op, name string) error {
			if op == "rename" && name == old+".tmp" {
				return syscall.EIO
			}
			return nil
		}
		fs.step = refuse
		if err := remove(s); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", name, err)
		}
		fs.step = nil
		deleteOf(t, s, 3_000, 3_999, "1")
		must(t, s.CutLog(ctx))
		gone := func(s *store.Store) {
			if a, b := samplesOf(t, s, 0)+samplesOf(t, s, 1), samplesOf(t, s, 2); a != 0 || b != 10 {
				t.Errorf("%s: a start finds %d samples of the removed block, %d of the other, want 10", name, a, b)
			}
		}
		reopened(t, fs, o, gone)
		closeStore(t, s)
		if _, faults, notes := findings(t, o.Path); len(faults) > 0 || len(notes) != 1 || !strings.Contains(notes[0], "was removed") {
			t.Errorf("%s: the check finds %q, %q", name, faults, notes)
		}
		fs.step = refuse
		s = start(t, o)
		gone(s)
		if left := leftovers(t, s, o.Path); len(left) != 1 {
			t.Errorf("%s: where it is refused again there is left: %q", name, left)
		}
		fs.step = nil
		must(t, s.Round(ctx))
		if left := leftovers(t, s, o.Path); len(left) > 0 {
			t.Errorf("%s: left: %q", name, left)
		}
		if text, err := os.ReadFile(filepath.Join(o.Path, "blocks", "removed.json")); err != nil || strings.Contains(string(text), filepath.Base(old)) {
			t.Errorf("%s: it is still remembered: %s, %v", name, text, err)
		}
		closeStore(t, s)
	}
}

// TestUnfinishedIsTriedAgain: what a start or a failed write cannot remove of what was
// not finished refuses no start, and goes with the next round, or when it is next written.
func TestUnfinishedIsTriedAgain(t *testing.T) {
	ctx := context.Background()
	s, fs, o := rig(t, store.Options{})
	commit(t, s, 0, 12_000, 10, 1)
	flushAll(t, s)
	commit(t, s, 0, 13_000, 10, 1)
	want := sorted(read(t, s))
	refuse := func(op, name string) error {
		if op == "remove" || strings.HasSuffix(name, ".tmp/tombstones") {
			return syscall.EIO
		}
		return nil
	}
	fs.step = refuse
	if err := s.FlushSome(ctx, everything); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	fs.step = nil
	if left := leftovers(t, s, o.Path); len(left) != 1 {
		t.Fatalf("left: %q", left)
	}
	must(t, s.Round(ctx))
	if left := leftovers(t, s, o.Path); len(left) > 0 {
		t.Errorf("left of a failed flush after a round: %q", left)
	}
	tombstones := filepath.Join(s.BlockDirs()[0], "tombstones.tmp")
	closeStore(t, s)
	for _, name := range []string{
		filepath.Join(o.Path, "blocks", "01J00000000000000000000000.tmp", "index"), filepath.Join(o.Path, "snapshots", "a.tmp", "VERSION"),
		tombstones, filepath.Join(o.Path, "blocks", "removed.json.tmp"), filepath.Join(o.Path, "blocks", "deletes.json.tmp"),
	} {
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	fs.step = refuse
	s = start(t, o)
	fs.step = nil
	if got := sorted(read(t, s)); !slices.Equal(got, want) {
		t.Errorf("%d samples, want %d", len(got), len(want))
	}
	deleteOf(t, s, 12_000, 12_000, "0")
	must(t, s.Round(ctx))
	if left := leftovers(t, s, o.Path); len(left) != 1 || left[0] != "removed.json.tmp" {
		t.Errorf("left: %q", left)
	}
	if _, err := os.Stat(tombstones); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("beside the tombstones: %v", err)
	}
	closeStore(t, s)
	closeStore(t, start(t, o))
	if left := leftovers(t, s, o.Path); len(left) > 1 { // the one block
		t.Errorf("left after another start: %q", left)
	}
}

// TestBlockThatFailedIsNotFound: the name of a new block cannot be made durable, and cannot be
// taken back. A start does not find it, which has nothing of what was deleted since.
func TestBlockThatFailedIsNotFound(t *testing.T) {
	s, fs, o := rig(t, store.Options{Segment: 400})
	commit(t, s, 0, 12_000, 10, 1)
	commit(t, s, 1, 12_000, 10, 1)
	published := false
	fs.step = func(op, name string) error {
		isBlock := len(filepath.Base(name)) == 26
		switch {
		case op == "rename" && isBlock:
			published = true
		case published && (op == "sync" && filepath.Base(name) == "blocks" || op == "rename" && strings.HasSuffix(name, ".tmp")):
			return syscall.EIO
		}
		return nil
	}
	if err := s.FlushSome(context.Background(), everything); !errors.Is(err, syscall.EIO) || !published || len(s.BlockDirs()) > 0 {
		t.Fatalf("%d blocks, %v", len(s.BlockDirs()), err)
	}
	fs.step = nil
	deleteOf(t, s, 0, 20_000, "0")
	check := func(s *store.Store) {
		if a, b := samplesOf(t, s, 0), samplesOf(t, s, 1); a != 0 || b != 10 {
			t.Errorf("%d samples that were deleted, %d of the others, want 10", a, b)
		}
	}
	check(s)
	reopened(t, fs, o, check)
	must(t, s.Round(context.Background()))
	if left := leftovers(t, s, o.Path); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	closeStore(t, s)
}
