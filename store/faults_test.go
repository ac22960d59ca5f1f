package store_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store"
)

// rig is a store on a stepFS whose clock stands.
func rig(t *testing.T, o store.Options) (*store.Store, *stepFS, store.Options) {
	t.Helper()
	dir := fixture.QuickDir(t)
	f := &stepFS{graves: filepath.Join(dir, "graves")}
	if err := os.Mkdir(f.graves, 0o755); err != nil {
		t.Fatal(err)
	}
	o.Path, o.FS = filepath.Join(dir, "data"), f
	o.Head.BlockDuration, o.Head.ChunkSamples, o.Head.Exemplars = time.Second, 8, 10
	o.Head.Accept.Window, o.Head.Accept.TrustClock = -1, true
	if o.Head.Accept.Now == nil {
		o.Head.Accept.Now = func() time.Time { return time.UnixMilli(20_000) }
	}
	return start(t, o), f, o
}

// start opens a store that does only what the test asks for.
func start(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ReplayOnly(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

// leftovers returns what stands beside the open blocks.
func leftovers(t testing.TB, s *store.Store, dir string) (left []string) {
	t.Helper()
	names, err := os.ReadDir(filepath.Join(dir, "blocks"))
	if err != nil {
		t.Fatal(err)
	}
	open := s.BlockDirs()
	for _, n := range names {
		if n.Name() != "removed.json" && n.Name() != "deletes.json" && !slices.Contains(open, filepath.Join(dir, "blocks", n.Name())) {
			left = append(left, n.Name())
		}
	}
	return left
}

// TestFailuresHeal lets an operation on the directory of blocks fail, once or
// from then on, at each step of a flush with a merge: reads and writes go on,
// and when the disk is well again the next flush does all, and leaves nothing.
func TestFailuresHeal(t *testing.T) {
	for every, lasting := range map[int]bool{1: false, 3: true} {
		if testing.Short() {
			every *= 5
		}
		done := false
		for k := 0; !done && k < 100; k += every {
			done = failAt(t, k, lasting)
		}
		if !done {
			t.Fatal("no flush ever succeeded")
		}
	}
}

// failAt says whether the flush took fewer than k steps.
func failAt(t *testing.T, k int, lasting bool) bool {
	s, f, o := rig(t, store.Options{Segment: 600})
	ctx := context.Background()
	commit(t, s, 0, 12_000, 10, 1)
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	commit(t, s, 0, 12_500, 3, 2)
	commit(t, s, 1, 3_000, 10, 2)
	want := sorted(read(t, s))
	n := 0
	f.step = func(_, name string) error {
		if !strings.Contains(name, "/blocks") {
			return nil
		}
		if n++; n == k+1 || lasting && n > k {
			return syscall.ENOSPC
		}
		return nil
	}
	err := s.Flush(ctx)
	if n <= k {
		if err != nil {
			t.Fatalf("no step failed, but: %v", err)
		}
		closeStore(t, s)
		return true
	}
	if err == nil || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("step %d failed, but flush says: %v", k, err)
	}
	check := func(at string) {
		t.Helper()
		if got := sorted(read(t, s)); !slices.Equal(got, want) {
			t.Fatalf("step %d, lasting %v, %s:\n got %v\nwant %v", k, lasting, at, got, want)
		}
	}
	check("after the failure")
	commit(t, s, 1, 19_000, 1, 3)
	want = sorted(read(t, s))
	f.step = nil
	if err := s.Flush(ctx); err != nil {
		t.Fatalf("step %d: the disk is well, but: %v", k, err)
	}
	check("flushed")
	closeStore(t, s)
	s = start(t, o)
	defer closeStore(t, s)
	check("opened again")
	if left := leftovers(t, s, o.Path); len(left) > 0 {
		t.Fatalf("step %d: left: %v", k, left)
	}
	return false
}

// TestFullDiskWhileABlockIsWritten lets the writes to each file of a block meet
// a device that is always full.
func TestFullDiskWhileABlockIsWritten(t *testing.T) {
	for _, file := range []string{"chunks", "chunks/000001", "index", "meta.json", "rwsink.json"} {
		s, f, o := rig(t, store.Options{})
		commit(t, s, 0, 12_000, 10, 1)
		want := read(t, s)
		f.step = func(op, name string) error {
			if op != "mkdir" || !strings.HasSuffix(name, ".tmp") {
				return nil
			}
			file := filepath.Join(name, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			return os.Symlink("/dev/full", file)
		}
		if err := s.Flush(context.Background()); err == nil || file != "chunks" && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: flush says %v", file, err)
		}
		if left := leftovers(t, s, o.Path); len(left) > 0 {
			t.Errorf("%s: left %v", file, left)
		}
		commit(t, s, 1, 12_000, 1, 1)
		f.step = nil
		if err := s.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := read(t, s); len(got) != len(want)+1 {
			t.Errorf("%s: %d samples, want %d", file, len(got), len(want)+1)
		}
		closeStore(t, s)
	}
}

// TestFullFileSystem fills a small file system where one can be mounted.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Logf("no file system can be mounted here (%v): TestFullDiskWhileABlockIsWritten stands in", err)
		return
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	o := store.Options{Path: filepath.Join(dir, "data"), Segment: 1 << 14, Head: head.Options{
		Accept: head.Accept{Window: -1, TrustClock: true, Now: func() time.Time { return time.UnixMilli(20_000) }}}}
	s := start(t, o)
	commit(t, s, 0, 100, 190, 1)
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(context.Background()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("flush to a full disk: %v", err)
	}
	if left := leftovers(t, s, o.Path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if got := read(t, s); len(got) != 190 {
		t.Fatalf("%d samples, want 190", len(got))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s); len(got) != 190 || len(s.BlockDirs()) != 1 {
		t.Fatalf("%d samples in %d blocks, want 190 in 1", len(got), len(s.BlockDirs()))
	}
	closeStore(t, s)
}

// TestRetentionMakesRoomWhileFlushesFail: what retention removes is what a full disk needs.
func TestRetentionMakesRoomWhileFlushesFail(t *testing.T) {
	s, f, o := rig(t, store.Options{MaxSize: 1, Segment: 600})
	defer closeStore(t, s)
	for _, at := range []int64{3_000, 5_000} {
		commit(t, s, 0, at, 10, 1)
		flushAll(t, s)
	}
	for k := range int64(20) { // enough of a log to press
		commit(t, s, 0, 12_000, 10, float64(k))
	}
	f.step = func(op, name string) error {
		if op == "mkdir" && strings.HasSuffix(name, ".tmp") {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := s.Round(context.Background()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("round: %v", err)
	}
	if n := len(s.BlockDirs()); n != 1 {
		t.Errorf("%d blocks kept, want 1", n)
	}
	if left := leftovers(t, s, o.Path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestDamageCostsOneBlock damages one of two blocks, in each of its files: the
// other stays readable, and the damaged one is set aside by the next round or
// the next start. Nothing is left of it in the log.
func TestDamageCostsOneBlock(t *testing.T) {
	kinds := map[string]func(t *testing.T, dir string){
		"bit of a chunk": func(t *testing.T, dir string) { flipOnDisk(t, filepath.Join(dir, "chunks", "000001"), 20) },
		"bits of the index": func(t *testing.T, dir string) {
			for at := int64(48); at < 96; at++ { // series entries among them
				flipOnDisk(t, filepath.Join(dir, "index"), at)
			}
		},
		"shorter chunks": func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, "chunks", "000001"), 0) },
		"shorter index":  func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, "index"), 0) },
	}
	for kind, damage := range kinds {
		t.Run(kind, func(t *testing.T) {
			s, _, o := rig(t, store.Options{Segment: 600})
			for i, at := range []int64{-1_000, 12_000} {
				for k := range int64(15) {
					commit(t, s, i, at, 10, float64(k))
				}
				if err := s.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			damage(t, s.BlockDirs()[0])
			v := s.View()
			_, err := readView(v, -1_000, -1)
			v.Close()
			var corrupt *vfs.CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "/blocks/") {
				t.Fatalf("read of damage: %v", err)
			}
			v = s.View()
			if got, err := readView(v, 12_000, 12_999); err != nil || len(got) != 10 {
				t.Fatalf("the other block: %d samples, %v", len(got), err)
			}
			v.Close()
			if err := s.Round(context.Background()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := read(t, s); len(got) != 10 || len(s.BlockDirs()) != 1 {
					t.Fatalf("%d samples in %d blocks, want 10 in 1", len(got), len(s.BlockDirs()))
				}
				closeStore(t, s)
				s = start(t, o)
			}
			closeStore(t, s)
			aside, err := os.ReadDir(filepath.Join(o.Path, "quarantine"))
			if err != nil || len(aside) != 1 {
				t.Fatalf("quarantine: %v, %v", aside, err)
			}
		})
	}
}

func truncate(t testing.TB, name string, size int64) {
	t.Helper()
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
}

// TestDamageEndsAMergeOnce: a merge that meets damage fails, the round after it
// sets the block aside, and the one after that merges the others.
func TestDamageEndsAMergeOnce(t *testing.T) {
	s, _, _ := rig(t, store.Options{Segment: 600})
	defer closeStore(t, s)
	ctx := context.Background()
	for i := range 3 {
		commit(t, s, i, 3_000, 10, 1)
		flushAll(t, s)
	}
	truncate(t, filepath.Join(s.BlockDirs()[1], "chunks", "000001"), 0)
	if err := s.Flush(ctx); err == nil {
		t.Fatal("a merge of a damaged block succeeded")
	}
	if err := s.Round(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(s.BlockDirs()); n != 1 {
		t.Errorf("%d blocks", n)
	}
	if got := read(t, s); len(got) != 20 {
		t.Errorf("%d samples, want 20", len(got))
	}
}

// TestCloseEndsAFlush closes the store while a flush writes a block: both
// return soon, nothing unfinished is left, and nothing is lost.
func TestCloseEndsAFlush(t *testing.T) {
	for _, at := range []string{"mkdir", "sync", "rename"} {
		s, f, o := rig(t, store.Options{})
		commit(t, s, 0, 3_000, 10, 1)
		want := read(t, s)
		closed := make(chan error, 1)
		once := false
		f.step = func(op, name string) error {
			if op == at && !once && strings.Contains(name, "/blocks/") {
				once = true
				go func() { closed <- s.Close() }()
				<-s.Closing()
			}
			return nil
		}
		err := s.Flush(context.Background())
		if at == "mkdir" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: flush says %v", at, err)
		}
		if err := <-closed; err != nil {
			t.Errorf("%s: close: %v", at, err)
		}
		f.step = nil
		names, err := filepath.Glob(filepath.Join(o.Path, "blocks", "*.tmp"))
		if err != nil || len(names) > 0 {
			t.Errorf("%s: left %v, %v", at, names, err)
		}
		if err := s.Flush(context.Background()); err == nil {
			t.Errorf("%s: a closed store flushes", at)
		}
		s = start(t, o)
		if got := read(t, s); !slices.Equal(got, want) {
			t.Errorf("%s: %d samples, want %d", at, len(got), len(want))
		}
		closeStore(t, s)
	}
}

// TestStrangersInTheDirectory: names that are not ours are left alone, a block
// without its parts is set aside, one of a newer version is refused untouched.
func TestStrangersInTheDirectory(t *testing.T) {
	s, _, o := rig(t, store.Options{})
	commit(t, s, 0, 3_000, 10, 1)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	mine := s.BlockDirs()[0]
	closeStore(t, s)
	blocks := filepath.Join(o.Path, "blocks")
	for _, name := range []string{"lost+found", "notes.d", "01HZZZZZZZZZZZZZZZZZZZZZZZ", "01HZZZZZZZZZZZZZZZZZZZZZZY.tmp"} {
		if err := os.MkdirAll(filepath.Join(blocks, name, "chunks"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s = start(t, o)
	if got := read(t, s); len(got) != 10 {
		t.Errorf("%d samples", len(got))
	}
	if left := leftovers(t, s, o.Path); !slices.Equal(left, []string{"lost+found", "notes.d"}) {
		t.Errorf("beside the block stand %v", left)
	}
	closeStore(t, s)
	info := filepath.Join(mine, "rwsink.json")
	must(t, os.WriteFile(info, []byte(newer(t, "rwsink-block", 3)), 0o644))
	if s, err := store.Open(o); err == nil || !strings.Contains(err.Error(), "newer rwsink") {
		t.Errorf("a newer block: %v, %v", s, err)
	}
	if _, err := os.Stat(info); err != nil {
		t.Error(err)
	}
}

// TestWantOfDescriptorsIsNoDamage: where files cannot be opened for want of
// descriptors the store does not open, and sets nothing aside.
func TestWantOfDescriptorsIsNoDamage(t *testing.T) {
	s, _, o := rig(t, store.Options{})
	commit(t, s, 0, 3_000, 10, 1)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("no /proc: the number of open files is not known")
		return
	}
	low := limit
	for extra := range 12 { // each opening fails one file later
		low.Cur = uint64(len(names) + extra)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		got, err := store.Open(o)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			closeStore(t, got)
		} else if !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%d more files: %v", extra, err)
		}
	}
	s = start(t, o)
	defer closeStore(t, s)
	if got := read(t, s); len(got) != 10 || len(s.BlockDirs()) != 1 {
		t.Errorf("%d samples in %d blocks", len(got), len(s.BlockDirs()))
	}
}
