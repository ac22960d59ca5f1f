package acceptance

import (
	"fmt"
	"math"
	"net/http"
	"testing"
)

// outliers are values that an encoding which looks at its neighbours would bend.
var outliers = []float64{
	1.5, 2.33, math.Inf(1), 16, 32, -1, 18446744073709551615, 1, 1<<53 + 2, 9007199254740993, 1e-300, math.MaxFloat64, math.Inf(-1),
	math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0, math.Copysign(0, -1), 0, 0.1, 0.2, 0.30000000000000004, -math.MaxFloat64,
	plainNaN, staleNaN, math.Float64frombits(0x7ff8000000000000), math.Float64frombits(0xfff8000000000001), math.Float64frombits(0x7ff0000000000001),
	math.Float64frombits(0x7fffffffffffffff), math.Float64frombits(0xffffffffffffffff), math.Float64frombits(0x7ff0000000000003), 1, 1, 1, 2.5e-308,
}

// Each value comes back with its bits, in order, late, merged and alone.
func TestOutliersLeaveTheirNeighboursAlone(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - 2*hour
	rnd := seeded(t, 18)
	both(t, func(t *testing.T, v version) {
		name := func(n string) entry { return series("outlier", "v", v.String(), "n", n) }
		request, single, late := name("one request"), name("one by one"), name("late")
		for i, x := range outliers {
			request = request.at(n+int64(i)*second, x)
			s.store(t, m, v, single.at(n+int64(i)*second, x))
			s.store(t, m, v, name(fmt.Sprintf("alone %x", math.Float64bits(x))).at(n, x))
		}
		s.store(t, m, v, request)
		for _, i := range rnd.Perm(len(outliers)) {
			s.store(t, m, v, late.at(n+int64(i)*second, outliers[i]))
		}
		// Smooth series with outliers put into them late.
		base := map[string]func(i int) float64{
			"counter": func(i int) float64 { return float64(i) * 7 }, "decimal": func(i int) float64 { return float64(i) / 100 },
			"constant": func(int) float64 { return 42 }, "huge": func(i int) float64 { return 1e15 + float64(i) }, "nan": func(int) float64 { return plainNaN },
		}
		for kind, f := range base {
			e := name("smooth " + kind)
			for i := range 500 {
				e = e.at(n+int64(i)*10*second, f(i))
			}
			s.store(t, m, v, e)
			for i, x := range outliers {
				s.store(t, m, v, name("smooth "+kind).at(n+int64(i*14)*10*second+5*second, x))
			}
		}
	})
	s.readBack(t, m)
}

// The name of a metric says nothing about its values.
func TestNamesCarryNoMeaning(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		var entries []entry
		for i := range 100 {
			entries = append(entries, series("x_total", "v", v.String(), "i", fmt.Sprint(i)).at(n, float64(i)))
		}
		for _, name := range []string{"x_bucket", "x_count", "x_sum", "x_total", "x_created", "x_info", "x", "scrape_series_added", "up", "le", "__x__"} {
			for i, x := range []float64{staleNaN, -1, 1.5, 1e300, math.Inf(1), 0} {
				entries = append(entries, series(name, "v", v.String(), "le", "1", "quantile", "0.5").at(n+int64(i), x))
				entries = append(entries, series(name, "v", v.String(), "le", "+Inf", "__type__", "counter", "__unit__", "s").at(n+int64(i), x))
			}
		}
		s.store(t, m, v, entries...)
	})
	s.readBack(t, m)
}

// Start times cost nothing: the real samples are stored, counted alone, and no
// sample is made up.
func TestStartTimesCostNothing(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	for name, st := range map[string]int64{
		"at the sample": n, "a second before": n - second, "after": n + second, "none": 0, "30 days ago": n - 30*day, "future": n + day, "1": 1, "-1": -1,
		"first": math.MinInt64, "last": math.MaxInt64,
	} {
		e := entry{labels: series("started", "st", name).labels}
		h := entry{labels: series("started_hist", "st", name).labels}
		for i := range int64(3) {
			e.samples = append(e.samples, sample{t: n + i*second, st: st, v: float64(i)})
			h.hists = append(h.hists, hist{t: n + i*second, st: st, h: intHistogram(int(i))})
		}
		s.store(t, m, v2, e, h)
		s.store(t, m, v2, e, h) // sent again
		// A reset: a new start, the same series; and one behind it.
		s.store(t, m, v2, entry{labels: e.labels, samples: []sample{{t: n + 10*second, st: n + 9*second, v: 0}, {t: n + 11*second, st: n + 9*second, v: 1}}})
		s.store(t, m, v2, entry{labels: e.labels, samples: []sample{{t: n + 5*second, st: st, v: 7}}})
		// A sample at the very start.
		s.store(t, m, v2, entry{labels: e.labels, samples: []sample{{t: n + 9*second, st: n + 9*second, v: 5}}})
		// The same sample with another start is the same sample.
		s.store(t, m, v2, entry{labels: e.labels, samples: []sample{{t: n, st: st / 2, v: 0}}})
	}
	// The older place of the field, and both places at once.
	body := cat(wireSymbols("", "__name__", "older"), wireBytes(5, wireRefs(1, 2), wireSample(n, 1), wireVarint(6, uint64(n-second))),
		wireBytes(5, wireRefs(1, 2), wireBytes(2, wireFixed64(1, math.Float64bits(2)), wireVarint(2, uint64(n+1)), wireVarint(3, uint64(n-1))), wireVarint(6, uint64(n-second))),
		wireBytes(5, wireVarint(6, math.MaxUint64), wireRefs(1, 2), wireSample(n+2, 3)))
	s.send(t, packed(v2, body)).is(t, http.StatusNoContent).wrote(t, v2, 3, 0, 0)
	m.write(series("older").at(n, 1).at(n+1, 2).at(n+2, 3))
	s.readBack(t, m)
}
