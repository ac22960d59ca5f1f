package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// output runs a command that ends by itself.
func output(args ...string) (string, error) {
	var out bytes.Buffer
	err := run(args, &out, &out)
	return out.String(), err
}

func TestDump(t *testing.T) {
	for file, text := range map[string]string{
		"../../wal/testdata/segment.golden":         "../../wal/testdata/segment.dump",
		"../../chunkenc/testdata/golden/bits.chunk": "../../chunkenc/testdata/golden/bits.txt",
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
	if _, err := output("probe", server.URL); err == nil {
		t.Error("no server: no error")
	}
}
