package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
)

// saves matches what is replaced where deletes are saved, which takes turns.
var saves = regexp.MustCompile(`/blocks/([0-9A-Z]{26}/tombstones|deletes\.json)`)

// TestDeleteDoesNotWaitForABlock deletes a sample at every step of the writing of a
// block, which waits for that: of a flush, a merge and a cleaning. It is seen no
// more at once, nor when the block has come, nor in what a kill at that step leaves.
func TestDeleteDoesNotWaitForABlock(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, s *store.Store)
		write   func(s *store.Store) error
	}{
		{"flush", func(t *testing.T, s *store.Store) {}, func(s *store.Store) error { return s.FlushSome(ctx, everything) }},
		{"merge", func(t *testing.T, s *store.Store) {
			for range 2 {
				flushAll(t, s)
				commit(t, s, 9, 12_000, 10, 1)
			}
		}, func(s *store.Store) error { return s.CompactSome(ctx, true) }},
		{"clean", func(t *testing.T, s *store.Store) {
			flushAll(t, s)
			deleteOf(t, s, 12_900, 12_900, "0")
		}, func(s *store.Store) error { return s.CleanTombstones(ctx) }},
	} {
		s, fs, o := rig(t, store.Options{})
		const series = 6
		left := 0
		for i := range series {
			commit(t, s, i, 12_000, 10, 1)
		}
		tc.prepare(t, s)
		count := func(s *store.Store) (n int) {
			for i := range series {
				n += samplesOf(t, s, i)
			}
			return n
		}
		left = count(s)
		steps, saving, deleting := 0, false, atomic.Bool{}
		fs.step = func(op, name string) error {
			if deleting.Load() || !strings.Contains(name, "/blocks") {
				return nil
			}
			if saving = saving || saves.MatchString(name); saving || steps == series*9 {
				return nil
			}
			deleting.Store(true)
			at := int64(12_000 + 100*(steps%9))
			done := make(chan error, 1)
			go func() { done <- s.Delete(ctx, at, at, byI(fmt.Sprint(steps/9))) }()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("%s, %s %s: %v", tc.name, op, name, err)
				}
			case <-time.After(time.Minute):
				panic(fmt.Sprintf("%s, %s %s: the delete waits", tc.name, op, name))
			}
			steps, left = steps+1, left-1
			if n := count(s); n != left {
				t.Errorf("%s, %s %s: %d samples are seen, want %d", tc.name, op, name, n, left)
			}
			reopened(t, fs, o, func(s *store.Store) {
				if n := count(s); n != left {
					t.Errorf("%s, killed at %s %s: %d samples, want %d", tc.name, op, name, n, left)
				}
			})
			deleting.Store(false)
			return nil
		}
		if err := tc.write(s); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		fs.step = nil
		if steps < 5 {
			t.Errorf("%s: %d steps", tc.name, steps)
		}
		if n := count(s); n != left {
			t.Errorf("%s: %d samples in the end, want %d", tc.name, n, left)
		}
		if err := s.Round(ctx); err != nil { // which saves what was deleted
			t.Fatal(err)
		}
		for _, log := range []bool{true, false} {
			closeStore(t, s)
			if !log {
				wal := filepath.Join(o.Path, "wal")
				must(t, os.RemoveAll(wal))
				must(t, os.Mkdir(wal, 0o755))
			}
			s = start(t, o)
			if n := count(s); n != left {
				t.Errorf("%s: %d samples after a restart, with the log: %t, want %d", tc.name, n, log, left)
			}
		}
		closeStore(t, s)
	}
}

// reopened opens what a kill would leave now.
func reopened(t *testing.T, fs *stepFS, o store.Options, check func(*store.Store)) {
	t.Helper()
	dir := filepath.Join(fixture.QuickDir(t), "data")
	fs.copyTo(t, o.Path, dir, 0)
	o.Path, o.FS = dir, nil
	s := start(t, o)
	check(s)
	closeStore(t, s)
}

// TestDeletesThatWaitAreBounded deletes, while a block is being written, what may wait
// for it at most: the next one is refused, deletes nothing, and is taken afterwards.
func TestDeletesThatWaitAreBounded(t *testing.T) {
	ctx := context.Background()
	s, fs, _ := rig(t, store.Options{})
	defer func() { closeStore(t, s) }()
	commit(t, s, 0, 12_000, 10, 1)
	var large [][]*labels.Matcher // 4 MiB of matchers
	for range 64 {
		large = append(large, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "i", strings.Repeat("x", 64<<10-1))})
	}
	asked := false
	fs.step = func(_, name string) error {
		if asked || !strings.Contains(name, ".tmp/tombstones") {
			return nil
		}
		asked = true
		must(t, s.Delete(ctx, 0, 20_000, large...))
		err := s.Delete(ctx, 0, 20_000, byI("0"))
		var unavailable *head.UnavailableError
		if !errors.As(err, &unavailable) || unavailable.RetryAfter <= 0 || !strings.Contains(err.Error(), "64 deletes wait") {
			t.Errorf("one more: %v", err)
		}
		return nil
	}
	flushAll(t, s)
	fs.step = nil
	if n := samplesOf(t, s, 0); !asked || n != 10 {
		t.Errorf("%d samples, want 10", n)
	}
	deleteOf(t, s, 0, 20_000, "0")
	if n := samplesOf(t, s, 0); n != 0 {
		t.Errorf("%d samples after the delete", n)
	}
}
