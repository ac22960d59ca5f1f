package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// form says how long the tests run.
type form struct {
	before time.Duration // of writing before the first comparison
	kills  int
	down   time.Duration // between a kill and the next start, at least
	apart  time.Duration // between one start and the next kill
}

func currentForm(t *testing.T) form {
	switch v := os.Getenv("RWSINK_E2E"); v {
	case "", "short":
		return form{before: 35 * time.Second, kills: 2, down: time.Second, apart: 3 * time.Second}
	case "long":
		return form{before: 3 * time.Minute, kills: 10, down: 5 * time.Second, apart: 7 * time.Second}
	default:
		t.Fatalf("RWSINK_E2E=%s: want short or long", v)
		return form{}
	}
}

// The messages of the two versions of the protocol.
const (
	version1 = "prometheus.WriteRequest"
	version2 = "io.prometheus.write.v2.Request"
)

func TestRemoteWrite1(t *testing.T) {
	roundTrip(t, version1, "", "exemplar-storage")
}

// The second run has external labels on both sides, as servers in production do.
func TestRemoteWrite2(t *testing.T) {
	roundTrip(t, version2, "  external_labels: {cluster: e2e, replica: a}",
		"exemplar-storage,metadata-wal-records")
}

// roundTrip writes, compares, kills, compares.
func roundTrip(t *testing.T, message, external, features string) {
	t.Parallel()
	f, dir := currentForm(t), logDir(t)
	nodeAddr, aAddr := freeAddr(t), freeAddr(t)
	odd := startTarget(t)
	start(t, dir, "node", nodeExporterBinary(t), nodeAddr, "/metrics", "--web.listen-address="+nodeAddr, "--log.level=error")
	sink := startSink(t, dir)
	a := startPrometheus(t, dir, "a", aAddr, senderConfig(message, external, aAddr, nodeAddr, odd, sink.addr), "--enable-feature="+features)
	b := startPrometheus(t, dir, "b", freeAddr(t), readerConfig(external, sink.addr))

	begin := time.Now().Add(5 * time.Second).Truncate(time.Second)
	work(a, time.Until(begin.Add(f.before)))
	compare(t, a, b, message, time.Now().Add(-time.Second), "before the kill")

	if sink.metric("rwsink_write_received_exemplars_total") == 0 {
		t.Error("rwsink has received no exemplar")
	}
	killed := time.Now()
	for range f.kills {
		work(a, f.apart)
		sink.stop(syscall.SIGKILL)
		time.Sleep(f.down)
		sink.run()
		sink.waitFor("/-/ready")
	}
	work(a, 2*time.Second)
	now := time.Now().Truncate(time.Millisecond)
	compare(t, a, b, message, now, "after the kills")
	// No gap: every sample of every series since the first comparison.
	window := fmt.Sprintf("[%ds]", int(now.Sub(killed).Seconds())+30)
	same(t, a, b, expression{text: `{job=~".+"}` + window}, now, "over the kills")
	same(t, a, b, expression{text: `count_over_time(up` + window + `)`}, now, "over the kills")

	for _, kind := range []string{"samples", "histograms", "exemplars"} {
		if n := a.metric("prometheus_remote_storage_" + kind + "_failed_total"); n != 0 {
			t.Errorf("the sender counts %v %s as failed", n, kind)
		}
	}
	if a.metric("prometheus_remote_storage_samples_retried_total") == 0 {
		t.Error("the sender retried nothing: rwsink was not killed while it was writing")
	}
	sink.stop(syscall.SIGTERM)
	if code := sink.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("rwsink ends with status %d at SIGTERM", code)
	}
}

// work lets time pass while Prometheus A is asked things, so that its native histograms move.
func work(a *process, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, _ = a.query("up", time.Now())
		_, _ = get("http://" + a.addr + "/api/v1/labels")
	}
}

// compare asks both servers everything at an instant that rwsink has acknowledged.
func compare(t *testing.T, a, b *process, message string, at time.Time, when string) {
	t.Helper()
	a.waitSent(at)
	compareHeld(t, a, b, message, at, when)
}

// compareHeld asks both servers everything at an instant that both have all of.
func compareHeld(t *testing.T, a, b *process, message string, at time.Time, when string) {
	t.Helper()
	equal := 0
	for _, e := range expressions {
		e.empty = e.empty || e.only != "" && e.only != message
		if same(t, a, b, e, at, when) {
			equal++
		}
	}
	t.Logf("%s: %d of %d expressions equal at %s", when, equal, len(expressions), seconds(at))
}

// same asks both servers one thing: at an instant, and over the half minute before it.
func same(t *testing.T, a, b *process, e expression, at time.Time, when string) bool {
	t.Helper()
	text := strings.ReplaceAll(e.text, "NOW", seconds(at))
	ask := map[string]func(p *process) (answer, error){
		"instant": func(p *process) (answer, error) { return p.query(text, at) },
	}
	first, err := a.query(text, at)
	if err != nil {
		t.Errorf("%s: %s: A: %v", when, text, err)
		return false
	}
	if first.kind != "matrix" { // a matrix cannot be asked for over a range
		ask["range"] = func(p *process) (answer, error) {
			return p.queryRange(text, at.Add(-30*time.Second), at, 2*time.Second)
		}
	}
	ok := true
	for how, f := range ask {
		want, errA := f(a)
		got, errB := f(b)
		switch {
		case errA != nil || errB != nil:
			t.Errorf("%s: %s, %s: A: %v, B: %v", when, text, how, errA, errB)
		case (len(want.series) == 0) != e.empty:
			t.Errorf("%s: %s, %s: A answers with %d series", when, text, how, len(want.series))
		case !got.equal(want):
			t.Errorf("%s: %s, %s: %s", when, text, how, difference(want, got))
		default:
			continue
		}
		ok = false
	}
	return ok
}

// difference names the first series that differs.
func difference(want, got answer) string {
	for i := 0; i < max(len(want.series), len(got.series)); i++ {
		w, g := "nothing", "nothing"
		if i < len(want.series) {
			w = want.series[i]
		}
		if i < len(got.series) {
			g = got.series[i]
		}
		if w != g {
			return fmt.Sprintf("%d series from A, %d from B; the first that differs:\n  A %.1500s\n  B %.1500s", len(want.series), len(got.series), w, g)
		}
	}
	return fmt.Sprintf("%s from A, %s from B", want.kind, got.kind)
}
