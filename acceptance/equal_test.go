package acceptance

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// Two values for one timestamp end as the last number, by whatever way they come.
func TestLastNumberWinsOnEveryRoute(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		name := func(route string) entry { return series("eq", "v", v.String(), "route", route) }
		s.store(t, m, v, name("two requests").at(n, 1))
		s.store(t, m, v, name("two requests").at(n, 2))

		s.store(t, m, v, name("one entry").at(n, 1).at(n, 2))
		s.store(t, m, v, name("two entries").at(n, 1), name("two entries").at(n, 2))
		s.store(t, m, v, name("two entries, first late").at(n+9, 9), name("two entries, first late").at(n, 2).at(n, 1))

		s.store(t, m, v, name("late").at(n+10, 9))
		s.store(t, m, v, name("late").at(n, 1))
		s.store(t, m, v, name("late").at(n, 2))
		s.store(t, m, v, name("late, one entry").at(n+10, 9))
		s.store(t, m, v, name("late, one entry").at(n, 1).at(n+3, 1).at(n, 2))

		// Into what was sealed long ago, and into what was merged late and sealed again.
		for i := range int64(700) {
			s.store(t, m, v, name("sealed").at(n+i*1000, float64(i)))
		}
		for _, i := range []int64{0, 1, 119, 120, 121, 239, 240, 241, 350, 698, 699} {
			s.store(t, m, v, name("sealed").at(n+i*1000, -1))
			s.store(t, m, v, name("sealed").at(n+i*1000+1, -2))
			s.store(t, m, v, name("sealed").at(n+i*1000+1, -3))
		}
		// Back and forth: the last one counts, not the first of its bits.
		for _, x := range []float64{1, 2, 1, 3, 2, 1, 2} {
			s.store(t, m, v, name("back and forth").at(n, x))
			s.store(t, m, v, name("back and forth late").at(n+1, 0).at(n, x))
		}
		// Bits decide what is equal: NaN is a number, and the zeros differ.
		for i, x := range []float64{plainNaN, math.Float64frombits(0x7ff8000000000123), 0, math.Copysign(0, -1)} {
			s.store(t, m, v, name("bits").at(n, x))
			s.store(t, m, v, name("bits each").at(n+int64(i), 1))
			s.store(t, m, v, name("bits each").at(n+int64(i), x))
		}
	})
	s.readBack(t, m)
	// And a conflict with what a restart has replayed.
	both(t, func(t *testing.T, v version) {
		for _, i := range []int64{0, 5, 120, 600, 699} {
			s.store(t, m, v, series("eq", "v", v.String(), "route", "sealed").at(n+i*1000, -4))
		}
	})
	s.readBack(t, m)
}

// A number wins over a stale marker at its time in whatever order they come, and a
// marker between samples is kept where it was put.
func TestStaleMarkersNeverCostNumbers(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	t0 := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		name := func(route string) entry { return series("stale", "v", v.String(), "route", route) }
		for i := range int64(11) {
			s.store(t, m, v, name("late").at(t0+i*10*second, float64(i)))
		}
		s.store(t, m, v, name("late").at(t0+55*second, staleNaN))  // between two samples
		s.store(t, m, v, name("late").at(t0+50*second, staleNaN))  // on a number
		s.store(t, m, v, name("late").at(t0+100*second, staleNaN)) // on the newest number
		s.store(t, m, v, name("late").at(t0+101*second, staleNaN)) // in order
		s.store(t, m, v, name("late").at(t0+101*second, 5))        // the number comes after
		s.store(t, m, v, name("late").at(t0+55*second, 6))
		s.store(t, m, v, name("late").at(t0+15*second, staleNaN))
		s.store(t, m, v, name("late").at(t0+15*second, staleNaN))

		s.store(t, m, v, name("one request").at(t0, 1).at(t0, staleNaN).at(t0+1, staleNaN).at(t0+1, 1))
		s.store(t, m, v, name("two entries").at(t0, staleNaN), name("two entries").at(t0, 1), name("two entries").at(t0, staleNaN))

		marker := intHistogram(3)
		marker.Sum = staleNaN
		s.store(t, m, v, name("histograms").hist(t0, intHistogram(1)).hist(t0+10, intHistogram(2)))
		s.store(t, m, v, name("histograms").hist(t0+5, marker))
		s.store(t, m, v, name("histograms").hist(t0, marker))
		s.store(t, m, v, name("histograms").hist(t0+20, marker))
		s.store(t, m, v, name("float marker on histogram").hist(t0, intHistogram(1)).hist(t0+10, intHistogram(2)))
		s.store(t, m, v, name("float marker on histogram").at(t0, staleNaN))
		s.store(t, m, v, name("float marker on histogram").at(t0+5, staleNaN))
		s.store(t, m, v, name("histogram marker on float").at(t0, 1).at(t0+10, 2))
		s.store(t, m, v, name("histogram marker on float").hist(t0, marker))
		// Of two markers of different kinds the last stays, in order and late.
		for _, late := range []bool{false, true} {
			e := name(fmt.Sprintf("two markers, late %v", late))
			if late {
				s.store(t, m, v, e.at(t0+100, 1))
			}
			s.store(t, m, v, e.at(t0, staleNaN))
			s.store(t, m, v, e.hist(t0, marker))
			s.store(t, m, v, e.hist(t0+1, marker))
			s.store(t, m, v, e.at(t0+1, staleNaN))
			s.store(t, m, v, e.fhist(t0+2, marker.ToFloat(nil)))
			s.store(t, m, v, e.hist(t0+2, marker))
		}
	})
	s.readBack(t, m)
}

// Entries of one label set in one request are one series, new or known.
func TestOneSeriesInSeveralEntries(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--limits.series=2"), newModel()
	n := nowMs()
	both(t, func(t *testing.T, v version) {
		a, b := []string{"__name__", "twice", "v", v.String()}, []string{"v", v.String(), "empty", "", "__name__", "twice"}
		// Its first appearance: the limit holds one series a version, so a second would be refused.
		s.store(t, m, v,
			entry{labels: a}.at(n, 1), entry{labels: b}.at(n-5*second, 2), entry{labels: a}.at(n, 1),
			entry{labels: b}.at(n, 9).at(n-9*second, 4), entry{labels: a}.hist(n+1, intHistogram(1)), entry{labels: a}.exemplar(n, 1, "trace_id", "x"))
		s.store(t, m, v, entry{labels: b}.at(n-7*second, 1), entry{labels: a}.at(n+2*second, 1), entry{labels: a}.at(n+second, 3))
	})
	if got := len(s.readAll(t, samplesMode)); got != 2 {
		t.Errorf("%d series, want 2", got)
	}
	s.readBack(t, m)
}

// Samples in any order inside one request are all kept, even where no late sample is taken.
func TestShuffledInsideOneRequestWithoutWindow(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--ooo.window=0s"), newModel()
	rnd := seeded(t, 11)
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		for _, fresh := range []bool{true, false} {
			e := series("mixed", "v", v.String(), "fresh", strconv.FormatBool(fresh))
			if !fresh {
				s.store(t, m, v, e.at(n-1, 0))
			}
			for _, i := range rnd.Perm(1000) {
				e = e.at(n+int64(i)*second, float64(i))
			}
			half := entry{labels: e.labels, samples: e.samples[500:]}
			e.samples = e.samples[:500]
			s.store(t, m, v, e, half)
		}
	})
	s.readBack(t, m)
}

// Writers that race on the same timestamps leave one of their values at each, and
// it is the same before and after a crash.
func TestRaceOnEqualTimestampsIsDecidedOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	const times, batch = 1000, 10
	n := nowMs() - hour
	rnd := seeded(t, 5)
	orders := [][]int{rnd.Perm(times / batch), rnd.Perm(times / batch), rnd.Perm(times / batch), rnd.Perm(times / batch)}
	var wg sync.WaitGroup
	for w, order := range orders {
		if w < 2 { // two writers go through the same times in the same order, two at random
			for i := range order {
				order[i] = i
			}
		}
		v := version(1 + w%2)
		wg.Go(func() {
			for _, b := range order {
				e, h := series("race", "kind", "float"), series("race", "kind", "mixed")
				for i := range batch {
					at := n + int64(b*batch+i)*second
					e = e.at(at, float64(w))
					if w%2 == 0 {
						h = h.at(at, float64(w))
					} else {
						h = h.hist(at, intHistogram(w))
					}
				}
				s.post(t, v, e, h).is(t, http.StatusNoContent)
			}
		})
	}
	wg.Wait()
	before := s.readAll(t, samplesMode)
	if len(before) != 2 || len(before[0].points) != times || len(before[1].points) != times {
		t.Fatalf("%d series, want 2 with %d samples each", len(before), times)
	}
	for i, p := range before[0].points {
		if p.t != n+int64(i)*second || p.v < 0 || p.v >= float64(len(orders)) {
			t.Fatalf("sample %d is %v", i, p)
		}
	}
	if d := diff(s.readAll(t, streamedMode), before); d != "" {
		t.Errorf("the modes differ:\n%s", d)
	}
	for _, again := range []struct {
		how string
		do  func(testing.TB)
	}{{"SIGKILL", s.crash}, {"SIGTERM", s.restart}, {"SIGKILL", s.crash}} {
		again.do(t)
		for _, mode := range modes {
			if d := diff(s.readAll(t, mode), before); d != "" {
				t.Errorf("%v changed what is read after %s:\n%s", mode, again.how, d)
			}
		}
	}
}

// A request sent many times at once is stored once.
func TestSameRequestSentInParallel(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	var entries []entry
	for i := range 50 {
		e := series("parallel", "i", fmt.Sprint(i))
		for k := range int64(20) {
			e = e.at(n+k*second, float64(i)+float64(k))
		}
		entries = append(entries, e.hist(n+100*second, intHistogram(i)).exemplar(n, float64(i), "trace_id", fmt.Sprint(i)))
	}
	var wg sync.WaitGroup
	for w := range 16 {
		v := version(1 + w%2)
		wg.Go(func() {
			for range 4 {
				a := s.post(t, v, entries...)
				a.is(t, http.StatusNoContent).wrote(t, v, 1000, 50, 50)
			}
		})
	}
	wg.Wait()
	m.write(entries...)
	s.readBack(t, m)
}
