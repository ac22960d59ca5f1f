package acceptance

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
)

// What is valid in a request is stored wherever the bad part of it stands, and the
// answer names the offender.
func TestGoodSamplesSurviveBadNeighbours(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--ooo.window=2h"), newModel()
	n := nowMs()
	both(t, func(t *testing.T, v version) {
		for where := range 3 {
			for name, bad := range badEntries(v, fmt.Sprintf("bad_%d_%d", v, where), n) {
				t.Run(fmt.Sprintf("%s at %d", name, where), func(t *testing.T) {
					if bad.before != nil {
						s.store(t, m, v, *bad.before)
					}
					good := []entry{
						series("good", "case", name, "v", v.String(), "where", fmt.Sprint(where), "n", "1").at(n, 1),
						series("good", "case", name, "v", v.String(), "where", fmt.Sprint(where), "n", "2").at(n, 2),
					}
					entries := append(append(append([]entry{}, good[:where]...), bad.entry), good[where:]...)
					a := s.survives(t, m, packed(v, encode(v, entries...)))
					a.is(t, http.StatusBadRequest)
					a.wrote(t, v, 2+bad.samples, 0, 0)
					a.names(t, bad.words...)
					m.write(good...)
					m.write(bad.kept...)
				})
			}
		}
	})
	s.readBack(t, m)
}

// badEntry is an entry of which something is refused.
type badEntry struct {
	before  *entry // stored first
	entry   entry
	kept    []entry // what of entry is stored
	samples int     // how many samples that is
	words   []string
}

func badEntries(v version, name string, n int64) map[string]badEntry {
	live := series(name, "x", "late").at(n, 1)
	late := n - 3*hour
	lateHist := series(name, "x", "late_hist").hist(n, intHistogram(1))
	bad := map[string]badEntry{
		"too late": {
			before: &live, entry: series(name, "x", "late").at(late, 5),
			words: []string{name, `late`, strconv.FormatInt(late, 10), "5"},
		},
		"one of three too late": {
			before: &live, entry: series(name, "x", "late").at(n-1, 5).at(late, 6).at(n+1, 7), samples: 2,
			kept:  []entry{series(name, "x", "late").at(n-1, 5).at(n+1, 7)},
			words: []string{name, strconv.FormatInt(late, 10), "6"},
		},
		"too far ahead": {
			entry: series(name, "x", "future").at(n+hour, 5),
			words: []string{name, "future", strconv.FormatInt(n+hour, 10)},
		},
		"before retention": {
			entry: series(name, "x", "past").at(n-16*day, 5),
			words: []string{name, "past", strconv.FormatInt(n-16*day, 10)},
		},
		"late histogram": {
			before: &lateHist, entry: series(name, "x", "late_hist").hist(late, intHistogram(1)),
			words: []string{name, "late_hist", strconv.FormatInt(late, 10)},
		},
		"label twice":     {entry: series(name, "dup", "1", "dup", "2").at(n, 1), words: []string{name, "dup"}},
		"no name":         {entry: entry{labels: []string{"x", name}}.at(n, 1), words: []string{name}},
		"bad utf-8":       {entry: series(name, "x", "a\xff\xfeb").at(n, 1), words: []string{name}},
		"empty name":      {entry: series(name, "", "x").at(n, 1), words: []string{name}},
		"broken histgram": {entry: series(name).hist(n, &histogram.Histogram{Count: 3, PositiveSpans: []histogram.Span{{Length: 5}}, PositiveBuckets: []int64{1}}), words: []string{name}},
	}
	if v == v2 {
		delete(bad, "bad utf-8") // the library's encoder would still send it, its symbol is one of the request: see TestInvalidUTF8
	}
	return bad
}

// Several faults of several kinds in one request are each named, samples before
// histograms before exemplars, with a count for each reason.
func TestEveryReasonIsNamedInOrder(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--ooo.window=1h"), newModel()
	n := nowMs()
	s.store(t, m, v2, series("live").at(n, 1).exemplar(n, 1, "trace_id", "new"))
	a := s.post(t, v2,
		series("live").exemplar(n-2*hour, 1, "trace_id", "old"),
		series("late_hist").hist(n+hour, intHistogram(1)),
		series("live").at(n-2*hour, 2).at(n-3*hour, 3).at(n+1, 4),
		series("far").at(n+hour, 1),
	)
	a.is(t, http.StatusBadRequest).wrote(t, v2, 1, 0, 0)
	a.names(t, "live", "late_hist", "far", "2")
	order(t, a.body, "sample", "histogram", "exemplar")
	m.write(series("live").at(n+1, 4))
	s.readBack(t, m)
}

// order expects the words to stand in s, the first of each after the first of the one before.
func order(t testing.TB, s string, words ...string) {
	t.Helper()
	last := -1
	for _, w := range words {
		i := strings.Index(strings.ToLower(s), w)
		if i < 0 || i < last {
			t.Errorf("%q is not in its place (want the order %v): %q", w, words, s)
		}
		last = max(last, i)
	}
}

// What the sender did wrong and cannot mend by sending again is 400 and nothing else.
func TestPermanentFaultsAre400(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--ooo.window=2h"), newModel()
	n := nowMs()
	s.store(t, m, v1, series("live").at(n, 1))
	s.store(t, m, v1, series("live_hist").hist(n, intHistogram(1)))
	bad := map[string]entry{
		"1 ms beyond the window": series("live").at(n-2*hour-1, 1),
		"ten years old":          series("live").at(n-3650*day, 1),
		"ten years old, new":     series("old").at(n-3650*day, 1),
		"time 0":                 series("zero").at(0, 1),
		"first time":             series("first").at(math.MinInt64, 1),
		"last time":              series("last").at(math.MaxInt64, 1),
		"histogram late":         series("live_hist").hist(n-3*hour, intHistogram(1)),
		"histogram first time":   series("first").hist(math.MinInt64, intHistogram(1)),
		"label twice":            series("dup", "a", "1", "a", "1").at(n, 1),
		"label twice, one empty": series("dup", "a", "", "a", "1").at(n, 1),
		"no labels":              entry{}.at(n, 1),
		"schema 100":             series("h").hist(n, &histogram.Histogram{Schema: 100}),
		"bad buckets":            series("h").hist(n, &histogram.Histogram{Count: 1, PositiveBuckets: []int64{1}}),
		"many labels":            series("wide", manyLabels(1000)...).at(n, 1),
		"long labels":            series("long", "x", string(make([]byte, 3<<20))).at(n, 1),
	}
	for name, e := range bad {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, v version) {
				a := s.survives(t, m, packed(v, encode(v, e)))
				a.is(t, http.StatusBadRequest).wrote(t, v, 0, 0, 0)
			})
		})
	}
	s.readBack(t, m)
}

func manyLabels(n int) (kv []string) {
	for i := range n {
		kv = append(kv, fmt.Sprintf("l%05d", i), "x")
	}
	return kv
}

// The same request again is a success and counts as written, at once and after
// restarts; so is what relabelling drops on purpose.
func TestIgnoredOnPurposeCountsAsWritten(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "relabel.yml")
	err := os.WriteFile(rules, []byte("- source_labels: [__name__]\n  regex: unwanted\n  action: drop\n- regex: secret\n  action: labeldrop\n"), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	s, m := start(t, "--write.relabel-config="+rules), newModel()
	n := nowMs()
	entries := []entry{
		series("kept").at(n-5, 1).at(n, staleNaN).at(n+5, 3).exemplar(n, 1, "trace_id", "a"),
		series("kept_hist").hist(n, intHistogram(1)).fhist(n+1, floatHistogram(2)),
	}
	again := func(when string) {
		both(t, func(t *testing.T, v version) {
			a := s.post(t, v, entries...)
			a.is(t, http.StatusNoContent).wrote(t, v, 3, 2, 1)
			if t.Failed() {
				t.Log(when)
			}
		})
	}
	s.store(t, m, v2, entries...)
	again("at once")
	// As late samples too.
	s.store(t, m, v2, series("kept").at(n+10, 4), series("kept_hist").hist(n+10, intHistogram(4)))
	again("late")
	a := s.post(t, v2, series("unwanted", "i", "1").at(n, 1).at(n+1, 1), series("kept").at(n+20, 1), series("unwanted_hist", "secret", "x").hist(n, intHistogram(1)))
	a.is(t, http.StatusNoContent).wrote(t, v2, 3, 1, 0)
	m.write(series("kept").at(n+20, 1), series("unwanted_hist").hist(n, intHistogram(1)))
	a = s.post(t, v2, series("unwanted", "i", "1").at(n, 1), series("unwanted", "i", "2").hist(n, intHistogram(1)).exemplar(n, 1))
	a.is(t, http.StatusNoContent).wrote(t, v2, 1, 1, 1)
	a = s.post(t, v1, series("unwanted", "i", "3").at(n, 1))
	a.is(t, http.StatusNoContent)
	s.readBack(t, m)
	again("after restarts")
	s.holds(t, m, "after all was sent again")
}

// A duplicate of what is stored already is written even where the time bound
// would refuse a new sample.
func TestDuplicateBeyondTheWindowIsWritten(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--ooo.window=0s"), newModel()
	n := nowMs()
	both(t, func(t *testing.T, v version) {
		name := "dup_" + strconv.Itoa(int(v))
		for i := range int64(300) {
			s.store(t, m, v, series(name).at(n-1000+i, float64(i)))
		}
		for i := range int64(300) {
			s.store(t, m, v, series(name).at(n-1000+i, float64(i)))
		}
		a := s.post(t, v, series(name).at(n-1000+7, 8).at(n-1000+8, 8))
		a.is(t, http.StatusBadRequest).wrote(t, v, 1, 0, 0)
		a.names(t, name, strconv.FormatInt(n-1000+7, 10))
		a = s.post(t, v, series(name).hist(n-1000+9, intHistogram(1)))
		a.is(t, http.StatusBadRequest).wrote(t, v, 0, 0, 0)
	})
	s.readBack(t, m)
}

// The operator's switch turns a refusal into 204, and still nothing refused is stored.
func TestRefusedStatusSwitch(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--write.refused-status=204"), newModel()
	n := nowMs()
	both(t, func(t *testing.T, v version) {
		resp, err := s.try(s.client, packed(v, encode(v, series("m").at(n, 1), series("bad", "", "x").at(n, 1), series("far").at(n+hour, 1))))
		if err != nil {
			t.Fatal(err)
		}
		resp.is(t, http.StatusNoContent)
		resp.wrote(t, v, 1, 0, 0)
	})
	m.write(series("m").at(n, 1))
	s.readBack(t, m)
}

// At the series limit the known series go on and the new ones are refused for good.
func TestSeriesLimitKeepsKnownSeries(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--limits.series=10"), newModel()
	n := nowMs()
	batch := func(from, to int, t int64) (out []entry) {
		for i := from; i < to; i++ {
			out = append(out, series("m", "i", strconv.Itoa(i)).at(t, float64(i)))
		}
		return out
	}
	s.store(t, m, v1, batch(0, 10, n)...)
	both(t, func(t *testing.T, v version) {
		at := n + int64(v)
		a := s.post(t, v, append(batch(10, 15, at), batch(0, 10, at)...)...)
		a.is(t, http.StatusBadRequest).wrote(t, v, 10, 0, 0)
		a.names(t, "series", "limit", "5")
		m.write(batch(0, 10, at)...)
		// Another spelling of a known series is no new one.
		s.store(t, m, v, entry{labels: []string{"i", "3", "none", "", "__name__", "m"}}.at(at+10, 1))
	})
	s.readBack(t, m)
	s.post(t, v2, batch(10, 15, n)...).is(t, http.StatusBadRequest).wrote(t, v2, 0, 0, 0)
	s.store(t, m, v2, batch(0, 10, n+50)...)
	s.holds(t, m, "at the limit after restarts")
}
