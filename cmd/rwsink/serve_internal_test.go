package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rwsink/rwsink/internal/fixture"
)

// The test binary is rwsink when this is set: signals and exit codes belong to a process.
const beRwsink = "RWSINK_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beRwsink) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program is a running rwsink.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	mu   sync.Mutex
	log  bytes.Buffer
	done chan error
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, addr: fmt.Sprintf("127.0.0.1:%d", fixture.CommandPorts.Free(t)), done: make(chan error, 1)}
	p.cmd = exec.Command(os.Args[0], append(args, "--web.listen-address="+p.addr)...)
	p.cmd.Env = append(os.Environ(), beRwsink+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

func (p *program) waitReady() {
	p.t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = probe(io.Discard, "http://"+p.addr+"/-/ready"); err == nil {
			return
		}
	}
	p.t.Fatalf("not ready: %v\n%s", err, p.text())
}

// waitEnd returns the exit code, -1 after a signal.
func (p *program) waitEnd() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		p.t.Fatalf("does not end\n%s", p.text())
		return 0
	}
}

// TestLongProfiles: a profile goes on for longer than a request may take to be read, but
// not one whose body is still to come.
func TestLongProfiles(t *testing.T) {
	mux := http.NewServeMux()
	routes{profiles: true}.debug(mux)
	server := httptest.NewUnstartedServer(mux)
	server.Config.ReadTimeout = 500 * time.Millisecond
	server.Start()
	defer server.Close()
	began := time.Now()
	resp, err := server.Client().Get(server.URL + "/debug/pprof/trace?seconds=1.5")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err != nil || n == 0 || time.Since(began) < 1500*time.Millisecond {
		t.Errorf("%d bytes after %s, %v", n, time.Since(began), err)
	}
	never, end := io.Pipe()
	defer end.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/debug/pprof/trace?seconds=20", never)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := server.Client().Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if ctx.Err() != nil {
		t.Error("a request whose body never comes is held")
	}
}

// TestProfiles: who may use the admin API gets profiles, of what goes on.
func TestProfiles(t *testing.T) {
	p := startProgram(t, "--storage.path="+filepath.Join(t.TempDir(), "data"), "--web.enable-admin-api")
	p.waitReady()
	if resp, err := http.Post("http://"+p.addr+"/debug/pprof/profile?seconds=1", "", nil); err != nil {
		t.Fatal(err)
	} else if resp.Body.Close(); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", resp.Status)
	}
	for path, want := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/heap?debug=1":      "heap profile",
		"/debug/pprof/profile?seconds=1": "\x1f\x8b", // gzip
	} {
		resp, err := http.Get("http://" + p.addr + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %.100q", path, resp.Status, body)
		}
	}
}

func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := startProgram(t, "--storage.path="+dir, "--external-label=a=b")
	p.waitReady()
	for _, tc := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/", 200, "/api/v1/write"},
		{"HEAD", "/", 200, ""},
		{"GET", "/-/healthy", 200, "healthy"},
		{"HEAD", "/-/ready", 200, ""},
		{"GET", "/metrics", 200, "rwsink_build_info"},
		{"GET", "/metrics", 200, "rwsink_head_series 0"},
		{"GET", "/nothing", 404, ""},
		{"GET", "/api/v1/query?query=up", 404, "the page at / lists"},
		{"GET", "/api/v1/labels", 404, "the page at / lists"},
		{"POST", "/v1/metrics", 404, "takes no OTLP"},
		{"GET", "/debug/pprof/profile?seconds=1", 404, "--web.enable-admin-api"},
		{"POST", "/", 405, ""},
		{"GET", "/api/v1/write", 405, ""},
		{"GET", "/api/v1/read", 405, ""},
		{"POST", "/api/v1/write", 400, "empty"},
		{"POST", "/api/v1/read", 400, ""},
	} {
		req, err := http.NewRequest(tc.method, "http://"+p.addr+tc.path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tc.status || !strings.Contains(string(body), tc.body) {
			t.Errorf("%s %s: %s %.200q, want %d with %q", tc.method, tc.path, resp.Status, body, tc.status, tc.body)
		}
	}
	if second := startProgram(t, "--storage.path="+dir); second.waitEnd() != 1 || !strings.Contains(second.text(), dir+"/LOCK: held by another process: stop the rwsink that serves it") {
		t.Errorf("a second process on the directory: %s", second.text())
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.waitEnd(); code != 0 {
		t.Errorf("exit code %d at SIGTERM\n%s", code, p.text())
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, dir)
	if err != nil {
		t.Fatal(err)
	}
	p = startProgram(t, "--storage.path="+relative)
	p.waitReady()
	if !strings.Contains(p.text(), `msg="Starting rwsink" data=`+dir) {
		t.Errorf("the start does not name %s\n%s", dir, p.text())
	}
	_ = p.cmd.Process.Signal(os.Interrupt)
	if code := p.waitEnd(); code != 0 {
		t.Errorf("exit code %d at SIGINT\n%s", code, p.text())
	}
}

// slowWrite sends a write request without its body and waits until it is being served.
func (p *program) slowWrite() net.Conn {
	t := p.t
	t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST /api/v1/write HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\nContent-Length: 1\r\n\r\n")
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + p.addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Contains(string(page), "\nrwsink_write_requests_in_flight 1\n") {
			return conn
		}
	}
	t.Fatal("the request is not taken up")
	return nil
}

func TestStopFinishesRequests(t *testing.T) {
	p := startProgram(t, "--storage.path="+t.TempDir())
	p.waitReady()
	conn := p.slowWrite()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			break // no new connection is taken
		}
		c.Close()
		if time.Now().After(end) {
			t.Fatal("connections are taken after SIGTERM")
		}
	}
	if _, err := conn.Write([]byte{0}); err != nil { // an empty message
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 204")) {
		t.Errorf("the request under way is answered %q, %v", answer, err)
	}
	if code := p.waitEnd(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.text())
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	p := startProgram(t, "--storage.path="+t.TempDir())
	p.waitReady()
	p.slowWrite()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	for end := time.Now().Add(10 * time.Second); !strings.Contains(p.text(), "Stopping") && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.waitEnd(); code != -1 {
		t.Errorf("exit code %d, want an end by the signal\n%s", code, p.text())
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yml")
	if err := os.WriteFile(rules, []byte("- action: dorp\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, tc := range []struct{ name, arg, want string }{
		{"relabel file", "--write.relabel-config=" + rules, "dorp"},
		{"no relabel file", "--write.relabel-config=" + dir + "/none", "--write.relabel-config=" + dir + "/none: open"},
		{"web configuration", "--web.config.file=" + dir + "/none", "--web.config.file=" + dir + "/none: open"},
		{"address in use", "--web.listen-address=" + busy.Addr().String(), "address already in use"},
		{"log level", "--log.level=verbose", "--log.level=verbose: "},
		{"log format", "--log.format=xml", "--log.format=xml: "},
		{"path is a file", "--storage.path=" + rules, "rules.yml"},
	} {
		data := filepath.Join(dir, tc.name)
		args := []string{tc.arg}
		if !strings.HasPrefix(tc.arg, "--storage.path") {
			args = append(args, "--storage.path="+data)
		}
		p := startProgram(t, args...)
		if code := p.waitEnd(); code != 1 || !strings.Contains(p.text(), tc.want) {
			t.Errorf("%s: exit code %d, want 1 and %q\n%s", tc.name, code, tc.want, p.text())
		}
		if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the data directory was touched: %v", tc.name, err)
		}
	}
}
