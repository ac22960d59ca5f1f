package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// output runs a program to its end and returns what it prints.
func output(t *testing.T, bin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(bin, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, tail(stderr.Bytes()))
	}
	return string(out)
}

// TestMoveInAndOut takes what a Prometheus has along into rwsink, and what rwsink
// has into a Prometheus, as blocks and as JSON lines: each answers every
// expression as the one that it came from.
func TestMoveInAndOut(t *testing.T) {
	t.Parallel()
	f, dir := currentForm(t), logDir(t)
	nodeAddr, aAddr := freeAddr(t), freeAddr(t)
	odd := startTarget(t)
	start(t, dir, "node", nodeExporterBinary(t), nodeAddr, "/metrics", "--web.listen-address="+nodeAddr, "--log.level=error")
	sink := startSink(t, dir)
	a := startPrometheus(t, dir, "a", aAddr, senderConfig(version2, "", aAddr, nodeAddr, odd, sink.addr), "--enable-feature=exemplar-storage,metadata-wal-records", "--web.enable-admin-api")
	work(a, f.before+5*time.Second)
	at := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	a.waitSent(at)

	// Out: blocks, which promtool reads and a Prometheus serves.
	b := startPrometheus(t, dir, "b", freeAddr(t), readerConfig("", sink.addr))
	sink.stop(syscall.SIGTERM)
	data, exported := filepath.Join(dir, "data"), filepath.Join(dir, "exported")
	output(t, sink.bin, "export", "--storage.path="+data, exported)
	tool := prometheusTool(t, "promtool")
	if out := output(t, tool, "tsdb", "analyze", exported); !strings.Contains(out, "Total Series:") {
		t.Errorf("promtool tsdb analyze:\n%s", tail([]byte(out)))
	}
	dump := output(t, tool, "tsdb", "dump", exported)
	lines := filepath.Join(dir, "lines.json")
	summary := output(t, sink.bin, "export", "--storage.path="+data, "--format=json", lines)
	if want, got := strings.Fields(summary)[0], strconv.Itoa(strings.Count(dump, "\n")); got != want {
		t.Errorf("promtool tsdb dump has %s samples, rwsink %s", got, want)
	}
	c := startPrometheus(t, dir, "exported", freeAddr(t), "global: {scrape_interval: 1h}\n")
	sink.run()
	sink.waitFor("/-/ready")
	compareHeld(t, b, c, version2, at, "exported blocks")

	// In again: the lines into a directory of their own.
	other := filepath.Join(dir, "other")
	output(t, sink.bin, "import", "--storage.path="+filepath.Join(other, "data"), lines)
	restored := startSink(t, other)
	compareHeld(t, b, startPrometheus(t, dir, "d", freeAddr(t), readerConfig("", restored.addr)), version2, at, "imported lines")

	// In: a snapshot of Prometheus A, its head included.
	resp, err := http.Post("http://"+aAddr+"/api/v1/admin/tsdb/snapshot", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var reply struct{ Data struct{ Name string } }
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil || reply.Data.Name == "" {
		t.Fatalf("snapshot: %s, %v", resp.Status, err)
	}
	moved := filepath.Join(dir, "moved")
	output(t, sink.bin, "import", "--storage.path="+filepath.Join(moved, "data"), filepath.Join(dir, "a", "snapshots", reply.Data.Name))
	taken := startSink(t, moved)
	compareHeld(t, a, startPrometheus(t, dir, "e", freeAddr(t), readerConfig("", taken.addr)), version2, at, "imported snapshot")
}
