package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rwsink/rwsink/store"
)

// output runs a command that ends by itself.
func output(args ...string) (string, error) {
	var out bytes.Buffer
	err := run(args, &out, &out)
	return out.String(), err
}

const golden = "../../store/block/testdata/golden"

func goldenBlock(t *testing.T) string {
	t.Helper()
	dirs, err := filepath.Glob(golden + "/*/rwsink.json")
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%q, %v", dirs, err)
	}
	return filepath.Dir(dirs[0])
}

// TestCheck checks a sound directory, a damaged one, one in use, and none.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(store.Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := output("check", dir); err == nil || !strings.Contains(err.Error(), "held by another process") {
		t.Errorf("a directory in use: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "blocks", filepath.Base(goldenBlock(t)))
	if err := os.CopyFS(to, os.DirFS(goldenBlock(t))); err != nil {
		t.Fatal(err)
	}
	got, err := output("check", dir)
	if err != nil || !strings.HasPrefix(got, "1 blocks (") || !strings.HasSuffix(got, " 0 faults\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("%v\n%s", err, got)
	}
	if err := os.Truncate(to+"/index", 10); err != nil {
		t.Fatal(err)
	}
	got, err = output("check", dir)
	if err == nil || !strings.HasPrefix(got, "fault: "+to+"/index: ") || !strings.HasSuffix(got, " 1 faults\n") {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := output("check", t.TempDir()); err == nil || !strings.Contains(err.Error(), "no data directory") {
		t.Error(err)
	}
}

func TestDump(t *testing.T) {
	for file, text := range map[string]string{
		"../../wal/testdata/segment.golden":         "../../wal/testdata/segment.dump",
		"../../chunkenc/testdata/golden/bits.chunk": "../../chunkenc/testdata/golden/bits.txt",
		goldenBlock(t) + "/chunks/000001":           golden + "/chunks-000001.txt",
		goldenBlock(t) + "/index":                   golden + "/index.txt",
		goldenBlock(t) + "/rwsink.json":             golden + "/rwsink.json.txt",
	} {
		want, err := os.ReadFile(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := output("dump", file)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s", file, err, got)
		}
	}
	for arg, want := range map[string]string{"dump.go": "dump.go", "nothing": "nothing"} {
		if _, err := output("dump", arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dump %s: %v", arg, err)
		}
	}
}

func TestVersion(t *testing.T) {
	if got, err := output("version"); err != nil || !strings.HasPrefix(got, "rwsink, version") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestProbe(t *testing.T) {
	status, body := http.StatusOK, "rwsink is ready.\n"
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, status, body) })
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	if got, err := output("probe", secure.URL); err != nil || got != body {
		t.Errorf("over TLS: %q, %v", got, err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	if got, err := output("probe", server.URL); err != nil || got != body {
		t.Errorf("%q, %v", got, err)
	}
	status, body = http.StatusServiceUnavailable, "replaying\n"
	if _, err := output("probe", server.URL); err == nil || !strings.Contains(err.Error(), "replaying") {
		t.Errorf("a server that is not ready: %v", err)
	}
	server.Close()
	for _, address := range []string{
		strings.Replace(server.URL, "http://", "http://me:secret@", 1),
		"http://me:secret@[::1/-/ready",
	} {
		if _, err := output("probe", address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s, where nothing listens: %v", address, err)
		}
	}
}
