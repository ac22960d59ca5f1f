package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestImportAndExport takes lines in, with a bad one among them, serves them,
// and gives them out again.
func TestImportAndExport(t *testing.T) {
	dir := t.TempDir()
	data, in := filepath.Join(dir, "data"), filepath.Join(dir, "in.json")
	now := time.Now().UnixMilli()
	good := fmt.Sprintf(`{"metric":{"__name__":"m"},"values":[1,null,"NaN"],"timestamps":[%d,%d,%d]}`+"\n", now-3000, now-2000, now-1000)
	if err := os.WriteFile(in, []byte(good+"{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	err := run([]string{"import", "--storage.path=" + data, in}, &stdout, &stderr)
	if !errors.Is(err, errRefused) || !strings.HasPrefix(stdout.String(), "3 samples in ") || !strings.HasSuffix(stdout.String(), "; 1 lines, series or files refused\n") {
		t.Errorf("%v\n%s", err, stdout.String())
	}
	if want := in + ":2: no metric\n"; !strings.Contains(stderr.String(), want) {
		t.Errorf("%q is not said:\n%s", want, stderr.String())
	}
	if strings.Contains(stderr.String(), "\r") {
		t.Errorf("progress is shown, and this is no terminal: %q", stderr.String())
	}
	if err := os.WriteFile(in, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout.Reset()
	stderr.Reset()
	if err := run([]string{"import", "--storage.path=" + data, "--progress=always", "--format=json", in}, &stdout, &stderr); err != nil {
		t.Error(err)
	}
	if got := stdout.String(); got != "0 samples in 0 blocks; 3 were there before\n" {
		t.Errorf("again: %q", got)
	}
	if !strings.Contains(stderr.String(), "\rreading [") {
		t.Errorf("no progress is shown: %q", stderr.String())
	}
	got, err := output("export", "--storage.path="+data, "--format=json", "--log.level=error", "-")
	var lines []string
	for line := range strings.Lines(got) { // over the end of two hours there are two
		lines = append(lines, line)
	}
	if err != nil || strings.Join(lines, "") != good && len(lines) != 2 {
		t.Errorf("%v\n%s, want\n%s", err, got, good)
	}
	for arg, want := range map[string]string{"--from=soon": "--from", "--format=csv": "--format", "--storage.block-duration=0": "--storage.block-duration"} {
		if _, err := output("import", "--storage.path="+data, arg, in); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(want, "--")) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// TestImportIntoOneThatRuns is refused, with a word on what to do.
func TestImportIntoOneThatRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := startProgram(t, "--storage.path="+dir)
	p.waitReady()
	in := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(in, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := output("import", "--storage.path="+dir, in); err == nil || !strings.Contains(err.Error(), "stop the rwsink that serves it") {
		t.Error(err)
	}
}
