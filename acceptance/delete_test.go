package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// admin calls an endpoint of /api/v1/admin/tsdb.
func (s *server) admin(t testing.TB, method, name string, params url.Values) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest(method, s.url+"/api/v1/admin/tsdb/"+name+"?"+params.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// deleteSeries deletes, from the server and the model, [lo, hi] of the series whose
// metric has that name.
func (s *server) deleteSeries(t testing.TB, m *model, lo, hi int64, metric string) {
	t.Helper()
	params := url.Values{"match[]": {fmt.Sprintf("{__name__=%q}", metric)}, "start": {seconds(lo)}, "end": {seconds(hi)}}
	if status, body := s.admin(t, "POST", "delete_series", params); status != http.StatusNoContent || body != "" {
		t.Fatalf("delete_series: %d %q", status, body)
	}
	m.delete(lo, hi, metric)
}

func seconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

// delete notes an acknowledged delete.
func (m *model) delete(lo, hi int64, metric string) {
	for k, tr := range m.tracks {
		if tr.labels.Get(labels.MetricName) != metric {
			continue
		}
		for at := range tr.points {
			if lo <= at && at <= hi {
				delete(tr.points, at)
			}
		}
		if len(tr.points) == 0 {
			delete(m.tracks, k)
		}
	}
}

// snapshot makes one and returns its directory.
func (s *server) snapshot(t testing.TB, skipHead string) (dir string) {
	t.Helper()
	params := url.Values{}
	if skipHead != "" {
		params.Set("skip_head", skipHead)
	}
	status, body := s.admin(t, "POST", "snapshot", params)
	var got struct {
		Status string
		Data   struct{ Name string }
	}
	if err := json.Unmarshal([]byte(body), &got); status != http.StatusOK || err != nil || got.Status != "success" || got.Data.Name == "" {
		t.Fatalf("snapshot: %d %q, %v", status, body, err)
	}
	return filepath.Join(s.dir, "snapshots", got.Data.Name)
}

// A delete reaches what is in order, late, in histograms, in the head and in blocks, and
// nothing that is written later, whatever comes: reads, flushes, cleaning, SIGKILL.
func TestDeleteReachesEverything(t *testing.T) {
	t.Parallel()
	s, m, n := start(t), newModel(), nowMs()-3*day
	write := func(v version, from, step int64, count int, value float64) {
		t.Helper()
		e, other := series("gone", "k", "1"), series("stays", "k", "1")
		h := series("gone", "k", "h")
		for i := range count {
			at := n + from + int64(i)*step
			e, other = e.at(at, value+float64(i)), other.at(at, value)
			h = h.hist(at, intHistogram(i))
		}
		s.store(t, m, v, e, other, h)
	}
	write(v1, 0, minute, 200, 1)
	s.flush(t)
	write(v2, 30*second, minute, 150, 1000) // late, into the range of the block
	write(v1, day, minute, 100, 2000)
	s.flush(t)
	write(v2, 90*minute+1, 7*minute, 20, 3000) // late, in the head
	write(v1, 2*day, minute, 100, 4000)
	s.deleteSeries(t, m, n+50*minute, n+2*day+30*minute, "gone")
	check := func(when string) { t.Helper(); s.holds(t, m, when) }
	check("after the answer")
	s.crash(t)
	check("after SIGKILL")
	write(v1, hour, 5*minute, 10, 5000) // into what was deleted
	write(v2, day, minute, 5, 6000)
	check("after the range was written again")
	s.flush(t)
	check("after a flush")
	s.restart(t)
	check("after a restart")
	s.deleteSeries(t, m, n, n+3*day, "gone")
	if status, body := s.admin(t, "PUT", "clean_tombstones", nil); status != http.StatusNoContent || body != "" {
		t.Fatalf("clean_tombstones: %d %q", status, body)
	}
	check("after all is deleted and cleaned")
	indexes, err := filepath.Glob(filepath.Join(s.dir, "blocks", "*", "index"))
	if err != nil || len(indexes) == 0 {
		t.Fatal(indexes, err)
	}
	for _, p := range indexes {
		if strings.Contains(string(read(t, p)), "gone") {
			t.Errorf("%s still names the series", p)
		}
	}
	write(v1, hour, minute, 3, 7000)
	check("after the series was written again")
	s.readBack(t, m)
}

// Parameters are Prometheus's, and so are the answers.
func TestDeleteParameters(t *testing.T) {
	t.Parallel()
	s, m, n := start(t), newModel(), nowMs()-hour
	n -= n % 1000
	s.store(t, m, v1, series("a").at(n, 1).at(n+second, 2), series("b").at(n, 1))
	for _, bad := range []struct {
		params url.Values
		want   string
	}{
		{url.Values{}, "no match[] parameter provided"},
		{url.Values{"match[]": {"a{"}}, "match[]"},
		{url.Values{"match[]": {"a", `b{x=~"("}`}}, "match[]"},
		{url.Values{"match[]": {"{}"}}, "matcher"},
		{url.Values{"match[]": {"a"}, "start": {"soon"}}, "start"},
		{url.Values{"match[]": {"a"}, "end": {"NaN"}}, "end"},
		{url.Values{"match[]": {"a"}, "start": {"20"}, "end": {"10"}}, "end"},
	} {
		status, body := s.admin(t, "POST", "delete_series", bad.params)
		var got struct{ Status, ErrorType, Error string }
		if err := json.Unmarshal([]byte(body), &got); status != http.StatusBadRequest || err != nil ||
			got.Status != "error" || got.ErrorType != "bad_data" || !strings.Contains(got.Error, bad.want) {
			t.Errorf("%v: %d %q, want 400 with %q", bad.params, status, body, bad.want)
		}
	}
	if status, body := s.admin(t, "POST", "snapshot", url.Values{"skip_head": {"perhaps"}}); status != http.StatusBadRequest || !strings.Contains(body, "skip_head") {
		t.Errorf("skip_head: %d %q", status, body)
	}
	if status, _ := s.admin(t, "GET", "delete_series", url.Values{"match[]": {"a"}}); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", status)
	}
	s.holds(t, m, "after what was refused")
	rfc := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000+00:00") }
	params := url.Values{"match[]": {"a", "nothing"}, "start": {rfc(n + 1)}, "end": {rfc(n + second)}}
	if status, body := s.admin(t, "PUT", "delete_series", params); status != http.StatusNoContent {
		t.Fatalf("%d %q", status, body)
	}
	m.delete(n+1, n+second, "a")
	s.holds(t, m, "one of two")
	if status, _ := s.admin(t, "POST", "delete_series", url.Values{"match[]": {"a", `{__name__="b"}`}}); status != http.StatusNoContent {
		t.Fatal(status)
	}
	m.delete(-1<<62, 1<<62, "a")
	m.delete(-1<<62, 1<<62, "b")
	s.holds(t, m, "everything")
}

// A snapshot holds what was acknowledged before, late samples of the head included, and
// is restored as docs/operations.md says.
func TestSnapshotIsRestored(t *testing.T) {
	t.Parallel()
	s, m, n := start(t), newModel(), nowMs()-day
	for i := range int64(5) {
		s.store(t, m, v1, series("m").at(n+i*hour, float64(i)).hist(n+i*hour+1, intHistogram(3)))
	}
	s.flush(t)
	blocksOnly := m.clone()
	s.store(t, m, v2, series("m").at(n+30*minute, 7), series("late").at(n-2*day, 8)) // late only, in the head
	s.deleteSeries(t, m, n+hour, n+2*hour, "m")
	blocksOnly.delete(n+hour, n+2*hour, "m")
	small, whole := s.snapshot(t, "true"), s.snapshot(t, "")
	after := m.clone()
	s.store(t, after, v1, series("m").at(n+90*minute, 9))
	s.deleteSeries(t, after, n, n+day, "m")
	s.flush(t)
	if status, body := s.admin(t, "POST", "clean_tombstones", nil); status != http.StatusNoContent {
		t.Fatalf("%d %q", status, body)
	}
	s.holds(t, after, "the server itself")
	for dir, want := range map[string]*model{small: blocksOnly, whole: m} {
		if out, err := exec.Command(program, "check", dir).CombinedOutput(); err != nil {
			t.Errorf("check %s: %v\n%s", dir, err, out)
		}
		r := startIn(t, dir) // as it lies
		r.holds(t, want, "the snapshot as it lies")
		r.term(t)
	}
	// mv data data.before; cp -r data.before/snapshots/NAME data
	s.term(t)
	before := s.dir + ".before"
	if err := os.Rename(s.dir, before); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-r", filepath.Join(before, "snapshots", filepath.Base(whole)), s.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if out, err := exec.Command(program, "check", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("check: %v\n%s", err, out)
	}
	s.up(t)
	s.holds(t, m, "restored")
	s.store(t, m, v1, series("m").at(n+91*minute, 10), series("m", "new", "1").at(n, 11))
	s.crash(t)
	s.readBack(t, m)
}

// Deletes race writes, flushes and snapshots of other series: each writer always reads what it
// wrote and did not delete.
func TestDeletesRaceWritesAndFlushes(t *testing.T) {
	t.Parallel()
	s, n := start(t), nowMs()-2*day
	var wg sync.WaitGroup
	var done atomic.Bool
	models := make([]*model, 3)
	for w := range models {
		m, name := newModel(), fmt.Sprint("racer_", w)
		models[w] = m
		wg.Go(func() {
			for k := range int64(rounds(25, 100)) {
				e := series(name)
				for i := range int64(20) {
					e = e.at(n+(k*13%40)*30*minute+i*second, float64(k*100+i))
				}
				s.store(t, m, version(1+k%2), e)
				if k%4 == 3 {
					lo := n + (k*7%40)*30*minute
					s.deleteSeries(t, m, lo, lo+3*hour, name)
				}
				if got := s.read(t, samplesMode, query(-1<<62, 1<<62, eq("__name__", name)))[0]; diff(got, m.all()) != "" {
					t.Errorf("round %d: %s", k, diff(got, m.all()))
					return
				}
			}
		})
	}
	flushing := make(chan struct{})
	go func() {
		defer close(flushing)
		for k := 0; !done.Load(); k++ {
			name := []string{"flush", "clean_tombstones", "flush", "snapshot"}[k%4]
			if status, body := s.admin(t, "POST", name, nil); status/100 != 2 {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
	}()
	wg.Wait()
	done.Store(true)
	<-flushing
	all := newModel()
	for _, m := range models {
		for k, tr := range m.tracks {
			all.tracks[k] = tr
		}
	}
	s.crash(t)
	s.readBack(t, all)
}
