package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// process is a program under test. Its standard error and output go to a file.
type process struct {
	t    *testing.T
	name string
	bin  string
	args []string
	addr string // 127.0.0.1:port, the same at every start
	log  string // the file

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// freeAddr returns an address of loopback that nothing listens on. Its port lies
// below those that outgoing connections take, so that it is still free when a
// program that was killed comes back to it.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port found")
	return ""
}

// logDir is kept when the test fails.
func logDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rwsink-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs and data are in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}

// start runs bin and waits until ready answers 200.
func start(t *testing.T, dir, name, bin, addr, ready string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, bin: bin, args: args, addr: addr, log: filepath.Join(dir, name+".log")}
	p.run()
	t.Cleanup(func() { p.stop(syscall.SIGTERM) })
	p.waitFor(ready)
	return p
}

// run starts the process, again perhaps, without waiting for it to be ready.
func (p *process) run() {
	p.t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(p.bin, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
}

// stop sends sig to the process and waits for its end; SIGKILL follows when it does not come.
func (p *process) stop(sig syscall.Signal) {
	p.t.Helper()
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.ended:
	case <-time.After(40 * time.Second):
		p.t.Errorf("%s does not end at %v", p.name, sig)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// waitFor waits until path answers 200.
func (p *process) waitFor(path string) {
	p.t.Helper()
	var last error
	eventually(p.t, 60*time.Second, func() bool {
		select {
		case <-p.ended:
			text, _ := os.ReadFile(p.log)
			p.t.Fatalf("%s has ended: %s", p.name, tail(text))
		default:
		}
		_, last = get("http://" + p.addr + path)
		return last == nil
	}, func() string { return fmt.Sprintf("%s is not ready: %v", p.name, last) })
}

// eventually calls ok ten times a second until it is true.
func eventually(t *testing.T, limit time.Duration, ok func() bool, why func() string) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", limit, why())
		}
	}
}

var client = &http.Client{Timeout: 30 * time.Second}

// get returns the body of an answer of 200.
func get(url string) ([]byte, error) {
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", url, resp.Status, bytes.TrimSpace(body))
	}
	return body, nil
}

// tail is the end of a log.
func tail(text []byte) []byte { return text[max(0, len(text)-2000):] }
