package wal_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

const sweepGroups = 30

// sweepOps returns how many operations a life makes that meets no fault.
func sweepOps(t *testing.T, seed uint64) *memfs.FS {
	t.Helper()
	w := newWorld(seed)
	if err := w.live(sweepGroups, false); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	w.kill()
	if len(w.acked) < 20 {
		t.Fatalf("seed %d: only %d frames", seed, len(w.acked))
	}
	return w.fs
}

// The power fails, or the process is killed, in every operation of a life, and
// again somewhere in the lives after it: what a killed one had not synced, the
// next may build upon before the power fails.
func TestEndEverywhere(t *testing.T) {
	runs := 0
	for seed := range uint64(few(20)) {
		n := sweepOps(t, seed).Ops()
		for k := range n {
			w := newWorld(seed)
			w.fs.CutAfter(k)
			if err := w.live(sweepGroups, false); err != nil && !errors.Is(err, memfs.ErrPowerCut) {
				t.Fatalf("seed %d cut %d: %v", seed, k, err)
			}
			for again := range 4 {
				if w.rnd.IntN(2) == 0 {
					w.kill()
				} else {
					w.crash()
				}
				w.fs.CutAfter(w.rnd.IntN(25))
				if err := w.live(6, false); err != nil && !errors.Is(err, memfs.ErrPowerCut) {
					t.Fatalf("seed %d cut %d, again %d: %v", seed, k, again, err)
				}
			}
			w.crash()
			if err := w.settle(); err != nil {
				t.Fatalf("seed %d cut %d: %v", seed, k, err)
			}
			runs++
		}
	}
	t.Logf("%d lives", runs)
}

// Every operation of every kind fails once, the process lives on; then it is
// killed, the power fails, or both.
func TestEveryOperationFailsOnce(t *testing.T) {
	runs := 0
	for seed := range uint64(few(15)) {
		clean := sweepOps(t, seed)
		for op := range memfs.NumOps {
			for k := range clean.Calls(op) {
				w := newWorld(seed)
				w.thrice = seed%3 == 2
				w.fs.Fail(op, k, 1+int(seed%3), syscall.EIO)
				if err := w.live(sweepGroups, true); err != nil {
					t.Fatalf("seed %d, %v %d: %v", seed, op, k, err)
				}
				if seed%2 == 0 {
					w.kill()
				} else {
					w.crash()
				}
				if err := w.settle(); err != nil {
					t.Fatalf("seed %d, %v %d: %v", seed, op, k, err)
				}
				runs++
			}
		}
	}
	t.Logf("%d lives", runs)
}

// A group whose sync fails, and then the sync of what cuts it off, once or twice
// more, was refused: it is in no start after that, though the process is killed,
// starts, and only then the power fails. After three failures in a row the first
// start decides, and what it did not find does not come back.
func TestRefusedStaysRefused(t *testing.T) {
	for seed := range uint64(few(3000)) {
		w := newWorld(seed)
		w.groups(t, 1+int(seed%5))
		times := 1 + int(seed%3)
		w.thrice = times == 3
		w.fs.Fail(memfs.OpSync, 0, times, syscall.EIO)
		if err := w.group(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for life := range 4 {
			if w.rnd.IntN(2) == 0 {
				w.kill()
			} else {
				w.crash()
			}
			if err := w.start(); err != nil {
				t.Fatalf("seed %d, %d failures, start %d: %v", seed, times, life, err)
			}
		}
		w.crash()
		if err := w.settle(); err != nil {
			t.Fatalf("seed %d, %d failures: %v", seed, times, err)
		}
	}
}

// The disk is full for a while: no group is acknowledged that is not there, and
// writes go on when there is room, without a restart.
func TestDiskFull(t *testing.T) {
	for seed := range uint64(few(200)) {
		w := newWorld(seed)
		w.fs.SetCapacity(int64(500 + 13*seed))
		failed := 0
		for range 200 {
			if w.l == nil {
				if err := w.start(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if err := w.group(); errors.Is(err, syscall.ENOSPC) {
				failed++
			} else if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if failed == 0 {
			t.Fatalf("seed %d: never full", seed)
		}
		if n := len(w.files(t, "")); n > 40 {
			t.Fatalf("seed %d: %d files after %d failed groups", seed, n, failed)
		}
		w.fs.SetCapacity(0)
		before := len(w.acked)
		for range 3 {
			if err := w.group(); err != nil && !errors.As(err, new(*wal.UnavailableError)) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if len(w.acked) == before {
			t.Fatalf("seed %d: no group went through after there was room", seed)
		}
		w.crash()
		if err := w.settle(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// Crashes at once after the start, over and over, leave no more than a file or two.
func TestStartsDoNotGrowTheLog(t *testing.T) {
	for seed := range uint64(30) {
		w := newWorld(seed)
		if err := w.live(12, false); err != nil {
			t.Fatal(err)
		}
		w.crash()
		if err := w.start(); err != nil {
			t.Fatal(err)
		}
		before := len(w.files(t, ""))
		for i := range 30 {
			w.kill()
			if err := w.start(); err != nil {
				t.Fatalf("seed %d start %d: %v", seed, i, err)
			}
			if _, err := w.l.Begin(); err != nil {
				t.Fatalf("seed %d start %d: %v", seed, i, err)
			}
		}
		if n := len(w.files(t, "")); n > before+1 {
			t.Fatalf("seed %d: %d files, %d before", seed, n, before)
		}
	}
}

// TestEmptySegmentStays: the disk refuses to remove a segment that holds nothing; when
// those after it are removed, it goes before them, and no start takes for lost what
// they held.
func TestEmptySegmentStays(t *testing.T) {
	w := newWorld(1)
	w.groups(t, 1)
	w.crash()
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	w.fs.Fail(memfs.OpWrite, 1, 1, syscall.EIO) // after the header
	if err := w.group(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	w.fs.Fail(memfs.OpRemove, 0, 1, syscall.EIO)
	for range 20 {
		if err := w.group(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.files(t, "")); n < 4 {
		t.Fatalf("%d segments", n)
	}
	w.removed = wal.LSN(len(w.acked))
	if err := w.l.RemoveBefore(w.removed); err != nil {
		t.Fatal(err)
	}
	w.crash()
	if err := w.settle(); err != nil {
		t.Fatal(err)
	}
}
