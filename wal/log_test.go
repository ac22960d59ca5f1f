package wal_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

// open opens and replays a log; it returns what was replayed, "LSN class payload" each.
func open(t testing.TB, o wal.Options) (*wal.Log, wal.Recovery, []string) {
	t.Helper()
	l, err := wal.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	rec, err := l.Replay(nil, func(f wal.Frame) error {
		got = append(got, fmt.Sprintf("%d %d %s", f.LSN, f.Class, f.Payload))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, rec, got
}

// commit writes one group of frames and returns their LSNs.
func commit(t testing.TB, l *wal.Log, payloads ...string) []wal.LSN {
	t.Helper()
	if _, err := l.Begin(); err != nil {
		t.Fatal(err)
	}
	var out []wal.LSN
	for _, p := range payloads {
		lsn, err := l.Write(1, []byte(p))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, lsn)
	}
	if err := l.Commit(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDisk(t *testing.T) {
	for _, policy := range []wal.SyncPolicy{wal.SyncAlways, wal.SyncInterval, wal.SyncNever} {
		o := wal.Options{FS: vfs.OS{}, Dir: filepath.Join(t.TempDir(), "wal"), SegmentBytes: 200, Sync: policy}
		var want []string
		next := wal.LSN(1)
		for life := range 4 {
			l, rec, got := open(t, o)
			if fmt.Sprint(got) != fmt.Sprint(want) || len(rec.SetAside) != 0 || rec.TornTail != 0 || len(rec.Lost) != 0 {
				t.Fatalf("policy %d life %d: got %q %+v, want %q", policy, life, got, rec, want)
			}
			for i := range 10 {
				for j, lsn := range commit(t, l, fmt.Sprint("a", i), fmt.Sprint("b", i)) {
					if lsn != next {
						t.Fatalf("got LSN %d, want %d", lsn, next)
					}
					want = append(want, fmt.Sprintf("%d 1 %c%d", next, 'a'+j, i))
					next++
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Begin(); err != wal.ErrClosed {
				t.Fatalf("Begin after Close: %v", err)
			}
		}
		l, _, _ := open(t, o)
		segments := l.Segments()
		if len(segments) < 8 {
			t.Fatalf("got %d segments of at most 200 bytes", len(segments))
		}
		cut := segments[3].First
		if err := l.RemoveBefore(cut); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, rec, got := open(t, o)
		if fmt.Sprint(got) != fmt.Sprint(want[cut-1:]) || len(rec.Lost) != 0 {
			t.Fatalf("after RemoveBefore(%d): got %q %+v", cut, got, rec)
		}
		if err := l.RemoveBefore(next); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, _, _ = open(t, o)
		if lsn := commit(t, l, "x"); lsn[0] != next {
			t.Fatalf("LSN %d after all was removed, want %d", lsn[0], next)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnfinishedRepairStays: a start that cannot remove what a repair left goes on. The
// segment is removed after it only: by itself it would be taken for the segment.
func TestUnfinishedRepairStays(t *testing.T) {
	fs := memfs.New(1)
	o := wal.Options{FS: fs, Dir: "/wal", SegmentBytes: 200}
	l, _, _ := open(t, o)
	last := commit(t, l, "a")[0]
	for range 20 {
		last = commit(t, l, "b")[0]
	}
	err := l.Close()
	left := "/wal/00000001.repair"
	f, cerr := fs.Create(left)
	if err := errors.Join(err, cerr, f.Close()); err != nil {
		t.Fatal(err)
	}
	fs.Fail(memfs.OpRemove, 0, 2, syscall.EIO)
	l, _, got := open(t, o)
	if len(got) != int(last) {
		t.Errorf("%d frames, want %d", len(got), last)
	}
	if err := l.RemoveBefore(last); !errors.Is(err, syscall.EIO) || l.Segments()[0].First != 1 {
		t.Errorf("removed from %d on: %v", l.Segments()[0].First, err)
	}
	if err := errors.Join(l.RemoveBefore(last), l.Close()); err != nil || l.Segments()[0].First == 1 {
		t.Errorf("removed from %d on: %v", l.Segments()[0].First, err)
	}
	if names, err := fs.ReadDir("/wal"); err != nil || slices.Contains(names, filepath.Base(left)) {
		t.Errorf("%v, %v", names, err)
	}
}

// TestSegmentWithoutHeaderStays: a start that cannot remove a segment which was killed
// before it had a header goes on behind it, as often as that is.
func TestSegmentWithoutHeaderStays(t *testing.T) {
	fs := memfs.New(1)
	o := wal.Options{FS: fs, Dir: "/wal", SegmentBytes: 200}
	l, _, _ := open(t, o)
	commit(t, l, "a")
	err := l.Close()
	f, cerr := fs.Create("/wal/00000002")
	if err := errors.Join(err, cerr, f.Close()); err != nil {
		t.Fatal(err)
	}
	want := "[1 1 a"
	for life := range 3 {
		fs.Fail(memfs.OpRemove, 0, 10, syscall.EIO)
		l, rec, got := open(t, o)
		if fmt.Sprint(got) != want+"]" || len(rec.Lost) > 0 || len(rec.SetAside) > 0 {
			t.Errorf("life %d: got %q, %+v, want %s]", life, got, rec, want)
		}
		want += fmt.Sprintf(" %d 1 b", commit(t, l, "b")[0])
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	fs.Fail(memfs.OpRemove, 0, 0, nil)
	l, _, got := open(t, o)
	if names, err := fs.ReadDir("/wal"); err != nil || slices.Contains(names, "00000002") || fmt.Sprint(got) != want+"]" {
		t.Errorf("%v, %v, %q", names, err, got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
