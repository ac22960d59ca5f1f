package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
)

// harms are what can become of a file.
var harms = map[string]func(t *testing.T, name string){
	"missing":   func(t *testing.T, name string) { must(t, os.Remove(name)) },
	"empty":     func(t *testing.T, name string) { truncate(t, name, 0) },
	"truncated": func(t *testing.T, name string) { truncate(t, name, fileSize(t, name)/2) },
	"longer": func(t *testing.T, name string) {
		data, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(name, append(data, 0), 0o644))
	},
	"flipped": func(t *testing.T, name string) { flipOnDisk(t, name, fileSize(t, name)-1) },
	"a directory": func(t *testing.T, name string) {
		must(t, os.Remove(name))
		must(t, os.Mkdir(name, 0o755))
	},
}

func fileSize(t testing.TB, name string) int64 {
	t.Helper()
	st, err := os.Stat(name)
	must(t, err)
	return st.Size()
}

// TestHarmedFilesAtStart harms each file of one of two blocks in each way: the
// store starts, the other block and the head are read, and what is not known any
// more is set aside. Tombstones are made anew.
func TestHarmedFilesAtStart(t *testing.T) {
	for _, file := range []string{"rwsink.json", "meta.json", "index", "chunks/000001", "tombstones"} {
		for harm, do := range harms {
			if file == "tombstones" && harm == "a directory" {
				continue // which a file cannot take the place of
			}
			t.Run(file+" "+harm, func(t *testing.T) {
				s, _, o := rig(t, store.Options{Segment: 400})
				for i, at := range []int64{3_000, 12_000} {
					commit(t, s, i, at, 10, 1)
					flushAll(t, s)
				}
				deleteOf(t, s, 3_000, 3_400, "0")
				for k := range int64(20) { // so that the log does not reach back
					commit(t, s, 2, 19_000, 10, float64(k))
				}
				flushAll(t, s)
				must(t, s.CutLog(context.Background()))
				want := sorted(read(t, s))
				harmed := s.BlockDirs()[0]
				closeStore(t, s)
				do(t, filepath.Join(harmed, file))
				s = start(t, o)
				defer closeStore(t, s)
				if file != "tombstones" {
					v := s.View() // damage that a start does not look for is found by who reads
					_, err := readView(v, 0, 20_000)
					v.Close()
					if err != nil {
						must(t, s.Round(context.Background()))
					}
					want = slices.DeleteFunc(want, func(l string) bool { return strings.HasPrefix(l, "0 ") })
				}
				if got := sorted(read(t, s)); !slices.Equal(got, want) {
					t.Errorf("read %d samples, want %d: %v", len(got), len(want), got)
				}
				aside, err := os.ReadDir(filepath.Join(o.Path, "quarantine"))
				if set := err == nil && len(aside) == 1; set != (file != "tombstones") {
					t.Errorf("quarantine: %v, %v", aside, err)
				}
				if faults := faultsOf(t, o.Path); len(faults) > 0 {
					t.Errorf("check afterwards: %q", faults)
				}
			})
		}
	}
}

// TestADamagedVersionIsNoNewerOne flips each bit of the version in each small file: the
// store starts, and only what the file said is not known.
func TestADamagedVersionIsNoNewerOne(t *testing.T) {
	for _, file := range []string{"rwsink.json", "removed.json", "deletes.json"} {
		for bit := range 8 {
			s, _, o := rig(t, store.Options{Segment: 400})
			for i, at := range []int64{3_000, 12_000, 19_000} {
				commit(t, s, i, at, 10, 1)
				flushAll(t, s)
			}
			s.SetMaxSize(1)
			must(t, s.Retain())
			deleteOf(t, s, 19_000, 19_400, "2")
			path := filepath.Join(o.Path, "blocks", file)
			if file == "rwsink.json" {
				path = filepath.Join(s.BlockDirs()[0], file)
			}
			closeStore(t, s)
			data, err := os.ReadFile(path)
			must(t, err)
			at := bytes.Index(data, []byte(`"version":`)) + len(`"version":`)
			if data[at] == ' ' {
				at++
			}
			data[at] ^= 1 << bit
			must(t, os.WriteFile(path, data, 0o600))
			if s, err = store.Open(o); err != nil {
				t.Fatalf("%s with version %q: %v", file, data[at], err)
			}
			must(t, s.ReplayOnly(context.Background()))
			if n := samplesOf(t, s, 2); n != 5 {
				t.Errorf("%s with version %q: %d samples, want 5", file, data[at], n)
			}
			closeStore(t, s)
		}
	}
}

// faultsOf returns what check finds in a copy of a directory.
func faultsOf(t testing.TB, dir string) (faults []string) {
	t.Helper()
	to := filepath.Join(fixture.QuickDir(t), "copy")
	copyDir(t, dir, to)
	_, faults, _ = findings(t, to)
	return faults
}

// TestTombstonesThatNobodyRemembers: a block whose tombstones and the list of
// deletes are both damaged is set aside, or what was deleted would come back.
func TestTombstonesThatNobodyRemembers(t *testing.T) {
	s, _, o := rig(t, store.Options{Segment: 400})
	commit(t, s, 0, 3_000, 10, 1)
	must(t, s.Flush(context.Background()))
	deleteOf(t, s, 3_000, 3_400, "0")
	for k := range int64(20) {
		commit(t, s, 2, 19_000, 10, float64(k))
	}
	must(t, s.Flush(context.Background()))
	dir := s.BlockDirs()[0]
	closeStore(t, s)
	flipOnDisk(t, filepath.Join(dir, "tombstones"), 6)
	flipOnDisk(t, filepath.Join(o.Path, "blocks", "deletes.json"), 30)
	s = start(t, o)
	defer closeStore(t, s)
	if n := samplesOf(t, s, 0); n != 0 {
		t.Errorf("%d samples of a block of which nobody knows what is deleted", n)
	}
	if n := samplesOf(t, s, 2); n != 10 {
		t.Errorf("%d samples of the other block", n)
	}
}

// TestAClockAYearOff: a clock that is a year ahead or behind at start removes
// nothing, and costs nothing once it is right again.
func TestAClockAYearOff(t *testing.T) {
	now := int64(400 * 24 * 3600 * 1000)
	o := store.Options{Head: head.Options{Accept: head.Accept{
		Retention: 15 * 24 * time.Hour, MaxFuture: 10 * time.Minute, Now: func() time.Time { return time.UnixMilli(now) },
	}}}
	s, _, o := rig(t, o)
	const year = 365 * 24 * 3600 * 1000
	for k := range int64(3) {
		commit(t, s, 1, now-k*24*3600*1000-10_000, 10, 1)
		flushAll(t, s)
	}
	closeStore(t, s)
	o.Head.Accept.TrustClock = false
	right := now
	for _, off := range []int64{year, -year} {
		now = right + off
		s = start(t, o)
		must(t, s.Round(context.Background()))
		if n := samplesOf(t, s, 1); n != 30 {
			t.Errorf("off by %d: %d samples", off, n)
		}
		b := s.Head().NewBatch()
		b.Float(resolve(t, s.Head(), 2), right, 0, 1)
		res, err := s.Head().Commit(context.Background(), b)
		b.Release()
		switch {
		case off < 0 && (!errors.Is(err, head.ErrClockSuspect) || s.Notice() == ""):
			t.Errorf("behind: %+v, %v", res, err)
		case off > 0 && (err != nil || res.Samples != 0 || !res.Refused.Any()):
			t.Errorf("ahead: %+v, %v", res, err)
		}
		closeStore(t, s)
	}
	now = right
	s = start(t, o)
	defer closeStore(t, s)
	commit(t, s, 2, right, 1, 1)
	if n := samplesOf(t, s, 1) + samplesOf(t, s, 2); n != 31 {
		t.Errorf("right again: %d samples", n)
	}
}

// TestOlderSamplesInNewerBlocks: which block came later says nothing of the
// time of what is in it, but decides between equal timestamps.
func TestOlderSamplesInNewerBlocks(t *testing.T) {
	for _, blocks := range [][][]int64{{{4, 5, 7}, {1, 2, 3}, {6}}, {{1, 4, 7}, {2, 4, 6}, {3, 5}}} {
		s, _, o := rig(t, store.Options{})
		for k, times := range blocks {
			for _, at := range times {
				commit(t, s, 0, 12_000+at*100, 1, float64(k))
			}
			flushAll(t, s)
		}
		want := sorted(read(t, s))
		must(t, s.Flush(context.Background()))
		if got := sorted(read(t, s)); !slices.Equal(got, want) || len(got) != 7 || len(s.BlockDirs()) != 1 {
			t.Errorf("%v in %d blocks:\n got %v\nwant %v", blocks, len(s.BlockDirs()), got, want)
		}
		if len(blocks[1]) == 3 && blocks[1][1] == 4 && !slices.Contains(want, "0 12400 3ff0000000000000") {
			t.Errorf("the sample of the later block is not there: %v", want)
		}
		closeStore(t, s)
		if faults := faultsOf(t, o.Path); len(faults) > 0 {
			t.Error(faults)
		}
	}
}

// TestReadOnlyFileSystem: where nothing can be written the store says so, removes and
// changes nothing, check reads it, and with the right to write all is there.
func TestReadOnlyFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	defer func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }()
	o := store.Options{Path: filepath.Join(dir, "data"), Head: head.Options{Accept: head.Accept{
		Window: -1, TrustClock: true, Now: func() time.Time { return time.UnixMilli(20_000) }}}}
	s := start(t, o)
	commit(t, s, 1, 3_000, 10, 1)
	must(t, s.Flush(context.Background()))
	commit(t, s, 1, 12_000, 10, 1)
	closeStore(t, s)
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if _, err := store.Open(o); !errors.Is(err, syscall.EROFS) {
		t.Errorf("open: %v", err)
	}
	checked, err := store.Check(context.Background(), o.Path, store.CheckOptions{Fault: func(err error) { t.Error(err) }, Note: func(string) {}})
	if err != nil || checked.Samples+uint64(checked.Log.Samples) < 20 {
		t.Errorf("check: %v, %v", checked, err)
	}
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=8m"))
	s = start(t, o)
	defer closeStore(t, s)
	if n := samplesOf(t, s, 1); n != 20 {
		t.Errorf("%d samples", n)
	}
}
