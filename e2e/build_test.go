package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// prometheusVersion is the module version that go.mod pins; it names the cached binary.
const prometheusVersion = "v0.316.0"

// cacheDir is where binaries are built once.
func cacheDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("RWSINK_CACHE")
	if dir == "" {
		dir = filepath.Join("..", ".cache")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// building is held while something is built: the tests run in parallel.
var building sync.Mutex

// prometheusTool returns a program of Prometheus, prometheus or promtool, built
// from its module as a static binary.
func prometheusTool(t *testing.T, name string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	bin := filepath.Join(cacheDir(t), name+"-"+prometheusVersion)
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	t.Logf("building %s; once, this takes minutes", name)
	build(t, ".", bin, "-tags", "remove_all_sd", "github.com/prometheus/prometheus/cmd/"+name)
	return bin
}

// composeVersion is the module version of the compose tool, second generation, a
// plug-in of the docker command.
const composeVersion = "v2.40.3"

// composePlugin returns that tool, built from its module. The module cannot be
// built in place or required: its go.mod excludes versions, which counts only in
// a main module. So a copy of it is made the main module.
func composePlugin(t *testing.T) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	bin := filepath.Join(cacheDir(t), "docker-compose-"+composeVersion)
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	t.Log("building docker compose; once, this takes minutes")
	dir := t.TempDir()
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/docker/compose/v2@"+composeVersion)
	cmd.Dir = dir // outside of this module
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "source")
	if err := os.CopyFS(source, os.DirFS(module.Dir)); err != nil {
		t.Fatal(err)
	}
	build(t, source, bin, "-ldflags", "-s -w -X github.com/docker/compose/v2/internal.Version="+composeVersion, "./cmd")
	return bin
}

// rwsinkBuilt says that this run has built rwsink.
var rwsinkBuilt bool

// rwsinkBinary returns rwsink, built from this tree, with the profile, as make build does.
func rwsinkBinary(t *testing.T) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	bin := filepath.Join(cacheDir(t), "rwsink")
	if !rwsinkBuilt {
		build(t, "..", bin, "-pgo=auto", "./cmd/rwsink")
		rwsinkBuilt = true
	}
	return bin
}

// build compiles a static binary beside its place and moves it there, so that a
// build that was broken off leaves none.
func build(t *testing.T, dir, bin string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", bin + ".new"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	if err := os.Rename(bin+".new", bin); err != nil {
		t.Fatal(err)
	}
}

// nodeExporterBinary returns Debian's node_exporter.
func nodeExporterBinary(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("prometheus-node-exporter")
	if err != nil {
		t.Fatal("prometheus-node-exporter is not installed: apt-get install prometheus-node-exporter")
	}
	return bin
}
