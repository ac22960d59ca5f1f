package query

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/rwsink/rwsink/chunkenc"
)

// writeShuffled writes the points of many series in batches that come in any
// order, some of them twice.
func writeShuffled(t testing.TB, r *rig, rng *rand.Rand, all []answer) {
	t.Helper()
	type batch struct {
		ls     labels.Labels
		points []point
	}
	var batches []batch
	for _, a := range all {
		for rest := a.points; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(60))
			batches = append(batches, batch{a.labels, rest[:n]})
			rest = rest[n:]
		}
	}
	late := batches[:0:0]
	for _, b := range batches {
		switch rng.IntN(6) {
		case 0: // later
			late = append(late, b)
			continue
		case 1: // now and later
			late = append(late, b)
		}
		r.write(t, b.ls, b.points...)
	}
	rng.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
	for _, b := range late {
		rng.Shuffle(len(b.points), func(i, j int) { b.points[i], b.points[j] = b.points[j], b.points[i] })
		r.write(t, b.ls, b.points...)
	}
}

// between returns what a query of [mint, maxt] should find in all.
func between(all []answer, mint, maxt int64) (out []answer) {
	for _, a := range all {
		b := answer{labels: a.labels}
		for _, p := range a.points {
			if p.t >= mint && p.t <= maxt {
				b.points = append(b.points, p)
			}
		}
		if len(b.points) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// randAnswers returns series of every kind, sorted by labels.
func randAnswers(rng *rand.Rand, base int64, series, most int) (out []answer) {
	for i := range series {
		a := answer{labels: labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i))}
		t, gauge := base, rng.IntN(4) == 0
		for range 1 + rng.IntN(5) {
			run, end := randRun(rng, chunkenc.Kind(rng.IntN(3)), gauge, t, 1+rng.IntN(most))
			// Gaps of years would make a container each.
			for k := range run.T {
				run.T[k] = t + int64(k+1)*15_000
			}
			t, _ = run.T[len(run.T)-1], end
			a.points = append(a.points, runs{run}.points()...)
		}
		out = append(out, a)
	}
	return out
}

func cloneAnswers(in []answer) (out []answer) {
	for _, a := range in {
		out = append(out, answer{a.query, a.labels, slices.Clone(a.points)})
	}
	return out
}

func TestReadsAreWhatWasWritten(t *testing.T) {
	for name, base := range map[string]int64{"near": hourAgo(), "cold": longAgo} {
		if testing.Short() && name == "cold" {
			continue // one read at a time
		}
		t.Run(name, func(t *testing.T) { testReads(t, base) })
	}
}

func testReads(t *testing.T, base int64) {
	const seed = 21
	rng := rand.New(rand.NewPCG(seed, seed))
	r := newRig(t, Options{})
	all := randAnswers(rng, base, 12, 300)
	writeShuffled(t, r, rng, cloneAnswers(all))
	m := eq("__name__", "m")
	clients := map[string]func(mint, maxt int64) []answer{}
	for _, mode := range bothModes {
		clients["own decoder, "+mode.String()] = func(mint, maxt int64) []answer {
			return r.ask(t, mode, queryOf(mint, maxt, m))
		}
		c := r.client(t, mode)
		clients["Prometheus's client, "+mode.String()] = func(mint, maxt int64) []answer {
			set, err := c.Read(context.Background(), queryOf(mint, maxt, m), false)
			if err != nil {
				t.Fatal(err)
			}
			return drain(t, set)
		}
	}
	first, last := all[0].points[0].t, all[0].points[len(all[0].points)-1].t
	ranges := [][2]int64{
		{math.MinInt64, math.MaxInt64}, {first, last}, {first, first}, {last, last}, {first + 1, last - 1},
		{first - 10, first - 1}, {last, first}, {math.MaxInt64, math.MinInt64},
	}
	for range 15 {
		a, b := first+rng.Int64N(last-first), first+rng.Int64N(last-first)
		ranges = append(ranges, [2]int64{min(a, b), max(a, b)})
	}
	for name, read := range clients {
		for _, x := range ranges {
			t.Logf("%s, [%d, %d], seed %d", name, x[0], x[1], seed)
			checkAnswers(t, read(x[0], x[1]), between(all, x[0], x[1]))
		}
	}
	if s := r.log.String(); s != "" {
		t.Errorf("log: %s", s)
	}
}

func TestSeveralQueriesInOrder(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 5 {
		r.write(t, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), floatPoints(1000, 1000, 200, float64(i))...)
	}
	series := &prompb.Query{EndTimestampMs: 5000, Matchers: []*prompb.LabelMatcher{eq("__name__", "m")}, Hints: &prompb.ReadHints{Func: "series"}}
	queries := []*prompb.Query{
		everything(eq("i", "3")),
		everything(eq("i", "none")),
		everything(), // no matchers
		queryOf(2000, 3000, eq("__name__", "m")),
		queryOf(3000, 2000, eq("__name__", "m")),
		series,
		{StartTimestampMs: 1, EndTimestampMs: 999, Matchers: series.Matchers, Hints: series.Hints}, // no samples there
		everything(eq("i", "0")),
	}
	var want []answer
	add := func(query int64, i int, points []point) {
		want = append(want, answer{query, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), points})
	}
	add(0, 3, floatPoints(1000, 1000, 200, 3))
	for i := range 5 {
		add(3, i, floatPoints(2000, 1000, 2, float64(i)))
	}
	for i := range 5 {
		add(5, i, nil)
	}
	add(7, 0, floatPoints(1000, 1000, 200, 0))
	for _, mode := range bothModes {
		checkAnswers(t, r.ask(t, mode, queries...), want)
		checkAnswers(t, r.ask(t, mode), nil) // no queries at all
	}
}

func TestMatchersOfAllKinds(t *testing.T) {
	r := newRig(t, Options{})
	for _, ls := range []labels.Labels{
		labels.FromStrings("__name__", "a"),
		labels.FromStrings("__name__", "b", "x", "1"),
		labels.FromStrings("__name__", "c", "x", "2", "y", "1\n2"),
	} {
		r.write(t, ls, point{t: 1, v: 1})
	}
	for _, tc := range []struct {
		typ         prompb.LabelMatcher_Type
		name, value string
		want        string
	}{
		{prompb.LabelMatcher_EQ, "x", "1", "b"},
		{prompb.LabelMatcher_EQ, "x", "", "a"},
		{prompb.LabelMatcher_EQ, "nowhere", "", "abc"},
		{prompb.LabelMatcher_NEQ, "x", "1", "ac"},
		{prompb.LabelMatcher_NEQ, "x", "", "bc"},
		{prompb.LabelMatcher_RE, "x", "1|2", "bc"},
		{prompb.LabelMatcher_RE, "x", "1|", "ab"},
		{prompb.LabelMatcher_RE, "x", ".*", "abc"},
		{prompb.LabelMatcher_RE, "x", ".+", "bc"},
		{prompb.LabelMatcher_RE, "y", "1.2", "c"}, // the dot takes a line's end
		{prompb.LabelMatcher_RE, "y", "1", ""},    // anchored
		{prompb.LabelMatcher_NRE, "x", "1", "ac"},
		{prompb.LabelMatcher_NRE, "x", "1|", "c"},
		{prompb.LabelMatcher_NRE, "x", ".+", "a"},
		{prompb.LabelMatcher_NRE, "x", ".*", ""},
	} {
		for _, mode := range bothModes {
			got := ""
			for _, a := range r.ask(t, mode, everything(&prompb.LabelMatcher{Type: tc.typ, Name: tc.name, Value: tc.value})) {
				got += a.labels.Get("__name__")
			}
			if got != tc.want {
				t.Errorf("%s %v %q: got %q, want %q", tc.name, tc.typ, tc.value, got, tc.want)
			}
		}
	}
}

func TestExternalLabelsInReads(t *testing.T) {
	r := newRig(t, Options{ExternalLabels: labels.FromStrings("A", "first", "region", "foo", "zzz", "last")})
	own := labels.FromStrings("__name__", "m", "region", "foo", "z", "1")
	bare := labels.FromStrings("__name__", "m", "z", "1")
	other := labels.FromStrings("__name__", "m", "region", "bar", "z", "1")
	r.write(t, bare, floatPoints(0, 1000, 500, 1)...)
	r.write(t, own, floatPoints(500, 500, 500, 2)...) // every second meets one of bare
	r.write(t, other, point{t: 5, v: 3})
	h := newCounts(rand.New(rand.NewPCG(1, 1)))
	h.pos[1] = 5
	r.write(t, own, point{t: 7000_500, h: h.int()}) // kinds meet
	r.write(t, bare, point{t: 7000_500, v: 9}, point{t: 7000_501, v: 9})

	final := func(ls labels.Labels, region string) labels.Labels {
		return labels.NewBuilder(ls).Set("A", "first").Set("region", region).Set("zzz", "last").Labels()
	}
	var merged []point
	for i := range int64(1000) {
		at := i * 500
		switch {
		case at >= 500 && at <= 500*500:
			merged = append(merged, point{t: at, v: 2})
		case at%1000 == 0:
			merged = append(merged, point{t: at, v: 1})
		}
	}
	merged = append(merged, point{t: 7000_500, h: h.int()}, point{t: 7000_501, v: 9})
	want := []answer{
		{0, final(other, "bar"), []point{{t: 5, v: 3}}},
		{0, final(bare, "foo"), merged},
	}
	region := func(typ prompb.LabelMatcher_Type, value string) *prompb.LabelMatcher {
		return &prompb.LabelMatcher{Type: typ, Name: "region", Value: value}
	}
	for _, mode := range bothModes {
		checkAnswers(t, r.ask(t, mode, everything(eq("__name__", "m"))), want)
		// A client that carries the same labels adds them as matchers.
		checkAnswers(t, r.ask(t, mode, everything(eq("__name__", "m"), eq("A", "first"), eq("region", "foo"), eq("zzz", "last"))), want[1:])
		for _, tc := range []struct {
			m    *prompb.LabelMatcher
			want []answer
		}{
			{region(prompb.LabelMatcher_EQ, "foo"), want[1:]},
			{region(prompb.LabelMatcher_EQ, "bar"), want[:1]},
			{region(prompb.LabelMatcher_EQ, ""), nil},
			{region(prompb.LabelMatcher_NEQ, "foo"), want[:1]},
			{region(prompb.LabelMatcher_NEQ, ""), want},
			{region(prompb.LabelMatcher_NEQ, "bar"), want[1:]},
			{region(prompb.LabelMatcher_RE, "fo.|x"), want[1:]},
			{region(prompb.LabelMatcher_RE, "fo.|bar"), want},
			{region(prompb.LabelMatcher_NRE, "fo."), want[:1]},
			{region(prompb.LabelMatcher_NRE, "bar|"), want[1:]},
			{region(prompb.LabelMatcher_NRE, ".*"), nil},
		} {
			t.Logf("%v %q", tc.m.Type, tc.m.Value)
			checkAnswers(t, r.ask(t, mode, everything(tc.m)), tc.want)
		}
		got := r.ask(t, mode, &prompb.Query{EndTimestampMs: 1 << 40, Matchers: []*prompb.LabelMatcher{eq("__name__", "m")}, Hints: &prompb.ReadHints{Func: "series"}})
		if len(got) != 2 || len(got[0].points)+len(got[1].points) != 0 {
			t.Errorf("labels only: %v", got)
		}
	}
	c := r.client(t, modeChunks, modeSamples)
	set, err := c.Read(context.Background(), everything(eq("__name__", "m")), true)
	if err != nil {
		t.Fatal(err)
	}
	checkAnswers(t, drain(t, set), want)
}
