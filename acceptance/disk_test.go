package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// fullDisk is a way to let the program's writes fail and to heal it again.
type fullDisk struct {
	fill func(t testing.TB, s *server)
	free func(t testing.TB, s *server)
	// Of a file system: whether anything may be written. No file of it is open for writing then.
	readOnly, readWrite func()
}

// tmpfs mounts a small file system for the data directory; ok is false where that is
// not allowed.
func tmpfs(t *testing.T) (dir string, disk fullDisk, ok bool) {
	t.Helper()
	mount := filepath.Join(t.TempDir(), "mount")
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=64m"); err != nil {
		t.Logf("no file system can be mounted here (%v): the limit of file sizes alone stands in for a full disk", err)
		return "", fullDisk{}, false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(mount, "ballast")
	remount := func(flags uintptr) {
		if err := syscall.Mount("", mount, "", syscall.MS_REMOUNT|flags, "size=64m"); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(mount, "data"), fullDisk{
		fill: func(t testing.TB, _ *server) {
			f, err := os.Create(ballast)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			block := make([]byte, 64<<10)
			for range 1 << 12 {
				if _, err := f.Write(block); err != nil {
					return // full
				}
			}
			t.Fatal("the file system never was full")
		},
		free: func(t testing.TB, _ *server) {
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		},
		readOnly:  func() { remount(syscall.MS_RDONLY) },
		readWrite: func() { remount(0) },
	}, true
}

// fileSizeLimit lets every write of the running program fail while its limit of file
// sizes is 0.
func fileSizeLimit() fullDisk {
	const rlimitFsize = 1
	set := func(t testing.TB, s *server, soft uint64) {
		limit := syscall.Rlimit{Cur: soft, Max: ^uint64(0)}
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(s.pid()), rlimitFsize, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
	}
	return fullDisk{
		fill: func(t testing.TB, s *server) { set(t, s, 0) },
		free: func(t testing.TB, s *server) { set(t, s, ^uint64(0)) },
	}
}

// bulk returns entries that take about 60 KiB in the log.
func bulk(n int64, i int) (out []entry) {
	for k := range 100 {
		e := series("bulk", "k", fmt.Sprint(k))
		for j := range int64(30) {
			e = e.at(n+int64(i)*second*40+j*second, float64(i)+float64(k)/7)
		}
		out = append(out, e)
	}
	return out
}

// A full disk refuses writes with 503 and loses nothing that was acknowledged; reads
// go on; when there is room again writes do too, without a restart.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("limit of file sizes", func(t *testing.T) {
		t.Parallel()
		testFullDisk(t, start(t), fileSizeLimit())
	})
	t.Run("small file system", func(t *testing.T) {
		t.Parallel()
		if dir, disk, ok := tmpfs(t); ok {
			s := startIn(t, dir)
			m := testFullDisk(t, s, disk)
			startOnFullDisk(t, s, disk, m)
			startReadOnly(t, s, disk, m)
		}
	})
}

func testFullDisk(t *testing.T, s *server, disk fullDisk) *model {
	t.Helper()
	m := newModel()
	n := nowMs() - day
	i := 0
	post := func() int {
		i++
		es := bulk(n, i)
		if i%3 == 0 { // late ones too
			es = append(es, series("late").at(n-int64(i)*second, float64(i)).hist(n-int64(i)*second+1, intHistogram(i)))
		}
		a := s.post(t, version(1+i%2), es...)
		switch a.status {
		case http.StatusNoContent:
			m.write(es...)
		case http.StatusServiceUnavailable:
		default:
			t.Errorf("%v", a)
		}
		return a.status
	}
	for round := range 2 {
		for range 5 {
			if post() != http.StatusNoContent {
				t.Fatal("refused with room on the disk")
			}
		}
		disk.fill(t, s)
		for tries := 0; post() != http.StatusServiceUnavailable; tries++ {
			if tries > 1000 {
				t.Fatal("a full disk was never noticed")
			}
		}
		for range 10 {
			post()
		}
		s.adminOnFullDisk(t, m)
		s.holds(t, m, fmt.Sprintf("round %d, while the disk is full", round))
		if status, body, err := s.get("/-/healthy"); err != nil || status != http.StatusOK {
			t.Errorf("healthy: %d %q, %v", status, body, err)
		}
		if status, body, err := s.get("/-/ready"); err != nil || status != http.StatusOK || !strings.Contains(body, "\nnothing is stored") {
			t.Errorf("ready while the disk is full: %d %q, %v", status, body, err)
		}
		disk.free(t, s)
		deadline := time.Now().Add(20 * time.Second)
		for post() != http.StatusNoContent {
			if time.Now().After(deadline) {
				t.Fatal("no write is taken though there is room again")
			}
			time.Sleep(50 * time.Millisecond)
		}
		for range 5 {
			if post() != http.StatusNoContent {
				t.Error("refused again with room on the disk")
			}
		}
		if _, body, err := s.get("/-/ready"); err != nil || strings.Contains(body, "nothing is stored") {
			t.Errorf("ready when there was room again: %q, %v", body, err)
		}
		s.holds(t, m, fmt.Sprintf("round %d, when there was room again", round))
		if round == 0 {
			s.crash(t)
			s.holds(t, m, "after SIGKILL and a start")
		}
	}
	s.readBack(t, m)
	return m
}

// adminOnFullDisk deletes, flushes and makes a snapshot while there is no room: what is
// not done is said, and nothing is lost by it.
func (s *server) adminOnFullDisk(t *testing.T, m *model) {
	t.Helper()
	params := url.Values{"match[]": {`{__name__="late"}`}}
	switch status, body := s.admin(t, "POST", "delete_series", params); status {
	case http.StatusNoContent: // a small frame found room
		m.delete(-1<<62, 1<<62, "late")
	case http.StatusServiceUnavailable:
	default:
		t.Errorf("delete_series: %d %q", status, body)
	}
	for _, name := range []string{"flush", "clean_tombstones", "snapshot"} {
		if status, body := s.admin(t, "POST", name, nil); status >= 300 && status != http.StatusInternalServerError && status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %q", name, status, body)
		}
	}
}

// startReadOnly starts on a file system that nothing can be written to: the program
// ends and says why, check reads it all the same, and later nothing is missing.
func startReadOnly(t *testing.T, s *server, disk fullDisk, m *model) {
	t.Helper()
	s.term(t)
	disk.readOnly()
	s.launch(t)
	if err := s.ended(t); err == nil {
		t.Error("it ended with status 0 on a read-only file system")
	}
	if log := s.log(t); !strings.Contains(log, "read-only file system") {
		t.Errorf("it does not say why: %s", tail(log, 1000))
	}
	if out, err := exec.Command(program, "check", s.dir).CombinedOutput(); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	disk.readWrite()
	s.up(t)
	s.holds(t, m, "writable again")
}

// startOnFullDisk kills the program while the disk is full and starts it again: what
// was acknowledged is readable, and with room writes are taken.
func startOnFullDisk(t *testing.T, s *server, disk fullDisk, m *model) {
	t.Helper()
	write(t, filepath.Join(s.dir, "wal", "99999999.tmp"), make([]byte, 100_000))
	disk.fill(t, s)
	s.post(t, v1, bulk(nowMs()-hour, 0)...).is(t, http.StatusServiceUnavailable)
	s.kill9(t)
	s.launch(t)
	want := m.all()
	deadline := time.Now().Add(30 * time.Second)
	for {
		got, err := s.tryRead(streamedMode, query(-1<<62, 1<<62, everything))
		if err == nil && diff(got[0], want) == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a start on a full disk nothing is readable: %v\n%s", err, tail(s.log(t), 4000))
		}
		if !s.running() {
			t.Fatalf("it does not start on a full disk: %v\n%s", s.proc.err, tail(s.log(t), 4000))
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.post(t, v2, bulk(nowMs()-hour, 0)...).is(t, http.StatusServiceUnavailable)
	disk.free(t, s)
	s.waitReady(t)
	deadline = time.Now().Add(20 * time.Second)
	for {
		es := bulk(nowMs()-hour, 0)
		if a := s.post(t, v1, es...); a.status == http.StatusNoContent {
			m.write(es...)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no write is taken though there is room again")
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.readBack(t, m)
}

// running says whether the process runs.
func (s *server) running() bool {
	select {
	case <-s.proc.done:
		return false
	default:
		return true
	}
}
