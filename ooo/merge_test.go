package ooo_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// same compares what came out with what the model says.
func same(got, want []event) error {
	for i := range min(len(got), len(want)) {
		if g, w := got[i], want[i]; g.t != w.t || g.st != w.st || g.val() != w.val() || g.hint() != w.hint() {
			return fmt.Errorf("sample %d: got %v, want %v", i, g, w)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("got %d samples, want %d", len(got), len(want))
	}
	return nil
}

func TestMergeAgainstModel(t *testing.T) {
	var m ooo.Merger // shared: what one merge leaves behind must not reach the next
	rapid.Check(t, func(t *rapid.T) {
		kinds, starts := drawShape(t)
		base, late := drawBase(t, kinds, starts), drawLate(t, kinds, starts)
		in := runsOf(base, func(event) bool { return rapid.IntRange(0, 9).Draw(t, "cut") == 0 })

		all := model{}
		all.arrive(base...)
		all.arrive(late...)
		want, wantStats := all.answer()

		runs, stats := m.Merge(in, bufferOf(late))
		if err := wellFormed(runs); err != nil {
			t.Fatal(err)
		}
		got := eventsOf(runs)
		if err := same(got, want); err != nil {
			t.Fatal(err)
		}
		if stats != wantStats {
			t.Fatalf("stats: got %+v, want %+v", stats, wantStats)
		}
		if err := same(eventsOf(in), base); err != nil {
			t.Fatalf("the base changed: %v", err)
		}
	})
}

// Any split of the same arrivals into a base and late parts, merged in any
// number of passes, gives what one pass gives.
func TestMergePassesAreAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds, starts := drawShape(t)
		base, late := drawBase(t, kinds, starts), drawLate(t, kinds, starts)

		var one ooo.Merger
		runs, wantStats := one.Merge(runsOf(base, whole), bufferOf(late))
		want := eventsOf(runs)

		var stats ooo.Stats
		pass := runsOf(base, whole)
		for rest := late; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			m := new(ooo.Merger)
			out, st := m.Merge(pass, bufferOf(rest[:n]))
			pass, rest = out, rest[n:]
			stats.Duplicates += st.Duplicates
			stats.Overwritten += st.Overwritten
		}
		got := eventsOf(pass)
		if err := same(got, want); err != nil {
			t.Fatal(err)
		}
		if stats != wantStats {
			t.Fatalf("stats: got %+v, in one pass %+v", stats, wantStats)
		}
	})
}

// Whichever samples are base and whichever late, as long as those of one
// timestamp arrive in one order, the answer is the same.
func TestMergeAnySplitOfOneSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds, starts := drawShape(t)
		arrivals := drawLate(t, kinds, starts)
		all := model{}
		all.arrive(arrivals...)
		want, _ := all.answer()

		// What is newer than all before it and drawn to be in order is base.
		var base, late []event
		for _, e := range arrivals {
			if rapid.Bool().Draw(t, "base") && (len(base) == 0 || e.t > base[len(base)-1].t) && !arrived(late, e.t) {
				base = append(base, e)
			} else {
				late = append(late, e)
			}
		}
		var m ooo.Merger
		runs, _ := m.Merge(runsOf(base, whole), bufferOf(late))
		if err := same(eventsOf(runs), want); err != nil {
			t.Fatal(err)
		}
	})
}

func arrived(events []event, t int64) bool {
	for _, e := range events {
		if e.t == t {
			return true
		}
	}
	return false
}

// The rule for equal timestamps, case by case.
func TestMergeRule(t *testing.T) {
	f := func(v float64) event { return event{t: 5, v: v} }
	fs := func(v float64, st int64) event { return event{t: 5, st: st, v: v} }
	h := func(n uint64) event { return event{t: 5, h: &histogram.Histogram{Count: n, ZeroCount: n}} }
	fh := func(n float64) event { return event{t: 5, fh: &histogram.FloatHistogram{Count: n, ZeroCount: n}} }
	hStale := event{t: 5, h: &histogram.Histogram{Sum: stale}}
	hStaleFull := event{t: 5, h: &histogram.Histogram{Sum: stale, Count: 3, ZeroCount: 3}}
	nan, nan2 := f(math.NaN()), f(math.Float64frombits(0x7ff8000000000002))
	for _, c := range []struct {
		name        string
		arrivals    []event
		want        event
		dup, overwr int
	}{
		{"later number", []event{f(1), f(2)}, f(2), 0, 1},
		{"same bits", []event{f(1), f(1), f(1)}, f(1), 2, 0},
		{"both zeros differ", []event{f(0), f(math.Copysign(0, -1))}, f(math.Copysign(0, -1)), 0, 1},
		{"back to the first", []event{f(1), f(2), f(1)}, f(1), 0, 2},
		{"stale against a number", []event{f(1), f(stale)}, f(1), 0, 1},
		{"number against stale", []event{f(stale), f(1)}, f(1), 0, 1},
		{"stale twice", []event{f(stale), f(stale)}, f(stale), 1, 0},
		{"an ordinary NaN is a number", []event{f(stale), nan, f(stale)}, nan, 0, 2},
		{"NaN payloads differ", []event{nan, nan2}, nan2, 0, 1},
		{"same NaN", []event{nan, nan}, nan, 1, 0},
		{"start timestamp alone", []event{fs(1, 3), fs(1, 4)}, fs(1, 4), 0, 1},
		{"start timestamp gone", []event{fs(1, 3), f(1)}, f(1), 0, 1},
		{"stale with a start against a number", []event{f(1), fs(stale, 4)}, f(1), 0, 1},
		{"histogram over float", []event{f(1), h(4)}, h(4), 0, 1},
		{"float over histogram", []event{h(4), f(1)}, f(1), 0, 1},
		{"float histogram over histogram", []event{h(4), fh(4)}, fh(4), 0, 1},
		{"same histogram", []event{h(4), h(4)}, h(4), 1, 0},
		{"same float histogram", []event{fh(4), fh(4)}, fh(4), 1, 0},
		{"stale histogram against a float", []event{f(1), hStale}, f(1), 0, 1},
		{"stale float against a histogram", []event{h(1), f(stale)}, h(1), 0, 1},
		{"last stale of two kinds", []event{f(stale), hStale}, hStale, 0, 1},
		{"of a stale histogram only the sum counts", []event{hStale, hStaleFull}, hStale, 1, 0},
		{"number between stales of two kinds", []event{f(stale), h(2), hStale}, h(2), 0, 2},
	} {
		for split := range min(len(c.arrivals), 2) { // all late, or the first one in the base
			t.Run(fmt.Sprintf("%s/%d in base", c.name, split), func(t *testing.T) {
				var m ooo.Merger
				runs, stats := m.Merge(runsOf(c.arrivals[:split], whole), bufferOf(c.arrivals[split:]))
				got := eventsOf(runs)
				if err := same(got, []event{c.want}); err != nil {
					t.Fatal(err)
				}
				if want := (ooo.Stats{Duplicates: c.dup, Overwritten: c.overwr}); stats != want {
					t.Fatalf("stats: got %+v, want %+v", stats, want)
				}
			})
		}
		if len(c.arrivals) == 2 {
			a, b := runsOf(c.arrivals[:1], whole)[0], runsOf(c.arrivals[1:], whole)[0]
			if ooo.Same(a, 0, b, 0) != (c.dup == 1) {
				t.Errorf("%s: the two are the same: %v", c.name, c.dup != 1)
			}
			if ooo.Stale(a, 0) != c.arrivals[0].stale() || ooo.Stale(b, 0) != c.arrivals[1].stale() {
				t.Errorf("%s: stale markers: %v, %v", c.name, ooo.Stale(a, 0), ooo.Stale(b, 0))
			}
		}
	}
}

// A duplicate leaves the sample that stands there, hint included.
func TestMergeDuplicateKeepsHints(t *testing.T) {
	mk := func(at int64, n uint64, hint histogram.CounterResetHint) event {
		return event{t: at, h: &histogram.Histogram{Count: n, ZeroCount: n, CounterResetHint: hint}}
	}
	base := []event{mk(1, 1, histogram.CounterReset), mk(2, 2, histogram.NotCounterReset), mk(3, 3, histogram.NotCounterReset)}
	var m ooo.Merger
	runs, stats := m.Merge(runsOf(base, whole), bufferOf([]event{mk(2, 2, histogram.CounterReset)}))
	for i, e := range eventsOf(runs) {
		if e.h != base[i].h {
			t.Errorf("sample %d is not the base's object: %v", i, e)
		}
	}
	if stats != (ooo.Stats{Duplicates: 1}) {
		t.Errorf("stats: %+v", stats)
	}
}

// whole cuts nowhere.
func whole(event) bool { return false }

// Hints stay with their samples, case by case.
func TestMergeHints(t *testing.T) {
	const (
		unknown = histogram.UnknownCounterReset
		reset   = histogram.CounterReset
		none    = histogram.NotCounterReset
		gauge   = histogram.GaugeType
	)
	mk := func(at int64, n uint64, hint histogram.CounterResetHint) event {
		return event{t: at, h: &histogram.Histogram{Count: n, ZeroCount: n, CounterResetHint: hint}}
	}
	for _, c := range []struct {
		name       string
		base, late []event
		want       []histogram.CounterResetHint
	}{
		{"between", []event{mk(1, 40, unknown), mk(4, 30, none)}, []event{mk(2, 40, unknown), mk(3, 10, none)},
			[]histogram.CounterResetHint{unknown, unknown, none, none}},
		{"explicit reset, another predecessor", []event{mk(1, 10, unknown), mk(8, 5, reset)}, []event{mk(5, 3, unknown)},
			[]histogram.CounterResetHint{unknown, unknown, reset}},
		{"late explicit reset", []event{mk(1, 10, unknown), mk(8, 50, unknown)}, []event{mk(5, 30, reset)},
			[]histogram.CounterResetHint{unknown, reset, unknown}},
		{"explicit reset, overwritten", []event{mk(1, 10, unknown), mk(8, 50, reset)}, []event{mk(8, 51, unknown)},
			[]histogram.CounterResetHint{unknown, unknown}},
		{"explicit reset, the same predecessor", []event{mk(1, 10, unknown), mk(8, 5, reset), mk(9, 6, none)}, []event{mk(20, 7, none)},
			[]histogram.CounterResetHint{unknown, reset, none, none}},
		{"gauges", []event{mk(1, 10, gauge), mk(8, 5, gauge)}, []event{mk(5, 30, gauge)},
			[]histogram.CounterResetHint{gauge, gauge, gauge}},
		{"overwritten", []event{mk(1, 10, unknown), mk(2, 11, none), mk(3, 12, none), mk(4, 13, none)}, []event{mk(2, 50, none)},
			[]histogram.CounterResetHint{unknown, none, none, none}},
		{"a float between", []event{mk(1, 10, unknown), mk(2, 11, none)}, []event{{t: 2, v: 1}, mk(3, 1, reset)},
			[]histogram.CounterResetHint{unknown, unknown, reset}},
		{"before all", []event{mk(5, 10, none), mk(6, 11, none)}, []event{mk(1, 99, none)},
			[]histogram.CounterResetHint{none, none, none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m ooo.Merger
			runs, _ := m.Merge(runsOf(c.base, whole), bufferOf(c.late))
			got := eventsOf(runs)
			for i, e := range got {
				if e.hint() != c.want[i] {
					t.Errorf("sample %d: got %v, want hint %d", i, e, c.want[i])
				}
			}
		})
	}
}

// More samples than a chunk holds come out as one run.
func TestMergeLargerThanAChunk(t *testing.T) {
	const n = 3*chunkenc.MaxSamples + 7
	base := &chunkenc.Samples{}
	var late ooo.Buffer
	for i := range int64(n) {
		if i%3 == 0 {
			late.Float((n-1-i)*10, 0, float64(n-1-i)) // reversed
		}
		if (n-1-i)%3 != 0 || i%2 == 0 {
			base.T, base.V = append(base.T, i*10), append(base.V, float64(i))
		}
	}
	var m ooo.Merger
	runs, _ := m.Merge([]*chunkenc.Samples{base}, &late)
	if err := wellFormed(runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 || runs[0].Len() != n {
		t.Fatalf("got %d runs, the first of %d samples, want one of %d", len(runs), runs[0].Len(), n)
	}
	for i, at := range runs[0].T {
		if at != int64(i)*10 || runs[0].V[i] != float64(i) {
			t.Fatalf("sample %d: %d %v", i, at, runs[0].V[i])
		}
	}
}

func TestMergeNothing(t *testing.T) {
	var m ooo.Merger
	for _, base := range [][]*chunkenc.Samples{nil, {{}}, {{}, {Kind: chunkenc.KindHistogram}}} {
		if runs, stats := m.Merge(base, new(ooo.Buffer)); len(runs) != 0 || stats != (ooo.Stats{}) {
			t.Errorf("%d empty runs: got %d runs, %+v", len(base), len(runs), stats)
		}
	}
}

// A base in several runs, empty ones among them, with late samples in the gaps.
func TestMergeGapsBetweenRuns(t *testing.T) {
	base := []*chunkenc.Samples{{}, {T: []int64{10, 20}, V: []float64{1, 2}}, {}, {T: []int64{30}, V: []float64{3}}, {}}
	var late ooo.Buffer
	for _, at := range []int64{35, 25, 5, 15, 30, 20} {
		late.Float(at, 0, float64(at))
	}
	var m ooo.Merger
	runs, stats := m.Merge(base, &late)
	want := []event{{t: 5, v: 5}, {t: 10, v: 1}, {t: 15, v: 15}, {t: 20, v: 20}, {t: 25, v: 25}, {t: 30, v: 30}, {t: 35, v: 35}}
	if err := same(eventsOf(runs), want); err != nil {
		t.Fatal(err)
	}
	if stats != (ooo.Stats{Overwritten: 2}) {
		t.Fatalf("stats: %+v", stats)
	}
}

// Merges of floats allocate nothing once the memory is there.
func TestMergeAllocatesNothing(t *testing.T) {
	for _, start := range []int64{0, 7} {
		testMergeAllocatesNothing(t, start)
	}
}

func testMergeAllocatesNothing(t *testing.T, start int64) {
	base := []*chunkenc.Samples{{}}
	for i := range int64(240) {
		base[0].T, base[0].V = append(base[0].T, i*1000), append(base[0].V, float64(i))
	}
	var m ooo.Merger
	var arrived, late ooo.Buffer
	round := func() {
		for i := range int64(48) {
			arrived.Float((i*37%48)*5000+500, start, float64(i))
		}
		arrived.CopyRange(&late, 0, 100_000)
		m.Merge(base, &late)
		late.Reset()
		m.Sort(&arrived)
		arrived.Take(&late, 0, 100_000)
		m.Merge(base, &late)
		m.Merge(base, &arrived)
		late.Reset()
		arrived.Reset()
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("start %d: a round allocates %v times", start, n)
	}
}
