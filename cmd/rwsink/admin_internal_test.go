package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/instant"
	"github.com/rwsink/rwsink/store"
)

// send sends samples of the series m at the given times, the value of each its number.
func (p *program) send(times ...int64) {
	p.t.Helper()
	ts := prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: "m"}}}
	for i, at := range times {
		ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: at, Value: float64(i)})
	}
	body, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{ts}}).Marshal()
	if err != nil {
		p.t.Fatal(err)
	}
	p.answer("POST", "/api/v1/write", bytes.NewReader(snappy.Encode(nil, body)), http.StatusNoContent, "")
}

// answer sends a request and checks its answer.
func (p *program) answer(method, path string, body io.Reader, status int, want string) {
	p.t.Helper()
	req, err := http.NewRequest(method, "http://"+p.addr+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != status || !strings.Contains(string(got), want) {
		p.t.Fatalf("%s %s: %s %.200q, want %d with %q", method, path, resp.Status, got, status, want)
	}
}

// TestFlush writes in several ranges, twice into one, and finds all of it in
// blocks that do not overlap, also after a restart.
func TestFlush(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := startProgram(t, "--storage.path="+dir, "--web.enable-admin-api")
	p.waitReady()
	now := time.Now().UnixMilli()
	old := now - 72*time.Hour.Milliseconds()
	p.send(now-3000, now-1000)
	p.send(old, old+2000)
	p.answer("POST", "/api/v1/admin/tsdb/flush", nil, http.StatusNoContent, "")
	p.send(now-2000, now)
	p.send(old + 1000)
	p.answer("PUT", "/api/v1/admin/tsdb/flush", nil, http.StatusNoContent, "")
	p.answer("GET", "/metrics", nil, http.StatusOK, "\nrwsink_store_block_samples 7\n")
	p.answer("GET", "/api/v1/admin/tsdb/flush", nil, http.StatusMethodNotAllowed, "")
	p.answer("POST", "/api/v1/admin/tsdb/nothing", nil, http.StatusNotFound, "")
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.waitEnd(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.text())
	}
	st, err := store.Open(store.Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Replay(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := []int64{old, old + 1000, old + 2000, now - 3000, now - 2000, now - 1000, now}
	if got := timesOf(t, st); len(got) != len(want) {
		t.Errorf("times %v, want %v", got, want)
	} else {
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("times %v, want %v", got, want)
				break
			}
		}
	}
	if n := len(st.Head().Containers()); n != 0 {
		t.Errorf("%d containers are in the head after a restart: the blocks should cover the log", n)
	}
}

// TestExport writes into a running rwsink, stops it, and exports a part.
func TestExport(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "out")
	p := startProgram(t, "--storage.path="+dir)
	p.waitReady()
	now := time.Now().UnixMilli()
	p.send(now-2000, now-1000, now)
	if _, err := output("export", "--storage.path="+dir, out); err == nil || !strings.Contains(err.Error(), "held by another process") {
		t.Errorf("of a directory in use: %v", err)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.waitEnd(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.text())
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the output was made although the directory is in use: %v", err)
	}
	at := instant.Time(now)
	got, err := output("export", "--storage.path="+dir, "--log.level=error", "--match={__name__=\"m\"}", "--to="+at.String(),
		fmt.Sprintf("--from=%.3f", float64(now-1000)/1000), out)
	if err != nil || !strings.HasPrefix(got, "2 samples in 1 blocks") &&
		!strings.HasPrefix(got, "2 samples in 2 blocks") { // over the end of two hours
		t.Errorf("%v\n%s", err, got)
	}
	for arg, want := range map[string]string{"--match={job=\"x\"}": `nothing is selected by --match='{job="x"}', ` + dir + " holds samples of 20", "--to=0": "--to=1970-01-01T00:00:00Z, "} {
		got, err := output("export", "--storage.path="+dir, arg, filepath.Join(t.TempDir(), "out"))
		if err != nil || !strings.Contains(got, "0 samples in 0 blocks") || !strings.Contains(got, want) {
			t.Errorf("%s: %v, %s", arg, err, got)
		}
	}
	for arg, want := range map[string]string{"--from=soon": "--from", "--match=m{": "--match", "--block-duration=-1h": "--block-duration"} {
		if _, err := output("export", "--storage.path="+dir, arg, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func timesOf(t *testing.T, st *store.Store) (out []int64) {
	t.Helper()
	v := st.View()
	defer v.Close()
	found, err := v.Select(context.Background(), math.MinInt64, math.MaxInt64, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d series, %v", len(found), err)
	}
	err = v.NewReader().Read(&found[0], math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
		out = append(out, run.T...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAdminWithoutTheFlag(t *testing.T) {
	p := startProgram(t, "--storage.path="+t.TempDir())
	p.waitReady()
	for _, name := range []string{"flush", "delete_series?match[]=m", "clean_tombstones", "snapshot"} {
		p.answer("POST", "/api/v1/admin/tsdb/"+name, nil, http.StatusInternalServerError,
			`"errorType":"unavailable","error":"admin APIs disabled: start rwsink with --web.enable-admin-api"`)
	}
}
