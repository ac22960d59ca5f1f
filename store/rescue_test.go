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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store"
)

// damagedRig is a store with one block of five series, one chunk each, of which the
// log holds nothing any more, and another one beside it.
func damagedRig(t *testing.T) (s *store.Store, o store.Options, m *metrics.Store, want []string) {
	t.Helper()
	m = metrics.NewStore(prometheus.NewRegistry())
	s, _, o = rig(t, store.Options{Segment: 400, Metrics: store.Metrics{Store: m}})
	for i := range 5 {
		commit(t, s, i, 12_000+int64(i), 10, float64(i))
	}
	flushAll(t, s)
	for k := range int64(20) { // so that the log does not reach back
		commit(t, s, 7, 19_000, 10, float64(k))
	}
	flushAll(t, s)
	must(t, s.CutLog(context.Background()))
	return s, o, m, sorted(read(t, s))
}

// meetDamage reads a damaged block: it fails, and later reads do without what is damaged.
func meetDamage(t testing.TB, s *store.Store) {
	t.Helper()
	v := s.View()
	defer v.Close()
	_, err := readView(v, 0, 20_000)
	var corrupt *vfs.CorruptError
	if !errors.As(err, &corrupt) {
		t.Fatalf("the damage is not met: %v", err)
	}
}

// TestOneChunkCostsOneChunk damages a block's chunks at every few bytes: the read
// that meets it fails, and after the next round everything is there but the series
// whose chunk it is. It is counted, and a restart changes nothing.
func TestOneChunkCostsOneChunk(t *testing.T) {
	segment := func(s *store.Store) string { return filepath.Join(s.BlockDirs()[0], "chunks", "000001") }
	s, _, _, _ := damagedRig(t)
	size := fileSize(t, segment(s))
	closeStore(t, s)
	cost := map[string]int{}
	for at := int64(8); at < size; at += 9 {
		s, o, m, want := damagedRig(t)
		t.Log("damaged at byte", at)
		flipOnDisk(t, segment(s), at)
		meetDamage(t, s)
		must(t, s.Round(context.Background()))
		got := sorted(read(t, s))
		gone := ""
		for _, line := range want {
			if !slices.Contains(got, line) && !strings.HasPrefix(line, gone+" ") {
				if gone != "" {
					t.Fatalf("byte %d: series %s and %s are gone", at, gone, line)
				}
				gone, _, _ = strings.Cut(line, " ")
			}
		}
		if want := slices.DeleteFunc(want, func(l string) bool { return strings.HasPrefix(l, gone+" ") }); gone == "" || !slices.Equal(got, want) {
			t.Fatalf("byte %d: series %q is gone, %d samples are there, want %d", at, gone, len(got), len(want))
		}
		cost[gone]++
		lost := testutil.ToFloat64(m.LostChunks)
		if aside, err := os.ReadDir(filepath.Join(o.Path, "quarantine")); err != nil || len(aside) != 1 || lost != 1 {
			t.Errorf("byte %d: %v in quarantine, %v chunks lost, %v", at, aside, lost, err)
		}
		closeStore(t, s)
		s = start(t, o)
		if again := sorted(read(t, s)); !slices.Equal(again, got) {
			t.Errorf("byte %d: %d samples after a restart, %d before", at, len(again), len(got))
		}
		if faults := faultsOf(t, o.Path); len(faults) > 0 {
			t.Errorf("byte %d: check afterwards: %q", at, faults)
		}
		closeStore(t, s)
	}
	if len(cost) != 5 {
		t.Errorf("the series lost: %v", cost)
	}
}

// TestNothingDeletedIsRescued deletes before a block is found damaged, before it is
// written anew, and meanwhile.
func TestNothingDeletedIsRescued(t *testing.T) {
	s, o, _, want := damagedRig(t)
	defer func() { closeStore(t, s) }()
	deleteOf(t, s, 0, 20_000, "1")
	flipOnDisk(t, filepath.Join(s.BlockDirs()[0], "chunks", "000001"), 20) // of series 0
	meetDamage(t, s)
	deleteOf(t, s, 0, 20_000, "2")
	fs, deleted := o.FS.(*stepFS), false
	fs.step = func(op, name string) error {
		if !deleted && op == "create" && strings.Contains(name, ".tmp/tombstones") {
			deleted = true
			deleteOf(t, s, 0, 20_000, "3")
		}
		return nil
	}
	must(t, s.Round(context.Background()))
	fs.step = nil
	want = slices.DeleteFunc(want, func(l string) bool { return l[0] >= '0' && l[0] <= '3' })
	for range 2 {
		if got := sorted(read(t, s)); !deleted || !slices.Equal(got, want) {
			t.Errorf("%d samples, want %d: %q", len(got), len(want), got)
		}
		closeStore(t, s)
		s = start(t, o)
	}
}

// TestRescueFails: where the disk has no room for what is sound, the block stays, reads
// go on without the damaged chunk, also after a restart, and it is tried again.
func TestRescueFails(t *testing.T) {
	s, o, m, want := damagedRig(t)
	defer func() { closeStore(t, s) }()
	want = slices.DeleteFunc(want, func(l string) bool { return strings.HasPrefix(l, "0 ") })
	flipOnDisk(t, filepath.Join(s.BlockDirs()[0], "chunks", "000001"), 20) // of series 0
	fs, reads := o.FS.(*stepFS), 0
	full := func(op, name string) error {
		if op == "create" && strings.Contains(name, ".tmp/tombstones") {
			reads++
			if got := sorted(read(t, s)); !slices.Equal(got, want) {
				t.Errorf("%d samples while it is written anew, want %d", len(got), len(want))
			}
			return syscall.ENOSPC
		}
		return nil
	}
	for range 2 {
		meetDamage(t, s)
		for range 2 {
			fs.step = full
			if err := s.Round(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("round: %v", err)
			}
			fs.step = nil
			if got := sorted(read(t, s)); !slices.Equal(got, want) || len(s.BlockDirs()) != 2 {
				t.Errorf("%d samples in %d blocks, want %d", len(got), len(s.BlockDirs()), len(want))
			}
			if left := leftovers(t, s, o.Path); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		}
		if aside, lost := testutil.ToFloat64(m.SetAside), testutil.ToFloat64(m.LostChunks); aside != 0 || lost != 0 {
			t.Errorf("%v blocks were set aside, %v chunks lost", aside, lost)
		}
		closeStore(t, s)
		s = start(t, o)
	}
	meetDamage(t, s)
	must(t, s.Round(context.Background()))
	if got := sorted(read(t, s)); !slices.Equal(got, want) || reads != 4 {
		t.Errorf("%d samples after %d attempts, want %d", len(got), reads, len(want))
	}
	if aside, lost := testutil.ToFloat64(m.SetAside), testutil.ToFloat64(m.LostChunks); aside != 1 || lost != 1 {
		t.Errorf("%v blocks were set aside, %v chunks lost", aside, lost)
	}
}

// TestRescueIsTriedOnceARound: where blocks are to be merged, too, a round in which the
// disk has no room for what is sound reads the damaged block once.
func TestRescueIsTriedOnceARound(t *testing.T) {
	s, o, _, _ := damagedRig(t)
	defer func() { closeStore(t, s) }()
	for _, at := range []int64{3_000, 4_000} { // of one range of the next level
		commit(t, s, 0, at, 5, 1)
		flushAll(t, s)
	}
	flipOnDisk(t, filepath.Join(s.BlockDirs()[0], "chunks", "000001"), 20) // of series 0
	meetDamage(t, s)
	fs, tries, blocks := o.FS.(*stepFS), 0, len(s.BlockDirs())
	fs.step = func(op, name string) error {
		if op == "create" && strings.Contains(name, ".tmp/tombstones") {
			tries++
			return syscall.ENOSPC
		}
		return nil
	}
	if err := s.Round(context.Background()); !errors.Is(err, syscall.ENOSPC) || tries != 1 {
		t.Errorf("tried %d times, want 1: %v", tries, err)
	}
	fs.step = nil
	must(t, s.Round(context.Background()))
	if n := len(s.BlockDirs()); n != blocks-1 {
		t.Errorf("%d blocks, want %d: two are merged", n, blocks-1)
	}
}

// TestRescueMeetsMore: the index of a block with a damaged chunk is damaged, too: it is set
// aside as a whole, and everything else goes on.
func TestRescueMeetsMore(t *testing.T) {
	s, o, m, want := damagedRig(t)
	defer func() { closeStore(t, s) }()
	damaged := s.BlockDirs()[0]
	flipOnDisk(t, filepath.Join(damaged, "chunks", "000001"), 20)
	meetDamage(t, s)
	truncate(t, filepath.Join(damaged, "index"), 0)
	must(t, s.Round(context.Background()))
	want = slices.DeleteFunc(want, func(l string) bool { return !strings.HasPrefix(l, "7 ") })
	if got := sorted(read(t, s)); !slices.Equal(got, want) {
		t.Errorf("%d samples, want %d", len(got), len(want))
	}
	if left := leftovers(t, s, o.Path); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	// What is lost is the block: chunks are counted where the rest is there.
	if aside, lost := testutil.ToFloat64(m.SetAside), testutil.ToFloat64(m.LostChunks); aside != 1 || lost != 0 {
		t.Errorf("%v blocks were set aside, %v chunks lost", aside, lost)
	}
}

// TestNothingSound damages the only chunk of a block: it is counted, nothing takes
// the block's place, and the other block is as it was.
func TestNothingSound(t *testing.T) {
	s, o, m, want := damagedRig(t)
	defer func() { closeStore(t, s) }()
	flipOnDisk(t, filepath.Join(s.BlockDirs()[1], "chunks", "000001"), 20)
	meetDamage(t, s)
	must(t, s.Round(context.Background()))
	want = slices.DeleteFunc(want, func(l string) bool { return strings.HasPrefix(l, "7 ") })
	if got := sorted(read(t, s)); !slices.Equal(got, want) || len(s.BlockDirs()) != 1 {
		t.Errorf("%d samples in %q, want %d", len(got), s.BlockDirs(), len(want))
	}
	if left := leftovers(t, s, o.Path); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if lost := testutil.ToFloat64(m.LostChunks); lost != 1 {
		t.Errorf("%v chunks lost", lost)
	}
}

// TestNothingIsMergedAroundADamagedBlock: of three blocks of one time the middle one is
// found damaged, and the others are to be merged before it is written anew. That
// would bring its samples behind those that they had replaced.
func TestNothingIsMergedAroundADamagedBlock(t *testing.T) {
	s, _, _ := rig(t, store.Options{})
	defer func() { closeStore(t, s) }()
	commit(t, s, 1, 12_000, 5, 1)
	flushAll(t, s)
	commit(t, s, 0, 12_000, 5, 2)
	commit(t, s, 1, 12_000, 5, 2)
	flushAll(t, s)
	commit(t, s, 2, 12_000, 5, 3)
	flushAll(t, s)
	want := sorted(read(t, s))
	flipOnDisk(t, filepath.Join(s.BlockDirs()[1], "chunks", "000001"), 20) // of series 0
	meetDamage(t, s)
	must(t, s.Flush(context.Background()))
	want = slices.DeleteFunc(want, func(l string) bool { return l[0] == '0' })
	if got := sorted(read(t, s)); !slices.Equal(got, want) || len(s.BlockDirs()) != 1 {
		t.Errorf("in %d blocks:\n got %q\nwant %q", len(s.BlockDirs()), got, want)
	}
}

// TestDamagedBlockPutBack: a copy of a block that was set aside is back in its place,
// beside the one that has what is sound in it. It is set aside under another name.
func TestDamagedBlockPutBack(t *testing.T) {
	s, o, _, _ := damagedRig(t)
	defer func() { closeStore(t, s) }()
	dir, quarantine := s.BlockDirs()[0], filepath.Join(o.Path, "quarantine")
	flipOnDisk(t, filepath.Join(dir, "chunks", "000001"), 20)
	meetDamage(t, s)
	must(t, s.Round(context.Background()))
	for n := range 3 {
		aside, err := os.ReadDir(quarantine)
		if err != nil || len(aside) != n+1 {
			t.Fatalf("%v in quarantine, %v", aside, err)
		}
		read(t, s)
		closeStore(t, s)
		copyDir(t, filepath.Join(quarantine, aside[n].Name()), dir)
		s = start(t, o)
	}
}

// TestNoQuarantine: where damaged blocks cannot be moved all else that is due is done,
// and what is deleted meanwhile is deleted after a restart, of them, too.
func TestNoQuarantine(t *testing.T) {
	s, o, _, _ := damagedRig(t)
	defer func() { closeStore(t, s) }()
	flipOnDisk(t, filepath.Join(s.BlockDirs()[0], "chunks", "000001"), 20) // of series 0
	commit(t, s, 8, 3_000, 5, 1)
	flushAll(t, s)
	meetDamage(t, s)
	fs := o.FS.(*stepFS)
	fs.step = func(_, name string) error {
		if strings.Contains(name, "quarantine") {
			return syscall.ENOSPC
		}
		return nil
	}
	s.SetMaxSize(1)
	if err := s.Round(context.Background()); !errors.Is(err, syscall.ENOSPC) || len(s.BlockDirs()) != 1 {
		t.Errorf("retention leaves %d blocks: %v", len(s.BlockDirs()), err)
	}
	deleteOf(t, s, 0, 20_000, "2")
	_ = s.CutLog(context.Background())
	_ = s.Round(context.Background())
	fs.step = nil
	closeStore(t, s)
	s = start(t, o)
	v := s.View()
	defer v.Close()
	for _, which := range []string{"2", "3"} { // and not series 0: nobody meets the damage
		list, err := v.Select(context.Background(), 0, 20_000, byI(which)...)
		must(t, err)
		n := 0
		for i := range list {
			must(t, v.NewReader().Read(&list[i], 0, 20_000, func(run *chunkenc.Samples) error { n += run.Len(); return nil }))
		}
		if want := map[string]int{"3": 10}[which]; n != want {
			t.Errorf("series %s has %d samples, want %d", which, n, want)
		}
	}
}

// TestQuarantineIsNotSynced: a damaged block is moved, which then cannot be made durable.
// It is not looked for in its place again: the next round is done with it.
func TestQuarantineIsNotSynced(t *testing.T) {
	s, o, m, _ := damagedRig(t)
	defer func() { closeStore(t, s) }()
	flipOnDisk(t, filepath.Join(s.BlockDirs()[0], "chunks", "000001"), 20)
	meetDamage(t, s)
	fs := o.FS.(*stepFS)
	fs.step = func(op, name string) error {
		if op == "sync" && filepath.Base(name) == "quarantine" {
			return syscall.EIO
		}
		return nil
	}
	for range 2 {
		if err := s.Round(context.Background()); !errors.Is(err, syscall.EIO) {
			t.Errorf("round: %v", err)
		}
	}
	fs.step = nil
	must(t, s.Round(context.Background()))
	if aside, err := os.ReadDir(filepath.Join(o.Path, "quarantine")); err != nil || len(aside) != 1 || testutil.ToFloat64(m.SetAside) != 1 {
		t.Errorf("in quarantine: %v, %v", aside, err)
	}
}

// TestStartWithoutQuarantine: a start that cannot move damaged blocks, nor one of which what
// is sound was written anew, does without them. Meanwhile nothing is merged, deletes stay in
// the log, and what is damaged is moved when it can be.
func TestStartWithoutQuarantine(t *testing.T) {
	s, o, _, want := damagedRig(t)
	damaged := s.BlockDirs()[0]
	commit(t, s, 8, 3_000, 5, 1)
	flushAll(t, s)
	lost := filepath.Join(s.BlockDirs()[len(s.BlockDirs())-1], "meta.json")
	flipOnDisk(t, filepath.Join(damaged, "chunks", "000001"), 20) // of series 0
	meetDamage(t, s)
	fs := o.FS.(*stepFS)
	full := func(_, name string) error {
		if strings.Contains(name, "quarantine") {
			return syscall.ENOSPC
		}
		return nil
	}
	fs.step = full
	if err := s.Round(context.Background()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("round: %v", err)
	}
	closeStore(t, s)
	flipOnDisk(t, lost, 20)
	for n := range 3 {
		s = start(t, o)
		if n == 1 {
			deleteOf(t, s, 0, 20_000, "2")
			if err := s.Flush(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("flush: %v", err)
			}
		}
		want = slices.DeleteFunc(want, func(l string) bool { return l[0] == '0' || n > 0 && l[0] == '2' })
		got := slices.DeleteFunc(sorted(read(t, s)), func(l string) bool { return l[0] == '8' }) // which the log has
		if !slices.Equal(got, want) {
			t.Errorf("start %d: %d samples, want %d", n, len(got), len(want))
		}
		if n == 2 {
			fs.step = nil
			must(t, s.Round(context.Background()))
		}
		closeStore(t, s)
	}
	if aside, err := os.ReadDir(filepath.Join(o.Path, "quarantine")); err != nil || len(aside) != 2 {
		t.Errorf("in quarantine: %v, %v", aside, err)
	}
	if faults := faultsOf(t, o.Path); len(faults) > 0 {
		t.Errorf("check afterwards: %q", faults)
	}
}

// TestRescuedBesideTheLog: what the log brings back of a damaged block stands beside
// what was sound in it, of the same generation. A check finds nothing wrong with that.
func TestRescuedBesideTheLog(t *testing.T) {
	s, _, o := rig(t, store.Options{})
	for i := range 3 {
		commit(t, s, i, 12_000+int64(i), 10, float64(i))
	}
	flushAll(t, s)
	want := sorted(read(t, s))
	flipOnDisk(t, filepath.Join(s.BlockDirs()[0], "chunks", "000001"), 20)
	meetDamage(t, s)
	must(t, s.Round(context.Background()))
	closeStore(t, s)
	s = start(t, o)
	flushAll(t, s)
	if got := sorted(read(t, s)); !slices.Equal(got, want) || len(s.BlockDirs()) != 2 {
		t.Errorf("%d samples, want %d, in %d blocks", len(got), len(want), len(s.BlockDirs()))
	}
	closeStore(t, s)
	if faults := faultsOf(t, o.Path); len(faults) > 0 {
		t.Errorf("%q", faults)
	}
}

// TestRescuedAfterManyDeletes: of more deletes than are remembered a block has its
// tombstones; those that came before the damage was met cost it nothing.
func TestRescuedAfterManyDeletes(t *testing.T) {
	s, o, _, want := damagedRig(t)
	defer func() { closeStore(t, s) }()
	deleteOf(t, s, 0, 20_000, "1")
	for k := range 11 {
		deleteNone(t, s, k, 1000)
	}
	flipOnDisk(t, filepath.Join(s.BlockDirs()[0], "chunks", "000001"), 20) // of series 0
	meetDamage(t, s)
	deleteOf(t, s, 0, 20_000, "2")
	want = slices.DeleteFunc(want, func(l string) bool { return l[0] <= '2' })
	must(t, s.Round(context.Background()))
	for range 2 {
		if got := sorted(read(t, s)); !slices.Equal(got, want) {
			t.Errorf("%d samples, want %d: %q", len(got), len(want), got)
		}
		closeStore(t, s)
		s = start(t, o)
	}
}
