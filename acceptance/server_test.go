package acceptance

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rwsink/rwsink/internal/fixture"
)

const (
	startTimeout = 60 * time.Second // until ready
	stopTimeout  = 30 * time.Second // from SIGTERM to the end of the process
)

// server is one rwsink on one data directory; its process comes and goes.
type server struct {
	t      testing.TB
	dir    string   // --storage.path
	flags  []string // those of the next start
	port   int
	url    string
	client *http.Client
	out    string // file that holds what all its processes printed
	proc   *process
}

// process is one run of the program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// start starts rwsink on a new data directory and waits until it is ready. It is
// ended, and its log searched for what must never be there, when the test ends.
func start(t testing.TB, flags ...string) *server {
	t.Helper()
	return startIn(t, filepath.Join(t.TempDir(), "data"), flags...)
}

// startIn is start on a given data directory.
func startIn(t testing.TB, dir string, flags ...string) *server {
	t.Helper()
	s := newServer(t, dir, flags...)
	s.launch(t)
	s.waitReady(t)
	return s
}

// newServer returns a server without a process.
func newServer(t testing.TB, dir string, flags ...string) *server {
	t.Helper()
	s := &server{t: t, dir: dir, flags: flags, port: fixture.AcceptancePorts.Free(t), out: filepath.Join(t.TempDir(), "log")}
	s.url = fmt.Sprintf("http://127.0.0.1:%d", s.port)
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	s.client = &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	t.Cleanup(func() {
		if s.proc != nil {
			s.term(t)
		}
		transport.CloseIdleConnections()
		s.checkLog(t)
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.url, tail(s.log(t), 8000))
		}
	})
	return s
}

// launch starts the process and does not wait for anything.
func (s *server) launch(t testing.TB) {
	t.Helper()
	if s.proc != nil {
		t.Fatal("acceptance: the server runs already")
	}
	out, err := os.OpenFile(s.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	args := []string{"--storage.path=" + s.dir, fmt.Sprintf("--web.listen-address=127.0.0.1:%d", s.port), "--web.enable-admin-api"}
	cmd := exec.Command(program, append(args, s.flags...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() { p.err = cmd.Wait(); close(p.done) }()
	s.proc = p
}

// waitReady waits until /-/ready answers 200.
func (s *server) waitReady(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for last := "nothing"; ; {
		if status, body, err := s.get("/-/ready"); err != nil {
			last = err.Error()
		} else if last = fmt.Sprintf("%d %s", status, body); status == http.StatusOK {
			return
		}
		select {
		case <-s.proc.done:
			t.Fatalf("rwsink ended before it was ready: %v\n%s", s.proc.err, tail(s.log(t), 8000))
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("rwsink is not ready after %v; /-/ready last said: %s\n%s", startTimeout, last, tail(s.log(t), 8000))
		}
	}
}

// get fetches a path of the server.
func (s *server) get(path string) (status int, body string, err error) {
	resp, err := s.client.Get(s.url + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// pid is that of the running process.
func (s *server) pid() int { return s.proc.cmd.Process.Pid }

// kill9 kills the process and waits for its end.
func (s *server) kill9(t testing.TB) {
	t.Helper()
	if err := s.proc.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	s.ended(t)
}

// term asks the process to end and expects that it does so in time and with status 0.
func (s *server) term(t testing.TB) {
	t.Helper()
	s.signalTerm(t)
	if err := s.ended(t); err != nil {
		t.Errorf("rwsink after SIGTERM: %v", err)
	}
}

// signalTerm sends SIGTERM and does not wait.
func (s *server) signalTerm(t testing.TB) {
	t.Helper()
	if err := s.proc.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// ended waits for the end of the process and returns how it ended.
func (s *server) ended(t testing.TB) error {
	t.Helper()
	p := s.proc
	s.proc = nil
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopTimeout):
		// Its stacks go to the log, and the log is searched for stacks.
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-time.After(stopTimeout):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		return fmt.Errorf("it had not ended after %v", stopTimeout)
	}
}

// up starts the ended process again on the same directory and waits until it is ready.
func (s *server) up(t testing.TB) {
	t.Helper()
	s.launch(t)
	s.waitReady(t)
}

// restart ends the process with SIGTERM and starts it again.
func (s *server) restart(t testing.TB) {
	t.Helper()
	s.term(t)
	s.up(t)
}

// crash kills the process with SIGKILL and starts it again.
func (s *server) crash(t testing.TB) {
	t.Helper()
	s.kill9(t)
	s.up(t)
}

// flush puts everything into blocks.
func (s *server) flush(t testing.TB) {
	t.Helper()
	resp, err := s.client.Post(s.url+"/api/v1/admin/tsdb/flush", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= 300 {
		t.Fatalf("flush: %d %s, %v", resp.StatusCode, b, err)
	}
}

// log returns what all processes of the server have printed.
func (s *server) log(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(s.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// never are the words that no log may hold: panics, stacks, our own bugs, data races.
var never = regexp.MustCompile(`(?m)^panic: |panic serving|goroutine \d+ \[|runtime error|fatal error: |BUG:|DATA RACE`)

// checkLog fails the test if the log holds what it must never hold.
func (s *server) checkLog(t testing.TB) {
	t.Helper()
	log := s.log(t)
	if loc := never.FindStringIndex(log); loc != nil {
		t.Errorf("log of rwsink: %s", log[max(0, loc[0]-200):min(len(log), loc[1]+4000)])
	}
}

// tail returns the last n bytes of s.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
}
