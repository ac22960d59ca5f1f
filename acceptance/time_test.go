package acceptance

import (
	"math"
	"net/http"
	"strconv"
	"testing"
)

// Gaps and jumps of every width come back exactly.
func TestTimestampGapsOfEveryWidth(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--storage.retention.time=100d"), newModel()
	n := nowMs()
	base := n - 60*day
	steps := []int64{1<<7 - 1, 1 << 7, 1<<13 - 1, 1 << 13, 1<<13 + 1, 1<<16 - 1, 1 << 16, 1<<19 - 1, 1 << 19, 1<<19 + 1,
		1<<20 - 1, 1 << 20, 1<<24 - 1, 1 << 24, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 1, 1 << 32, 1<<32 + 1}
	both(t, func(t *testing.T, v version) {
		name := func(n string) entry { return series("gap", "v", v.String(), "n", n) }
		e := name("months")
		for _, at := range []int64{0, 1, 2, 25 * day, 25*day + 1, 50 * day} {
			e = e.at(base+at, float64(at))
		}
		s.store(t, m, v, e)
		s.store(t, m, v, name("first delta").at(base, 1).at(base+30*day, 2).at(base+30*day+1, 3))
		for _, step := range steps {
			// A step out, back to the usual 1 s, and the same the other way about.
			n := strconv.FormatInt(step, 10)
			e := name(n)
			at := base
			for _, d := range []int64{second, second, step, second, second, 1, step, step, step + 1, step - 1, second} {
				at += d
				if at <= nowMs() {
					e = e.at(at, float64(d))
				}
			}
			s.store(t, m, v, e)
			// The same samples one by one, the late ones last.
			one := name(n + " late")
			for i := range e.samples {
				i = (i*7 + 3) % len(e.samples)
				s.store(t, m, v, one.at(e.samples[i].t, e.samples[i].v))
			}
		}
	})
	s.readBack(t, m)
}

// Where everything is kept, time 0, times before it and the ends of the range are
// times like any other: what is acknowledged is readable.
func TestTimesAtTheirExtremes(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--storage.retention.time=0"), newModel()
	n := nowMs()
	ordinary := []int64{-253402300800000, -day * 365 * 100, -hour, -7_200_001, -7_200_000, -1001, -2, -1, 0, 1, 2, 7_199_999, 7_200_000, 1 << 31, 1 << 32, n - hour, n, n + 9*minute}
	extreme := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -1<<53 - 1, -1 << 53, -9223309901257974}
	both(t, func(t *testing.T, v version) {
		one := series("ends", "v", v.String(), "n", "ordinary")
		for _, at := range ordinary {
			one = one.at(at, float64(at))
		}
		s.store(t, m, v, one)
		for i := range ordinary { // the same, one by one and backwards
			at := ordinary[len(ordinary)-1-i]
			s.store(t, m, v, series("ends", "v", v.String(), "n", "backwards").at(at, float64(at)))
			s.store(t, m, v, series("ends", "v", v.String(), "n", "histograms").hist(at, intHistogram(i)))
		}
		for _, at := range extreme {
			for _, e := range []entry{
				series("ends", "v", v.String(), "n", "extreme").at(at, 1),
				series("ends", "v", v.String(), "n", "ordinary").at(at, 2),
				series("ends", "v", v.String(), "n", "extreme histogram").hist(at, intHistogram(1)),
			} {
				if a := s.survives(t, m, packed(v, encode(v, e))); a.status == http.StatusNoContent {
					m.write(e)
				} else {
					a.is(t, http.StatusBadRequest).wrote(t, v, 0, 0, 0)
				}
			}
		}
		for _, at := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 62, 1 << 53, n + hour} {
			a := s.survives(t, m, packed(v, encode(v, series("ends", "v", v.String(), "n", "future").at(at, 1).hist(at, intHistogram(1)))))
			a.is(t, http.StatusBadRequest).wrote(t, v, 0, 0, 0)
		}
	})
	s.readBack(t, m)
	// Both ends of a read are inclusive, at any value.
	for _, r := range [][2]int64{{0, 0}, {-1, 0}, {-1, -1}, {math.MinInt64, -1}, {math.MinInt64, math.MinInt64}, {math.MaxInt64, math.MaxInt64},
		{0, math.MaxInt64}, {n, n}, {n + 1, n}, {math.MaxInt64, math.MinInt64}, {-9223309901257974000, 9223309901257974000}} {
		if d := diff(s.readBoth(t, query(r[0], r[1], everything)), m.within(r[0], r[1])); d != "" {
			t.Errorf("read of [%d, %d]:\n%s", r[0], r[1], d)
		}
	}
}

// cut returns the number of samples that a refusal took from one end of a run of
// samples 1 ms apart, and checks that it took them from that end only.
func cut(t testing.TB, got result, from int64, count int, end string) (kept int) {
	t.Helper()
	if len(got) != 1 {
		t.Fatalf("%d series, want 1", len(got))
	}
	points := got[0].points
	for i, p := range points {
		if i > 0 && p.t != points[i-1].t+1 {
			t.Fatalf("a hole between %d and %d", points[i-1].t, p.t)
		}
	}
	first, last := points[0].t, points[len(points)-1].t
	if end == "last" && first != from || end == "first" && last != from+int64(count)-1 {
		t.Fatalf("kept [%d, %d] of [%d, %d]", first, last, from, from+int64(count)-1)
	}
	return len(points)
}

// A sample is accepted up to and including ten minutes from now, and not a
// millisecond more, by the receiver's clock.
func TestFutureBoundIsInclusive(t *testing.T) {
	t.Parallel()
	s := start(t)
	both(t, func(t *testing.T, v version) {
		const count = 4000
		e := series("future", "v", v.String())
		before := nowMs()
		from := before + 10*minute - second
		for i := range int64(count) {
			e = entry{labels: e.labels, samples: append(e.samples, sample{t: from + i, v: 1})}
		}
		before = nowMs()
		a := s.post(t, v, e)
		after := nowMs()
		if after > from+count-10*minute {
			t.Fatal("the machine is too slow for this test")
		}
		a.is(t, http.StatusBadRequest)
		kept := cut(t, s.readBoth(t, query(from, from+count, eq("v", v.String()))), from, count, "last")
		a.wrote(t, v, kept, 0, 0)
		last := from + int64(kept) - 1
		if last < before+10*minute || last > after+10*minute {
			t.Errorf("the last accepted is %d ms past now+10m at the request, which took %d ms", last-before-10*minute, after-before)
		}
	})
}

// A late sample is accepted down to and including the window's start.
func TestWindowBoundIsInclusive(t *testing.T) {
	t.Parallel()
	s := start(t, "--ooo.window=1h")
	both(t, func(t *testing.T, v version) {
		const count = 4000
		e := series("window", "v", v.String())
		s.post(t, v, e.at(nowMs(), 1)).is(t, http.StatusNoContent)
		from := nowMs() - hour - second
		for i := range int64(count) {
			e = entry{labels: e.labels, samples: append(e.samples, sample{t: from + i, v: 1})}
		}
		before := nowMs()
		a := s.post(t, v, e)
		after := nowMs()
		if after > from+count+hour {
			t.Fatal("the machine is too slow for this test")
		}
		a.is(t, http.StatusBadRequest)
		kept := cut(t, s.readBoth(t, query(from, from+count, eq("v", v.String()))), from, count, "first")
		a.wrote(t, v, kept, 0, 0)
		first := from + int64(count-kept)
		if first < before-hour || first > after-hour {
			t.Errorf("the first accepted is %d ms from the window's start at the request, which took %d ms", first-before+hour, after-before)
		}
	})
}

// In order is a matter of the series alone: no other series, and no far or wrong
// sample of it that was refused, moves what it may send.
func TestNoSampleMovesTheBounds(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--ooo.window=1h"), newModel()
	n := nowMs()
	both(t, func(t *testing.T, v version) {
		name := func(n string) entry { return series("bound", "v", v.String(), "n", n) }
		s.store(t, m, v, name("newest").at(n+9*minute, 1))
		for _, age := range []int64{14 * day, 3 * day, 2 * hour} { // rising: each is in order
			s.store(t, m, v, name("rising").at(n-age, float64(age)))
		}
		s.post(t, v, name("rising").at(n+day, 1)).is(t, http.StatusBadRequest)
		s.store(t, m, v, name("rising").at(n-90*minute, 1))
		s.post(t, v, name("rising").at(n-3*hour, 1)).is(t, http.StatusBadRequest)
		s.store(t, m, v, name("rising").at(n, 1))
		s.post(t, v, name("rising").at(n-80*minute, 1)).is(t, http.StatusBadRequest)
		s.store(t, m, v, name("rising").at(n-50*minute, 1))
		// A stale marker and a histogram count as samples of the series.
		s.store(t, m, v, name("marker").at(n, staleNaN))
		s.post(t, v, name("marker").at(n-2*hour, 1)).is(t, http.StatusBadRequest)
		s.store(t, m, v, name("hist").hist(n, intHistogram(1)))
		s.post(t, v, name("hist").at(n-2*hour, 1)).is(t, http.StatusBadRequest)
		s.store(t, m, v, name("hist").at(n-30*minute, 1))
		// An exemplar is no sample.
		s.store(t, m, v, name("exemplar").exemplar(n, 1, "trace_id", "x"))
		s.store(t, m, v, name("exemplar").at(n-3*hour, 1))
	})
	s.readBack(t, m)
}

// Turning the window off or narrowing it refuses new late samples and nothing that was accepted.
func TestNarrowerWindowKeepsWhatWasAccepted(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--ooo.window=2h"), newModel()
	n := nowMs()
	e := series("narrow")
	s.store(t, m, v1, e.at(n, 1), series("narrow_hist").hist(n, intHistogram(1)))
	s.store(t, m, v2, e.at(n-hour, 2).at(n-hour+1, 3), series("narrow_hist").hist(n-hour, intHistogram(2)))
	for _, window := range []string{"0s", "10m", "2h", "0s"} {
		s.kill9(t)
		s.flags = []string{"--ooo.window=" + window}
		s.up(t)
		s.holds(t, m, "with --ooo.window="+window)
		late := e.at(n-30*minute, 4)
		if window == "2h" {
			s.store(t, m, v1, late)
		} else if !m.tracks[key(canonical(e.labels))].has(n - 30*minute) {
			s.post(t, v1, late).is(t, http.StatusBadRequest)
		}
		s.store(t, m, v1, e.at(nowMs(), 5))
	}
	s.readBack(t, m)
}
