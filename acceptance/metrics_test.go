package acceptance

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	commonmodel "github.com/prometheus/common/model"
)

// scrape returns the values of all counters and gauges by their name and labels, as
// the text of the page spells them; the page must parse as a whole.
func (s *server) scrape(t testing.TB) map[string]float64 {
	t.Helper()
	status, body, err := s.get("/metrics")
	if err != nil || status != 200 {
		t.Fatalf("metrics: %d, %v", status, err)
	}
	p := expfmt.NewTextParser(commonmodel.UTF8Validation)
	if _, err := p.TextToMetricFamilies(strings.NewReader(body)); err != nil {
		t.Fatalf("metrics: %v", err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(body) {
		if sub := regexp.MustCompile(`^([a-z][^#]*) (\S+)\n$`).FindStringSubmatch(line); sub != nil {
			if out[sub[1]], err = strconv.ParseFloat(sub[2], 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// What the program counts adds up to what was sent, in each version, and a restart
// counts nothing again.
func TestCountersAddUp(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--ooo.window=2h"), newModel()
	n := nowMs()
	both(t, func(t *testing.T, v version) {
		e := series("count", "v", v.String())
		s.store(t, m, v, e.at(n-10, 1).at(n, 2))
		s.store(t, m, v, e.at(n-5, 3).hist(n-4, intHistogram(1)))                                              // late
		s.post(t, v, e.at(n-3*hour, 4).at(n+1, 5).at(n-4*hour, 6), series("bad", "a", "1", "a", "2").at(n, 1)) // 2 too late, 1 bad
		m.write(e.at(n+1, 5))
		s.post(t, v, entry{labels: []string{"v", v.String(), "__name__", "count"}}.at(n+2, 6)) // another spelling
		m.write(e.at(n+2, 6))
		s.send(t, request{v: v, body: []byte("nonsense")})
	})
	got := s.scrape(t)
	want := map[string]float64{
		"rwsink_head_series": 2,
		`rwsink_head_samples_accepted_total{order="in_order"}`:  2 * 4,
		`rwsink_head_samples_accepted_total{order="late"}`:      2 * 2,
		"rwsink_write_received_samples_total":                   2 * 8,
		"rwsink_write_received_histograms_total":                2 * 1,
		`rwsink_write_requests_total{code="204",version="1.0"}`: 3,
		`rwsink_write_requests_total{code="400",version="1.0"}`: 2,
		`rwsink_write_requests_total{code="204",version="2.0"}`: 3,
		`rwsink_write_requests_total{code="400",version="2.0"}`: 2,
		"rwsink_write_requests_in_flight":                       0,
		"rwsink_wal_write_errors_total":                         0,
		"rwsink_clock_suspect":                                  0,
		"rwsink_head_sample_lateness_seconds_count":             2 * 6,
		"rwsink_head_sample_disorder_seconds_count":             2 * 6,
		"rwsink_write_refused_requests_answered_ok_total":       0,
	}
	for name, x := range want {
		if y, ok := got[name]; !ok || y != x {
			t.Errorf("%s is %v (there: %v), want %v", name, y, ok, x)
		}
	}
	refused := 0.0
	for name, x := range got {
		if strings.HasPrefix(name, "rwsink_write_refused_total{") {
			refused += x
		}
	}
	if refused != 2*3 {
		t.Errorf("%v were refused, want 6", refused)
	}
	s.readBack(t, m)
	got = s.scrape(t)
	for name, x := range got {
		if x != 0 && (strings.HasPrefix(name, "rwsink_head_samples_accepted") || strings.HasPrefix(name, "rwsink_write_received") || strings.HasPrefix(name, "rwsink_head_sample_lateness_seconds_count")) {
			t.Errorf("%s is %v after a restart", name, x)
		}
	}
	if got["rwsink_head_series"] != 2 {
		t.Errorf("%v series after a restart", got["rwsink_head_series"])
	}
}

// The lowest time falls at once when older data comes, and is kept over a restart.
func TestLowestTimestampFallsAtOnce(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs()
	const name = "prometheus_tsdb_lowest_timestamp_seconds"
	for _, age := range []int64{0, minute, 3 * hour, 2 * day, 14 * day, hour} {
		s.store(t, m, v2, series("m").at(n-age, 1))
		low := m.all()[0].points[0].t
		if got := s.scrape(t)[name]; int64(got*1000) > low || int64(got*1000) < low-day {
			t.Errorf("%v, want at most %v and not long before", got, float64(low)/1000)
		}
	}
	s.crash(t)
	low := m.all()[0].points[0].t
	if got := s.scrape(t)[name]; int64(got*1000) > low || int64(got*1000) < low-day {
		t.Errorf("after a restart: %v, want at most %v and not long before", got, float64(low)/1000)
	}
	s.readBack(t, m)
}
