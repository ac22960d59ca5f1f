package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The images that compose/docker-compose.yml names.
const (
	rwsinkImage     = "rwsink:local"
	prometheusImage = "prom/prometheus:v3.16.0"
)

// stack is the services of compose/docker-compose.yml in the Docker engine of this machine.
type stack struct {
	t       *testing.T
	project string
	env     []string
	compose []string // the command, with its first arguments

	sinkAddr string
	prom     *process // only asked, never started or stopped
}

// TestCompose starts the stack with both generations of the compose tool.
func TestCompose(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		t.Skipf("skipped: no Docker engine answers: %v: %s", err, out)
	}
	buildImages(t)
	t.Run("plugin", testComposePlugin)
	t.Run("first generation", testComposeFirst)
}

// testComposePlugin starts the stack as a user does, kills rwsink's process in its
// container, and reads everything back through a Prometheus that has lost its own data.
func testComposePlugin(t *testing.T) {
	config := t.TempDir()
	plugins := filepath.Join(config, "cli-plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(composePlugin(t), filepath.Join(plugins, "docker-compose")); err != nil {
		t.Fatal(err)
	}
	s := newStack(t, "DOCKER_CONFIG="+config, "docker", "compose")

	begin := time.Now()
	s.run("up", "--wait", "--wait-timeout", "120")
	s.wantUser("rwsink", "65532:65532")
	time.Sleep(20 * time.Second)
	s.killSink()
	time.Sleep(10 * time.Second)

	at := time.Now().Truncate(time.Millisecond)
	expr := fmt.Sprintf(`{job=~".+"}[%ds]`, int(at.Sub(begin).Seconds()))
	want, err := s.prom.query(expr, at)
	if err != nil || len(want.series) == 0 {
		t.Fatalf("%s: %d series, %v", expr, len(want.series), err)
	}
	s.prom.waitSent(at)

	s.run("rm", "--stop", "--force", "prometheus")
	s.docker("volume", "rm", s.project+"_prometheus-data")
	s.run("up", "--wait", "--wait-timeout", "120")
	got, err := s.prom.query(expr, at)
	if err != nil {
		t.Fatal(err)
	}
	if !got.equal(want) {
		t.Errorf("%s, from rwsink alone: %s", expr, difference(want, got))
	}
	t.Logf("%d series read back over %v", len(got.series), at.Sub(begin).Round(time.Second))
}

// testComposeFirst starts the stack with the older tool, which cannot wait.
func testComposeFirst(t *testing.T) {
	if _, err := exec.LookPath("docker-compose"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the first generation of the compose tool is not installed: .ci/run sees to it")
		}
		t.Skip("skipped: the first generation of the compose tool is not installed")
	}
	s := newStack(t, "", "docker-compose")
	s.run("up", "-d")
	s.waitHealthy("rwsink", 60*time.Second)
	s.waitHealthy("prometheus", 60*time.Second)
	eventually(t, 60*time.Second, func() bool {
		a, err := s.prom.query(`up{job="rwsink"} == 1`, time.Now())
		return err == nil && len(a.series) == 1
	}, func() string { return "Prometheus does not scrape rwsink" })
}

// buildImages builds rwsink's image as a user does and, unless there is one,
// Prometheus's: no registry may be in reach.
func buildImages(t *testing.T) {
	t.Helper()
	mayStay := hasImage(rwsinkImage)
	command(t, nil, "make", "-C", "..", "image")
	if !mayStay {
		removeImageAfter(t, rwsinkImage)
	}
	if hasImage(prometheusImage) {
		return
	}
	// As the published one: binary, an empty directory of user nobody, and busybox.
	dir := t.TempDir()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal("busybox is not installed: apt-get install busybox-static")
	}
	for from, to := range map[string]string{prometheusTool(t, "prometheus"): "bin/prometheus", busybox: "bin/busybox"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(dir, to)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	const dockerfile = `FROM scratch
COPY bin /bin
COPY --chown=65534:65534 prometheus /prometheus
USER 65534:65534
ENTRYPOINT ["/bin/prometheus"]
`
	if err := errors.Join(
		os.Symlink("busybox", filepath.Join(dir, "bin/wget")),
		os.Mkdir(filepath.Join(dir, "prometheus"), 0o755),
		os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	command(t, nil, "docker", "build", "--quiet", "--tag", prometheusImage, dir)
	removeImageAfter(t, prometheusImage)
}

func hasImage(name string) bool {
	return exec.Command("docker", "image", "inspect", name).Run() == nil
}

func removeImageAfter(t *testing.T, name string) {
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "--force", name).Run() })
}

// newStack names a stack of its own with ports of its own, and takes it down at the end.
func newStack(t *testing.T, env string, compose ...string) *stack {
	t.Helper()
	sink, prom := freeAddr(t), freeAddr(t)
	_, sinkPort, _ := strings.Cut(sink, ":")
	_, promPort, _ := strings.Cut(prom, ":")
	project := fmt.Sprintf("rwsink-e2e-%d", os.Getpid())
	s := &stack{
		t: t, project: project, sinkAddr: sink,
		compose: append(compose, "-p", project, "-f", filepath.Join("..", "compose", "docker-compose.yml")),
		env:     append(os.Environ(), "RWSINK_PORT="+sinkPort, "PROMETHEUS_PORT="+promPort),
		prom:    &process{t: t, name: "prometheus", addr: prom},
	}
	if env != "" {
		s.env = append(s.env, env)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", s.run("logs", "--tail", "40"))
		}
		s.run("down", "--volumes", "--timeout", "20")
	})
	return s
}

// killSink kills the process in rwsink's container; the engine starts it again.
func (s *stack) killSink() {
	s.t.Helper()
	pid, err := strconv.Atoi(s.inspect("rwsink", "{{.State.Pid}}"))
	if err != nil || pid <= 1 {
		s.t.Fatalf("rwsink's process: %d, %v", pid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, 30*time.Second, func() bool {
		return s.inspect("rwsink", "{{.RestartCount}}") == "1"
	}, func() string { return "the engine has not started rwsink again" })
	s.waitHealthy("rwsink", 60*time.Second)
}

func (s *stack) waitHealthy(service string, limit time.Duration) {
	s.t.Helper()
	var health string
	eventually(s.t, limit, func() bool {
		health = s.inspect(service, "{{.State.Health.Status}}")
		return health == "healthy"
	}, func() string { return service + " is " + health })
}

func (s *stack) wantUser(service, want string) {
	s.t.Helper()
	if got := s.inspect(service, "{{.Config.User}}"); got != want {
		s.t.Errorf("%s runs as user %q, want %q", service, got, want)
	}
}

// inspect returns what the engine knows of a service's container.
func (s *stack) inspect(service, format string) string {
	s.t.Helper()
	id := strings.TrimSpace(s.docker("ps", "--all", "--quiet",
		"--filter", "label=com.docker.compose.project="+s.project, "--filter", "label=com.docker.compose.service="+service))
	return strings.TrimSpace(s.docker("inspect", "--format", format, id))
}

// run runs the compose tool.
func (s *stack) run(args ...string) string {
	s.t.Helper()
	all := append(append([]string{}, s.compose...), args...)
	return command(s.t, s.env, all[0], all[1:]...)
}

func (s *stack) docker(args ...string) string {
	s.t.Helper()
	return command(s.t, s.env, "docker", args...)
}

// command runs a program to its end and returns what it wrote.
func command(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}
