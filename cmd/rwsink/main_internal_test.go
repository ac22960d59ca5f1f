package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"

	"github.com/rwsink/rwsink/store"
)

// output runs a command that ends by itself.
func output(args ...string) (string, error) {
	var out bytes.Buffer
	err := run(args, &out, &out)
	return out.String(), err
}

// newApp is a command line to be parsed, which neither prints nor ends the process.
func newApp(t *testing.T) *kingpin.Application {
	app := kingpin.New("rwsink", "").Terminate(func(int) { t.Fatal("the parser ends the process") })
	return app.UsageWriter(io.Discard)
}

const golden = "../../store/block/testdata/golden/v2"

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
	for arg, want := range map[string]string{
		"dump.go": "dump.go: neither a segment of the log", "nothing": "nothing", "../rwsink": "rwsink check looks through",
	} {
		if _, err := output("dump", arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dump %s: %v", arg, err)
		}
	}
}

// TestDumpNamesTheFileOnce refuses files of all kinds.
func TestDumpNamesTheFileOnce(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"deletes.json": `{"magic":"rwsink-deletes","version":1}`, "removed.json": `{"magic":"rwsink-removed","version":9,"crc32c":1}`,
		"chunk": "\xe1", "rwsink.json": `{"magic":"rwsink-block","version":9}`, "meta.json": `{"ulid":""}`, "other.json": `{"magic":"x"}`, "000001": "\x85\xbd\x40\xddxxxx", "none": "",
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); text != "" && err != nil {
			t.Fatal(err)
		}
		if name == "none" {
			os.Remove(file)
		}
		if _, err := output("dump", file); err == nil || !strings.HasPrefix(err.Error(), "dump: ") || strings.Count(err.Error(), file) != 1 {
			t.Errorf("%v", err)
		}
	}
}

// TestDumpDamaged prints a segment that nothing but its name tells.
func TestDumpDamaged(t *testing.T) {
	data, err := os.ReadFile("../../wal/testdata/segment.golden")
	if err != nil {
		t.Fatal(err)
	}
	data[0] = 'x'
	name := filepath.Join(t.TempDir(), "00000001")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := output("dump", name); err == nil || !strings.Contains(got, "damage at 0") || !strings.Contains(got, "frame at ") {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestHelpNamed wants an error of the command line to name the help that lists the flag.
func TestHelpNamed(t *testing.T) {
	for arg, want := range map[string]string{"--retention=3d": "try serve --help", "foo": "try --help", "check": "try --help"} {
		if _, err := output(arg); err == nil || !strings.HasSuffix(err.Error(), ", "+want) {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
}

func TestVersion(t *testing.T) {
	form := regexp.MustCompile(`^rwsink \S+, revision \S+, go1\S+, \w+/\w+\n$`)
	if got, err := output("version"); err != nil || !form.MatchString(got) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestProbe(t *testing.T) {
	status, body := http.StatusOK, "rwsink is ready.\n"
	var asked string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked = r.URL.Path; text(w, status, body) })
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	if got, err := output("probe", secure.URL); err != nil || got != body {
		t.Errorf("over TLS: %q, %v", got, err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	for path, want := range map[string]string{"": "/-/ready", "/": "/", "/-/healthy": "/-/healthy"} {
		if got, err := output("probe", server.URL+path); err != nil || got != body || asked != want {
			t.Errorf("%q: asked for %q, want %q: %q, %v", path, asked, want, got, err)
		}
	}
	status, body = http.StatusServiceUnavailable, "replaying\n"
	if _, err := output("probe", server.URL); err == nil || !strings.Contains(err.Error(), "replaying") {
		t.Errorf("a server that is not ready: %v", err)
	}
	server.Close()
	for _, address := range []string{"127.0.0.1:9201", "localhost:9201", "localhost", "ftp://localhost", "http://"} {
		if _, err := output("probe", address); err == nil || !strings.Contains(err.Error(), "want http://HOST:PORT") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{
		strings.Replace(server.URL, "http://", "http://me:secret@", 1),
		"http://me:secret@[::1/-/ready",
	} {
		if _, err := output("probe", address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s, where nothing listens: %v", address, err)
		}
	}
}
