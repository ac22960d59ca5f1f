package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/rwsink/rwsink/bench/drive"
	"github.com/rwsink/rwsink/bench/load"
	"github.com/rwsink/rwsink/internal/proc"
)

// goal is one promise: what was measured, one figure a round, and at most what it may be.
type goal struct {
	what   string
	limit  float64
	format string // of a figure
	got    figures
	note   string
}

// verdict weighs the 90 % interval of the median against the limit.
func (g *goal) verdict() string {
	low, high := g.got.interval()
	switch {
	case high <= g.limit:
		return "kept"
	case low > g.limit:
		return "MISSED"
	case g.got.median() <= g.limit:
		return "kept by the median"
	}
	return "MISSED by the median"
}

// measurement gives the figures of one or several goals.
type measurement struct {
	name string
	run  func(ctx context.Context, e *env) ([]goal, error)
}

// measurements are all of them, with the name that Only chooses by.
var measurements = []measurement{
	{"canonical", goalCanonical},
	{"new-series", goalNewSeries},
	{"late", goalLate},
	{"day", goalDay},
	{"twice", goalTwice},
	{"histograms", goalHistograms},
	{"latency", goalLatency},
	{"scale", goalScale},
	{"replay", goalReplay},
}

// Goals measures what the project promises and prints every figure beside its
// limit. Memory is all that is resident, the empty process included.
func Goals(ctx context.Context, o TrialOptions, out io.Writer) error {
	only, err := regexp.Compile(o.Only)
	if err != nil {
		return err
	}
	e, err := newEnv(o)
	if err != nil {
		return err
	}
	defer e.close()
	fmt.Fprintf(out, "%s.\n\n", machine())
	if o.Scale != 1 {
		fmt.Fprintf(out, "With %g times the series that the goals name: not the figures that count.\n\n", o.Scale)
	}
	t := &table{head: []string{"goal", "at most", "median", "90 % interval", "range", "rounds", "verdict", "beside"}}
	defer t.print(out)
	for _, m := range measurements {
		if !only.MatchString(m.name) {
			continue
		}
		goals, err := m.run(ctx, e)
		if err != nil {
			return fmt.Errorf("goal %s: %w", m.name, err)
		}
		for _, g := range goals {
			low, high := g.got.interval()
			s := g.got.sorted()
			f := func(v float64) string { return fmt.Sprintf(g.format, v) }
			t.add(m.name+": "+g.what, f(g.limit), f(g.got.median()), f(low)+" to "+f(high), f(s[0])+" to "+f(s[len(s)-1]), fmt.Sprint(len(s)), g.verdict(), g.note)
			e.logf("%s: %s: %s, at most %s", m.name, g.what, f(g.got.median()), f(g.limit))
		}
	}
	return nil
}

// turn is how long the lock is kept before others get their turn: what is begun
// by then is finished.
const turn = 75 * time.Second

// rounds runs several trials by turns and returns their outcomes, a list each.
func (e *env) rounds(ctx context.Context, rounds int, trials ...trial) ([][]*outcome, error) {
	out := make([][]*outcome, len(trials))
	for n := 0; n < rounds; {
		unlock, err := e.lock(ctx)
		if err != nil {
			return nil, err
		}
		for begin := time.Now(); n < rounds && time.Since(begin) < turn; n++ {
			e.logf("round %d of %d", n+1, rounds)
			if err := e.round(ctx, n, trials, out); err != nil {
				unlock()
				return nil, err
			}
		}
		unlock()
	}
	return out, nil
}

// round runs each trial once.
func (e *env) round(ctx context.Context, n int, trials []trial, out [][]*outcome) error {
	for i := range trials {
		j := (i + n) % len(trials) // nothing is always the first
		o, err := e.run(ctx, trials[j])
		if err != nil {
			return err
		}
		out[j] = append(out[j], o)
		e.logf("  trial %d of %d: %.3f CPU s a M samples, %.0f samples/s", j+1, len(trials), o.cpu[len(o.cpu)-1], o.rate[len(o.rate)-1])
	}
	return nil
}

// sets prepares loads that end at the same time.
func (e *env) sets(ctx context.Context, specs ...load.Spec) ([]*load.Set, error) {
	now := time.Now().UnixMilli()
	var out []*load.Set
	for _, s := range specs {
		s.Series = max(s.Clients, int(e.Scale*float64(s.Series)))
		s.EndAt(now)
		e.logf("preparing remote write %d.0, %d series x %d samples, %g %% late", s.Protocol, s.Series, s.Samples, 100*s.Late)
		set, err := load.Prepare(ctx, s)
		if err != nil {
			closeSets(out)
			return nil, err
		}
		out = append(out, set)
	}
	return out, nil
}

func closeSets(sets []*load.Set) {
	for _, s := range sets {
		s.Close()
	}
}

func (e *env) rwsink() program { return rwsink("rwsink", e.Binary) }

// some is a third of the rounds: for what is no pair.
func (e *env) some() int { return max(1, e.Rounds/3) }

func firstCPU(o *outcome) float64   { return o.cpu[0] }
func settledCPU(o *outcome) float64 { return o.settledCPU }

func rssPerSeries(series int) func(*outcome) float64 {
	return func(o *outcome) float64 { return float64(o.rested.RSS) / float64(series) }
}

func goalCanonical(ctx context.Context, e *env) ([]goal, error) {
	var goals []goal
	for i, limit := range []float64{2.2, 2.0} {
		protocol := i + 1
		sets, err := e.sets(ctx, load.Canonical(protocol, 100_000, 100, 0))
		if err != nil {
			return nil, err
		}
		defer closeSets(sets)
		u, _, err := e.unit(ctx, sets[0], unitRounds)
		if err != nil {
			return nil, err
		}
		outs, err := e.rounds(ctx, e.some(), trial{program: e.rwsink(), sets: sets, rest: e.Rest})
		if err != nil {
			return nil, err
		}
		cpu := of(outs[0], firstCPU)
		goals = append(goals, goal{
			what: fmt.Sprintf("100,000 series x 100, remote write %d.0, CPU over floor + HTTP sink", protocol), limit: limit, format: "%.2f",
			got:  cpu.times(1 / u.value()),
			note: fmt.Sprintf("%s CPU s a M; floor %.3f, sink %.3f", cpu.spread("%.3f"), u.floor, u.sink.median()),
		}, goal{
			what: fmt.Sprintf("the same, resident bytes a series %v after", e.Rest), limit: 1800, format: "%.0f",
			got: of(outs[0], rssPerSeries(sets[0].Series)), note: "at the last answer " + of(outs[0], rssMB(func(o *outcome) proc.Usage { return o.last })).spread("%.0f") + " MB",
		})
	}
	return goals, nil
}

func goalNewSeries(ctx context.Context, e *env) ([]goal, error) {
	var goals []goal
	for _, series := range []int{100_000, 500_000} {
		sets, err := e.sets(ctx, load.Canonical(1, series, 1, 0))
		if err != nil {
			return nil, err
		}
		defer closeSets(sets)
		outs, err := e.rounds(ctx, e.some(), trial{program: e.rwsink(), sets: sets, rest: e.Rest})
		if err != nil {
			return nil, err
		}
		goals = append(goals, goal{
			what: fmt.Sprintf("%d new series x 1, CPU s for 100,000", series), limit: 0.8, format: "%.2f", got: of(outs[0], firstCPU).times(0.1),
		}, goal{
			what: fmt.Sprintf("the same, resident bytes a series %v after", e.Rest), limit: 1200, format: "%.0f", got: of(outs[0], rssPerSeries(sets[0].Series)),
			note: "at the last answer " + of(outs[0], rssMB(func(o *outcome) proc.Usage { return o.last })).spread("%.0f") + " MB",
		})
	}
	return goals, nil
}

// pairs compares loads that hold the same samples: each against the first. Those
// that settle says, by index, are settled too.
func (e *env) pairs(ctx context.Context, settle []int, specs ...load.Spec) ([][]*outcome, []*load.Set, error) {
	sets, err := e.sets(ctx, specs...)
	if err != nil {
		return nil, nil, err
	}
	defer closeSets(sets)
	var trials []trial
	for i, s := range sets {
		trials = append(trials, trial{program: e.rwsink(), sets: []*load.Set{s}, settle: slices.Contains(settle, i)})
	}
	outs, err := e.rounds(ctx, e.Rounds, trials...)
	return outs, sets, err
}

// goalLate takes pairs: each share of late samples against none, and against its
// control, in which the series come in the same order; see load.Spec.
func goalLate(ctx context.Context, e *env) ([]goal, error) {
	base := load.Canonical(1, 50_000, 100, 0)
	base.LateBound = 30 * time.Minute
	limits := map[float64]float64{1: 1.05, 5: 1.05, 10: 1.05, 25: 1.05, 50: 1.10, 99: 1.15}
	specs, names := []load.Spec{base}, []string{""}
	var settle []int
	for _, late := range oooLate[1:] {
		s := base
		s.Late = late / 100
		control := s
		control.Control = true
		if late == settledLate {
			settle = []int{0, len(specs), len(specs) + 1}
		}
		specs, names = append(specs, s, control), append(names, fmt.Sprintf("%g %% late by up to 30 min", late), "")
	}
	scrapes := base
	scrapes.Late, scrapes.Scrapes = settledLate/100, true
	specs, names = append(specs, scrapes), append(names, "25 % of the scrapes late by up to 30 min")
	outs, sets, err := e.pairs(ctx, settle, specs...)
	if err != nil {
		return nil, err
	}
	var goals []goal
	pair := func(i, j int, what string, limit float64, f func(*outcome) float64) {
		a, b := of(outs[i], f), of(outs[j], f)
		goals = append(goals, goal{what: what, limit: limit, format: "%.3f", got: a.over(b), note: fmt.Sprintf("%s against %s CPU s a M; %.2f %% came out late", a.spread("%.3f"), b.spread("%.3f"), 100*sets[i].Late)})
	}
	for i, name := range names {
		if name == "" {
			continue
		}
		limit := limits[math.Round(100*specs[i].Late)]
		pair(i, 0, name+", CPU over 0 %", limit, firstCPU)
		if !specs[i].Scrapes {
			pair(i, i+1, name+", CPU over its control", limit, firstCPU)
		}
	}
	i := settle[1]
	pair(i, 0, names[i]+", CPU settled over 0 %", 1.3, settledCPU)
	pair(i, i+1, names[i]+", CPU settled over its control", 1.3, settledCPU)
	return goals, nil
}

// settledLate is the share of late samples that is settled too, percent.
const settledLate = 25.0

func goalDay(ctx context.Context, e *env) ([]goal, error) {
	base := load.Canonical(1, 1000, 6000, 0)
	late := base
	late.Late, late.LateBound, late.LateFar = 0.25, 24*time.Hour, 0
	outs, sets, err := e.pairs(ctx, []int{0, 1}, base, late)
	if err != nil {
		return nil, err
	}
	a, b := of(outs[1], settledCPU), of(outs[0], settledCPU)
	return []goal{{
		what: "1,000 series x 6,000 (25 h), 25 % late by up to 24 h, CPU settled over 0 %", limit: 2, format: "%.2f", got: a.over(b),
		note: fmt.Sprintf("%s against %s CPU s a M; up to the last answer %.2f; %.1f %% by more than 2 h", a.spread("%.3f"), b.spread("%.3f"),
			of(outs[1], firstCPU).over(of(outs[0], firstCPU)).median(), 100*sets[1].Far),
	}}, nil
}

func goalTwice(ctx context.Context, e *env) ([]goal, error) {
	sets, err := e.sets(ctx, load.Canonical(1, 50_000, 100, 0))
	if err != nil {
		return nil, err
	}
	defer closeSets(sets)
	outs, err := e.rounds(ctx, e.some(),
		trial{program: e.rwsink(), sets: []*load.Set{sets[0], sets[0]}, settle: true},
		trial{program: e.rwsink(), sets: sets, settle: true})
	if err != nil {
		return nil, err
	}
	second, once := of(outs[0], func(o *outcome) float64 { return o.cpu[1] }), of(outs[1], firstCPU)
	stored := func(o *outcome) float64 { return float64(o.stored) }
	return []goal{
		{what: "50,000 series x 100 a second time, CPU over the first", limit: 1.2, format: "%.2f", got: second.over(of(outs[0], firstCPU)),
			note: fmt.Sprintf("%s CPU s a M; the first %s", second.spread("%.3f"), once.spread("%.3f"))},
		{what: "the same, bytes on disk settled over sent once", limit: 1.005, format: "%.4f", got: of(outs[0], stored).over(of(outs[1], stored))},
	}, nil
}

func goalHistograms(ctx context.Context, e *env) ([]goal, error) {
	base := load.Canonical(2, 1000, 300, 0)
	base.Values = load.Histograms
	late := base
	late.Late, late.LateBound = 0.25, 30*time.Minute
	outs, _, err := e.pairs(ctx, []int{0, 1}, base, late)
	if err != nil {
		return nil, err
	}
	a, b := of(outs[1], firstCPU), of(outs[0], firstCPU)
	return []goal{{
		what: "1,000 native-histogram series x 300, 25 % late, CPU over 0 %", limit: 1.3, format: "%.2f", got: a.over(b),
		note: fmt.Sprintf("%s against %s CPU s a M; settled %s", a.spread("%.2f"), b.spread("%.2f"), of(outs[1], settledCPU).over(of(outs[0], settledCPU)).spread("%.2f")),
	}}, nil
}

// goalLatency finds the top rate, then sends at half of it; the fsync quantile is
// that of the server's own histogram, interpolated.
func goalLatency(ctx context.Context, e *env) ([]goal, error) {
	sets, err := e.sets(ctx, load.Canonical(1, 50_000, 100, 0))
	if err != nil {
		return nil, err
	}
	defer closeSets(sets)
	var p99, fsync, allowed figures
	for range e.some() {
		top, err := e.locked(ctx, trial{program: e.rwsink(), sets: sets})
		if err != nil {
			return nil, err
		}
		half, err := e.locked(ctx, trial{program: e.rwsink(), sets: sets, drive: drive.Options{Rate: top.rate[0] / 2}, fsync: true})
		if err != nil {
			return nil, err
		}
		p99 = append(p99, ms(half.results[0].Latency(0.99)))
		fsync = append(fsync, 1000*half.fsyncP99)
		allowed = append(allowed, 2*1000*half.fsyncP99+5)
	}
	return []goal{{
		what: "50,000 series x 100 at half the top rate, p99 over (2 x p99 of fsync + 5 ms)", limit: 1, format: "%.2f", got: p99.over(allowed),
		note: fmt.Sprintf("p99 %s ms, of fsync %s ms", p99.spread("%.1f"), fsync.spread("%.1f")),
	}}, nil
}

// goalScale compares the cost of a sample of known series, 10,000 and 1,000,000.
func goalScale(ctx context.Context, e *env) ([]goal, error) {
	few, many, err := e.scaleSets(ctx)
	defer closeSets(append(few, many...))
	if err != nil {
		return nil, err
	}
	outs, err := e.rounds(ctx, e.some(), trial{program: e.rwsink(), sets: few}, trial{program: e.rwsink(), sets: many, rest: e.Rest})
	if err != nil {
		return nil, err
	}
	steady := func(o *outcome) float64 { return o.cpu[1] }
	a, b := of(outs[1], steady), of(outs[0], steady)
	return []goal{{
		what: "a sample of 1,000,000 known series over one of 10,000, CPU", limit: 2, format: "%.2f", got: a.over(b),
		note: fmt.Sprintf("%s against %s CPU s a M; RSS %.0f B a series of 1,000,000", a.spread("%.3f"), b.spread("%.3f"), of(outs[1], rssPerSeries(many[0].Series)).median()),
	}}, nil
}

// scaleSets are loads of two parts: the first creates the series, the second
// follows in time.
func (e *env) scaleSets(ctx context.Context) (few, many []*load.Set, err error) {
	parts := func(series, first, second int) ([]*load.Set, error) {
		series = max(4, int(e.Scale*float64(series)))
		a, b := load.Canonical(1, series, first, 0), load.Canonical(1, series, second, 0)
		b.EndAt(time.Now().UnixMilli())
		a.Start = b.Start - int64(first)*a.Interval.Milliseconds()
		e.logf("preparing %d series", series)
		sa, err := load.Prepare(ctx, a)
		if err != nil {
			return nil, err
		}
		sb, err := load.Prepare(ctx, b)
		if err != nil {
			sa.Close()
			return nil, err
		}
		return []*load.Set{sa, sb}, nil
	}
	if few, err = parts(10_000, 1, 400); err != nil {
		return nil, nil, err
	}
	many, err = parts(1_000_000, 1, 4)
	return few, many, err
}

func goalReplay(ctx context.Context, e *env) ([]goal, error) {
	sets, err := e.sets(ctx, load.Canonical(1, 100_000, 100, 0))
	if err != nil {
		return nil, err
	}
	defer closeSets(sets)
	outs, err := e.rounds(ctx, e.some(), trial{program: e.rwsink(), sets: sets, crash: true})
	if err != nil {
		return nil, err
	}
	before, after := of(outs[0], rssMB(func(o *outcome) proc.Usage { return o.last })), of(outs[0], rssMB(func(o *outcome) proc.Usage { return o.again }))
	return []goal{
		{what: "100,000 series x 100, kill -9, CPU s to ready a M samples", limit: 0.14, format: "%.3f", got: of(outs[0], func(o *outcome) float64 { return o.readyCPU }),
			note: of(outs[0], func(o *outcome) float64 { return o.ready.Seconds() }).spread("%.2f") + " s"},
		{what: "the same, memory when ready over before", limit: 1.2, format: "%.2f", got: after.over(before),
			note: fmt.Sprintf("%s against %s MB", after.spread("%.0f"), before.spread("%.0f"))},
	}, nil
}
