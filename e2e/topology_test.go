package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// startSink runs rwsink with a data directory of its own.
func startSink(t *testing.T, dir string, flags ...string) *process {
	t.Helper()
	addr := freeAddr(t)
	return start(t, dir, "rwsink", rwsinkBinary(t), addr, "/-/ready",
		append(flags, "--web.listen-address="+addr, "--storage.path="+filepath.Join(dir, "data"))...)
}

// points are the samples of the only series that expr gives.
func points(t *testing.T, p *process, expr string, at time.Time) map[string]string {
	t.Helper()
	a, err := p.query(expr, at)
	if err != nil || len(a.series) != 1 {
		t.Fatalf("%s: %s: %d series, %v", p.name, expr, len(a.series), err)
	}
	var series struct{ Values [][2]any }
	if err := json.Unmarshal([]byte(a.series[0]), &series); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, v := range series.Values {
		t, _ := json.Marshal(v[0])
		out[string(t)] = v[1].(string)
	}
	return out
}

// TestReplicasBecomeOneSeries is a pair of servers whose replica label is dropped:
// what is read back is the samples of both.
func TestReplicasBecomeOneSeries(t *testing.T) {
	t.Parallel()
	dir := logDir(t)
	rules := filepath.Join(dir, "relabel.yml")
	if err := os.WriteFile(rules, []byte("- action: labeldrop\n  regex: replica\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sink, odd := startSink(t, dir, "--write.relabel-config="+rules), startTarget(t)
	var pair []*process
	for _, replica := range []string{"a", "b"} {
		addr := freeAddr(t)
		external := "  external_labels: {cluster: pair, replica: " + replica + "}"
		pair = append(pair, startPrometheus(t, dir, replica, addr, senderConfig(version2, external, addr, addr, odd, sink.addr)))
	}
	b := startPrometheus(t, dir, "reader", freeAddr(t), readerConfig("  external_labels: {cluster: pair}", sink.addr))

	time.Sleep(10 * time.Second)
	at := time.Now().Truncate(time.Millisecond)
	const expr = `work_total{job="odd", path="/"}[8s]`
	want := map[string]string{}
	both := map[string]bool{} // instants at which either value may have been acknowledged last
	for _, p := range pair {
		p.waitSent(at)
		for at, v := range points(t, p, expr, at) {
			_, both[at] = want[at]
			want[at] = v
		}
	}
	got := points(t, b, expr, at)
	if len(want) < 10 || !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
		t.Errorf("the pair has %d samples %v, read back are %d: %v", len(want), want, len(got), got)
	}
	for at, v := range want {
		if got[at] != v && !both[at] {
			t.Errorf("at %s the value is %s, want %s", at, got[at], v)
		}
	}
}

// TestRulesOverRwsink is a server that scrapes nothing and evaluates rules over what
// rwsink holds; its results go back there.
func TestRulesOverRwsink(t *testing.T) {
	t.Parallel()
	dir := logDir(t)
	rules := filepath.Join(dir, "rules.yml")
	if err := os.WriteFile(rules, []byte("groups: [{name: g, rules: [{record: 'job:up:sum', expr: 'sum by (job) (up)'}]}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sink, odd, addr := startSink(t, dir), startTarget(t), freeAddr(t)
	a := startPrometheus(t, dir, "a", addr, senderConfig(version2, "", addr, addr, odd, sink.addr))
	config := `
global: {evaluation_interval: 1s, rule_query_offset: 3s}
rule_files: [` + rules + `]
remote_write:
  - {url: http://` + sink.addr + `/api/v1/write, queue_config: {batch_send_deadline: 100ms}}
remote_read:
  - {url: http://` + sink.addr + `/api/v1/read, read_recent: true}
`
	startPrometheus(t, dir, "evaluator", freeAddr(t), config)
	b := startPrometheus(t, dir, "reader", freeAddr(t), readerConfig("", sink.addr))

	time.Sleep(12 * time.Second)
	at := time.Now().Add(-6 * time.Second).Truncate(time.Millisecond)
	want, err := a.query(`sum by (job) (up)`, at)
	if err != nil || len(want.series) != 4 {
		t.Fatalf("A: %v, %v", want, err)
	}
	eventually(t, 30*time.Second, func() bool {
		got, err := b.query(`sum by (job) ({__name__="job:up:sum"})`, at)
		return err == nil && got.equal(want)
	}, func() string {
		got, err := b.query(`{__name__="job:up:sum"}`, at)
		return "want " + want.series[0] + " and so on; got: " + joined(got, err)
	})
}

func joined(a answer, err error) string {
	if err != nil {
		return err.Error()
	}
	text, _ := json.Marshal(a.series)
	return string(text)
}
