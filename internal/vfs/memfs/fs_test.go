package memfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, m vfs.FS, name, data string) vfs.File {
	t.Helper()
	f, err := m.Create(name)
	must(t, err)
	_, err = f.Write([]byte(data))
	must(t, err)
	return f
}

func read(m *memfs.FS, name string) string {
	b, err := m.ReadFile(name)
	if err != nil {
		return "none"
	}
	return string(b)
}

// crashes returns what a file may hold after a crash, over many seeds.
func crashes(t testing.TB, name string, prepare func(m *memfs.FS)) map[string]int {
	t.Helper()
	out := map[string]int{}
	for seed := range uint64(2000) {
		m := memfs.New(seed)
		prepare(m)
		m.Crash()
		out[read(m, name)]++
	}
	return out
}

func TestNothingSyncedNothingPromised(t *testing.T) {
	got := crashes(t, "a", func(m *memfs.FS) { create(t, m, "a", "12") })
	for _, want := range []string{"none", "", "1", "12", "\x00\x00", "\x002"} {
		if got[want] == 0 {
			t.Errorf("%q never came of an unsynced write: %v", want, got)
		}
	}
}

func TestSynced(t *testing.T) {
	got := crashes(t, "a", func(m *memfs.FS) {
		f := create(t, m, "a", "12")
		must(t, f.Sync())
		must(t, m.SyncDir("."))
		_, err := f.Write([]byte("3"))
		must(t, err)
	})
	if len(got) != 3 || got["12"] == 0 || got["123"] == 0 || got["12\x00"] == 0 {
		t.Errorf("got %v", got)
	}
}

func TestNamesNeedSyncDir(t *testing.T) {
	made := func(m *memfs.FS) {
		must(t, m.MkdirAll("/d"))
		must(t, m.SyncDir("/"))
		must(t, create(t, m, "/d/old", "x").Sync())
		must(t, m.SyncDir("/d"))
	}
	for name, change := range map[string]func(m *memfs.FS){
		"rename": func(m *memfs.FS) { must(t, m.Rename("/d/old", "/d/new")) },
		"remove": func(m *memfs.FS) { must(t, m.Remove("/d/old")) },
	} {
		got := crashes(t, "/d/old", func(m *memfs.FS) { made(m); change(m) })
		if len(got) != 2 || got["x"] == 0 || got["none"] == 0 {
			t.Errorf("%s without SyncDir: got %v", name, got)
		}
		got = crashes(t, "/d/old", func(m *memfs.FS) { made(m); change(m); must(t, m.SyncDir("/d")) })
		if len(got) != 1 || got["none"] == 0 {
			t.Errorf("%s with SyncDir: got %v", name, got)
		}
	}
	// Whatever survives of a rename over another file, one of the two is there.
	got := crashes(t, "/d/new", func(m *memfs.FS) {
		made(m)
		must(t, create(t, m, "/d/new", "y").Sync())
		must(t, m.SyncDir("/d"))
		must(t, m.Rename("/d/old", "/d/new"))
	})
	if len(got) != 2 || got["x"] == 0 || got["y"] == 0 {
		t.Errorf("rename over a file: got %v", got)
	}
}

func TestDirectoryRename(t *testing.T) {
	got := crashes(t, "/b/f", func(m *memfs.FS) {
		must(t, m.MkdirAll("/a"))
		must(t, create(t, m, "/a/f", "x").Sync())
		must(t, m.SyncDir("/a"))
		must(t, m.Rename("/a", "/b"))
		must(t, m.SyncDir("/"))
	})
	if len(got) != 1 || got["x"] == 0 {
		t.Errorf("got %v", got)
	}
}

func TestKillLosesNothing(t *testing.T) {
	m := memfs.New(1)
	f := create(t, m, "a", "12")
	m.Kill()
	if got := read(m, "a"); got != "12" {
		t.Errorf("got %q", got)
	}
	if _, err := f.Write([]byte("3")); !errors.Is(err, memfs.ErrStale) {
		t.Errorf("a killed process wrote: %v", err)
	}
}

func TestFailedSyncIsNotMadeGood(t *testing.T) {
	got := crashes(t, "a", func(m *memfs.FS) {
		f := create(t, m, "a", "12")
		must(t, m.SyncDir("."))
		m.Fail(memfs.OpSync, 0, 1, syscall.EIO)
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("got %v", err)
		}
		if read(m, "a") != "12" {
			t.Fatal("the cache lost it too")
		}
		must(t, f.Sync())
	})
	if got["12"] == 0 || got[""] == 0 {
		t.Errorf("got %v", got)
	}
}

func TestEveryOperationFails(t *testing.T) {
	boom := errors.New("boom")
	for op := range memfs.NumOps {
		for k := range 2 {
			m := memfs.New(uint64(k))
			must(t, m.WriteFile("a", []byte("x")))
			m.Fail(op, k, 1, boom)
			failed := 0
			for i := range 3 {
				if err := everything(m, i); errors.Is(err, boom) {
					if failed++; i != k {
						t.Errorf("%v failed in round %d, want %d", op, i, k)
					}
				} else if err != nil && failed == 0 {
					t.Errorf("%v: %v", op, err)
				}
			}
			if failed != 1 {
				t.Errorf("%v failed %d times, want once", op, failed)
			}
		}
	}
}

// everything makes each operation once, up to the first that fails.
func everything(m vfs.FS, round int) error {
	dir := fmt.Sprint("d", round)
	if err := m.MkdirAll(dir); err != nil {
		return err
	}
	f, err := m.Create(dir + "/f")
	if err != nil {
		return err
	}
	g, err := m.Open("a")
	if err != nil {
		return err
	}
	_, werr := f.Write([]byte("x"))
	_, rerr := g.ReadAt(make([]byte, 1), 0)
	_, serr := g.Size()
	_, derr := m.ReadDir(dir)
	return errors.Join(werr, rerr, serr, derr, f.Truncate(0), f.Sync(), f.Close(), m.SyncDir(dir),
		m.Rename(dir+"/f", dir+"/g"), m.Remove(dir+"/g"))
}

func TestCutAfter(t *testing.T) {
	m := memfs.New(1)
	must(t, m.WriteFile("a", []byte("x")))
	m.CutAfter(2)
	must(t, m.SyncDir("."))
	must(t, m.SyncDir("."))
	for range 3 {
		if err := m.SyncDir("."); !errors.Is(err, memfs.ErrPowerCut) {
			t.Fatalf("got %v", err)
		}
	}
	m.Crash()
	must(t, m.SyncDir("."))
}

func TestCapacity(t *testing.T) {
	m := memfs.New(1)
	f := create(t, m, "a", "12")
	m.SetCapacity(5)
	if n, err := f.Write([]byte("3456")); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %d, %v", n, err)
	}
	must(t, f.Truncate(0))
	_, err := f.Write([]byte("3456"))
	must(t, err)
}

// TestLikeOS runs the same calls on memfs and on the disk: the same answers.
func TestLikeOS(t *testing.T) {
	root := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		systems := []vfs.FS{memfs.New(1), vfs.OS{}}
		bases := []string{"/r", filepath.Join(root, fmt.Sprint(run))}
		for i, s := range systems {
			if err := s.MkdirAll(bases[i]); err != nil {
				t.Fatal(err)
			}
		}
		files := make([]map[string]vfs.File, 2)
		for i := range files {
			files[i] = map[string]vfs.File{}
		}
		defer func() {
			for _, f := range files[1] {
				f.Close()
			}
		}()
		name := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "e/a"})
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			call := rapid.SampledFrom([]string{"mkdir", "create", "open", "list", "rename", "remove", "write", "read", "truncate"}).Draw(t, "call")
			a, b := name.Draw(t, "a"), name.Draw(t, "b")
			n := rapid.IntRange(0, 9).Draw(t, "n")
			var got [2]string
			for i, s := range systems {
				got[i] = strings.ReplaceAll(do(s, bases[i], files[i], call, a, b, n), bases[i], "")
			}
			if got[0] != got[1] {
				t.Fatalf("%s %s %s %d: memfs %s, the disk %s", call, a, b, n, got[0], got[1])
			}
		}
	})
}

func do(s vfs.FS, base string, open map[string]vfs.File, call, a, b string, n int) string {
	var out any
	var err error
	f, path := open[a], filepath.Join(base, a)
	if f == nil && strings.Contains("write read truncate", call) {
		return "not open"
	}
	switch call {
	case "mkdir":
		err = s.MkdirAll(path)
	case "create", "open":
		if f != nil {
			f.Close()
			delete(open, a)
		}
		if call == "create" {
			f, err = s.Create(path)
		} else {
			f, err = s.Open(path)
		}
		if err == nil {
			open[a] = f
		}
	case "list":
		out, err = s.ReadDir(path)
	case "rename":
		err = s.Rename(path, filepath.Join(base, b))
	case "remove":
		err = s.Remove(path)
	case "write":
		out, err = f.Write([]byte("0123456789")[:n])
	case "read":
		buf := make([]byte, n+1)
		var got int
		got, err = f.ReadAt(buf, int64(n))
		size, _ := f.Size()
		out = fmt.Sprintf("%q %d", buf[:got], size)
	case "truncate":
		err = f.Truncate(int64(n))
	}
	kind := "error"
	switch {
	case err == nil:
		kind = "ok"
	case errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY):
		kind = "exists"
	case errors.Is(err, fs.ErrNotExist):
		kind = "none"
	}
	if err != nil && call == "list" {
		out = nil
	}
	return fmt.Sprint(kind, " ", out)
}
