package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rwsink/rwsink/bench/drive"
	"github.com/rwsink/rwsink/bench/load"
	"github.com/rwsink/rwsink/internal/proc"
)

// program is a receiver that can be started.
type program struct {
	name   string
	binary string
	args   func(dir, addr string) []string
	ready  string   // path that answers 200 when writes are taken
	write  string   // path of remote write
	read   string   // path of remote read, or ""
	settle []string // paths to POST to, so that everything is in its last form on disk
	data   bool     // it stores what it is sent, below data in its directory
	stored string   // below its directory: what is that form; "" is everything
	config string   // of the file prometheus.yml in dir, if any
}

// rwsink is this program or another of its builds.
func (e *env) rwsink(flags ...string) program {
	return program{
		name: "rwsink", binary: e.Binary, ready: "/-/ready", write: "/api/v1/write", read: "/api/v1/read",
		settle: []string{"/api/v1/admin/tsdb/flush"}, data: true, stored: "data/blocks",
		args: func(dir, addr string) []string {
			return append([]string{"serve", "--storage.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + addr,
				"--web.enable-admin-api", "--log.level=error"}, flags...)
		},
	}
}

// prometheusProgram is a Prometheus as receiver. Its settled form is what a
// snapshot writes: the head as a block.
func prometheusProgram(binary string) program {
	return program{
		name: "Prometheus", binary: binary, ready: "/-/ready", write: "/api/v1/write", read: "/api/v1/read",
		settle: []string{"/api/v1/admin/tsdb/snapshot"}, data: true, stored: "data/snapshots",
		config: "storage: {tsdb: {out_of_order_time_window: 2h}}\n",
		args: func(dir, addr string) []string {
			return []string{"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
				"--web.listen-address=" + addr, "--web.enable-remote-write-receiver", "--web.enable-admin-api",
				"--storage.tsdb.retention.time=15d", "--log.level=error"}
		},
	}
}

// victoriaMetrics is a single node; it takes 1.0 alone and has no remote read.
func victoriaMetrics(binary string) program {
	return program{
		name: "VictoriaMetrics", binary: binary, ready: "/health", write: "/api/v1/write",
		settle: []string{"/internal/force_flush", "/internal/force_merge"}, data: true,
		args: func(dir, addr string) []string {
			return []string{"-storageDataPath=" + filepath.Join(dir, "data"), "-httpListenAddr=" + addr, "-loggerLevel=ERROR"}
		},
	}
}

// sinkProgram is the bare HTTP server of this program.
func sinkProgram(binary string) program {
	return program{
		name: "HTTP sink", binary: binary, ready: "/-/ready", write: "/api/v1/write",
		args: func(_, addr string) []string { return []string{"bench", "sink", "--listen-address=" + addr} },
	}
}

// server is a running program.
type server struct {
	program
	dir, addr, log string
	cpu            int
	cmd            *exec.Cmd
	ended          chan struct{} // closed when the process has ended
	spent          time.Duration // processor time when it was ready
}

const (
	readyTimeout  = 5 * time.Minute // a replay included
	settleTimeout = 5 * time.Minute
	readyPoll     = 5 * time.Millisecond
)

// start runs p in a new directory below dir, pinned to cpu, until it is ready.
func start(ctx context.Context, p program, dir string, cpu int) (*server, error) {
	own, err := os.MkdirTemp(dir, "server-")
	if err != nil {
		return nil, err
	}
	s := &server{program: p, dir: own, log: filepath.Join(own, "log"), cpu: cpu}
	if p.config != "" {
		if err := os.WriteFile(filepath.Join(own, "prometheus.yml"), []byte(p.config), 0o644); err != nil {
			return nil, err
		}
	}
	if s.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	if err := s.run(ctx); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// freeAddr finds a port below those that outgoing connections take, so that it is
// still free when a program that was killed comes back to it.
func freeAddr() (string, error) {
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", errors.New("no free port between 20000 and 32000")
}

// run starts the process, again perhaps, and waits until it is ready.
func (s *server) run(ctx context.Context) error {
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	s.cmd = exec.Command(s.binary, s.args(s.dir, s.addr)...)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := on(s.cpu, s.cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	if err := s.waitReady(ctx); err != nil {
		_ = s.kill()
		return err
	}
	u, err := s.usage()
	s.spent = u.CPU
	return err
}

func (s *server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if err := request(ctx, http.MethodGet, s.url(s.ready)); err == nil {
			return nil
		}
		select {
		case <-s.ended:
			text, _ := os.ReadFile(s.log)
			return fmt.Errorf("%s has ended: %s", s.name, text[max(0, len(text)-2000):])
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", s.name, ctx.Err())
		case <-time.After(readyPoll):
		}
	}
}

// request wants an answer of 2xx.
func request(ctx context.Context, method, url string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, req.URL.Redacted(), resp.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

func (s *server) url(path string) string     { return "http://" + s.addr + path }
func (s *server) usage() (proc.Usage, error) { return proc.Read(s.cmd.Process.Pid) }
func (s *server) diskBytes() (int64, error)  { return drive.DiskBytes(filepath.Join(s.dir, "data")) }
func (s *server) storedBytes() (int64, error) {
	if s.stored == "" {
		return s.diskBytes()
	}
	return drive.DiskBytes(filepath.Join(s.dir, s.stored))
}

// quietCPU is what a server at rest uses at most in quietTime.
const (
	quietTime = 500 * time.Millisecond
	quietCPU  = 10 * time.Millisecond
)

// settled makes the server put everything into its last form on disk, and waits
// until it is at rest.
func (s *server) settled(ctx context.Context) error {
	for _, path := range s.settle {
		if err := request(ctx, http.MethodPost, s.url(path)); err != nil {
			return fmt.Errorf("settle %s: %w", s.name, err)
		}
	}
	return s.rest(ctx)
}

// rest waits until the server does nothing.
func (s *server) rest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	last, err := s.usage()
	for err == nil {
		if err := pause(ctx, quietTime); err != nil {
			return fmt.Errorf("%s does not come to rest: %w", s.name, err)
		}
		var now proc.Usage
		if now, err = s.usage(); err == nil && now.CPU-last.CPU <= quietCPU {
			return nil
		}
		last = now
	}
	return err
}

// verify reads back what was sent, in both modes, where the program serves reads.
func (s *server) verify(ctx context.Context, sets []*load.Set) error {
	if s.read == "" {
		return nil
	}
	for i, set := range sets {
		if slices.Contains(sets[:i], set) {
			continue // was sent twice
		}
		for _, mode := range drive.Modes {
			v, err := drive.Verify(ctx, s.url(s.read), &set.Spec, mode)
			if err == nil {
				err = v.Err()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// kill ends the process at once.
func (s *server) kill() error {
	err := s.cmd.Process.Kill()
	<-s.ended
	return err
}

// remove removes the directory of a server that has ended.
func (s *server) remove() { _ = os.RemoveAll(s.dir) }

// end kills and removes: what it has is not needed.
func (s *server) end() {
	_ = s.kill()
	s.remove()
}
