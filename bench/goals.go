package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
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
	name  string
	about time.Duration // that it takes with all its series in nine rounds, on the machine of docs/BENCHMARKS.md
	run   func(ctx context.Context, e *env) ([]goal, error)
}

// measurements are all of them, with the name that Only chooses by.
var measurements = []measurement{
	{"canonical", 200 * time.Second, goalCanonical},
	{"new-series", 90 * time.Second, goalNewSeries},
	{"late", 14 * time.Minute, goalLate},
	{"day", 4 * time.Minute, goalDay},
	{"twice", 50 * time.Second, goalTwice},
	{"histograms", 3 * time.Minute, goalHistograms},
	{"latency", 70 * time.Second, goalLatency},
	{"scale", 150 * time.Second, goalScale},
	{"replay", 40 * time.Second, goalReplay},
}

// Goals measures what the project promises and prints every figure beside its
// limit, each as soon as it is there. Memory is all that is resident, the empty
// process included.
func Goals(ctx context.Context, o TrialOptions, out io.Writer) error {
	todo, err := chosen(o.Only, "goal", measurements, func(m measurement) string { return m.name })
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
	e.logf("this takes about %v", e.estimate(todo).Round(time.Minute))
	t := &table{head: []string{"goal", "at most", "median", "90 % interval", "range", "rounds", "verdict", "beside"}}
	t.begin(out)
	for _, m := range todo {
		start := time.Now()
		goals, err := m.run(ctx, e)
		if err != nil {
			return fmt.Errorf("goal %s: %w", m.name, err)
		}
		for _, g := range goals {
			t.row(out, g.row(m.name)...)
		}
		e.logf("%s took %v", m.name, time.Since(start).Round(time.Second))
	}
	return nil
}

// estimate is about how long measurements take: for a part of it, each prepares its loads once and starts its servers.
func (e *env) estimate(todo []measurement) time.Duration {
	sum := time.Duration(0)
	for _, m := range todo {
		sum += 10*time.Second + time.Duration(float64(m.about)*min(1, e.Scale)*float64(e.Rounds)/9)
	}
	return sum
}

// row is the goal as the cells of a table.
func (g *goal) row(name string) []string {
	low, high := g.got.interval()
	s := g.got.sorted()
	f := func(v float64) string { return fmt.Sprintf(g.format, v) }
	return []string{
		name + ": " + g.what, f(g.limit), f(g.got.median()), f(low) + " to " + f(high), f(s[0]) + " to " + f(s[len(s)-1]),
		fmt.Sprint(len(s)), g.verdict(), g.note,
	}
}

// turnTime is how long the lock is kept before others get their turn: what is begun
// by then is finished.
const turnTime = 75 * time.Second

// rounds runs several trials by turns and returns their outcomes, a list each.
func (e *env) rounds(ctx context.Context, rounds int, trials ...trial) ([][]*outcome, error) {
	out := make([][]*outcome, len(trials))
	for n := 0; n < rounds; {
		unlock, err := e.turn(ctx, trials...)
		if err != nil {
			return nil, err
		}
		for begin := time.Now(); n < rounds && time.Since(begin) < turnTime; n++ {
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

// scaled has as many times the series as Scale says.
func (e *env) scaled(s load.Spec) load.Spec {
	s.Series = max(s.Clients, int(e.Scale*float64(s.Series)))
	return s
}

// count writes a number of series, as many of it as Scale says.
func (e *env) count(series int) string {
	s := strconv.Itoa(e.scaled(load.Canonical(1, series, 1, 0)).Series)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// single runs one load, as often as what is no pair, and rests for memory to be read.
func (e *env) single(ctx context.Context, spec load.Spec, t trial) ([]*outcome, *load.Set, error) {
	sets, err := e.sets(ctx, across, e.scaled(spec))
	if err != nil {
		return nil, nil, err
	}
	defer closeSets(sets)
	t.program, t.sets = e.rwsink(), sets
	outs, err := e.rounds(ctx, e.some(), t)
	if err != nil {
		return nil, nil, err
	}
	return outs[0], sets[0], nil
}

// some is a third of the rounds: for what is no pair.
func (e *env) some() int { return max(1, e.Rounds/3) }

func firstCPU(o *outcome) float64   { return o.cpu[0] }
func settledCPU(o *outcome) float64 { return o.settledCPU }

func rssPerSeries(series int) func(*outcome) float64 {
	return func(o *outcome) float64 { return float64(o.rested.RSS) / float64(series) }
}

// resident is the goal of the memory that a load leaves behind.
func (e *env) resident(outs []*outcome, set *load.Set, limit float64) goal {
	return goal{
		what: fmt.Sprintf("the same, resident bytes a series %v after", e.Rest), limit: limit, format: "%.0f",
		got:  of(outs, rssPerSeries(set.Series)),
		note: "at the last answer " + of(outs, rssMB(func(o *outcome) proc.Usage { return o.last })).spread("%.0f") + " MB",
	}
}

func goalCanonical(ctx context.Context, e *env) ([]goal, error) {
	var goals []goal
	for i, limit := range []float64{2.2, 2.0} {
		protocol := i + 1
		sets, err := e.sets(ctx, across, e.scaled(load.Canonical(protocol, 100_000, 100, 0)))
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
			what: fmt.Sprintf("%s series x 100, remote write %d.0, CPU over floor + HTTP sink", e.count(100_000), protocol), limit: limit, format: "%.2f",
			got:  cpu.times(1 / u.value()),
			note: fmt.Sprintf("%s CPU s a M; floor %.3f, sink %.3f", cpu.spread("%.3f"), u.floor, u.sink.median()),
		}, e.resident(outs[0], sets[0], 1800))
	}
	return goals, nil
}

func goalNewSeries(ctx context.Context, e *env) ([]goal, error) {
	var goals []goal
	for _, series := range []int{100_000, 500_000} {
		outs, set, err := e.single(ctx, load.Canonical(1, series, 1, 0), trial{rest: e.Rest})
		if err != nil {
			return nil, err
		}
		goals = append(goals, goal{
			what: fmt.Sprintf("%s new series x 1, CPU s for 100,000", e.count(series)), limit: 0.8, format: "%.2f", got: of(outs, firstCPU).times(0.1),
		}, e.resident(outs, set, 1200))
	}
	return goals, nil
}

// pairs compares loads that hold the same samples: each against the first. Those
// that settle says, by index, are settled too.
func (e *env) pairs(ctx context.Context, p place, settle []int, specs ...load.Spec) ([][]*outcome, []*load.Set, error) {
	for i := range specs {
		specs[i] = e.scaled(specs[i])
	}
	sets, err := e.sets(ctx, p, specs...)
	if err != nil {
		return nil, nil, err
	}
	defer closeSets(sets)
	var trials []trial
	for i := range sets {
		trials = append(trials, trial{program: e.rwsink(), sets: sets[i : i+1], settle: slices.Contains(settle, i)})
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
	outs, sets, err := e.pairs(ctx, upTo, settle, specs...)
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
	outs, sets, err := e.pairs(ctx, across, []int{0, 1}, base, late)
	if err != nil {
		return nil, err
	}
	a, b := of(outs[1], settledCPU), of(outs[0], settledCPU)
	return []goal{{
		what: e.count(1000) + " series x 6,000 (25 h), 25 % late by up to 24 h, CPU settled over 0 %", limit: 2, format: "%.2f", got: a.over(b),
		note: fmt.Sprintf("%s against %s CPU s a M; up to the last answer %.2f; %.1f %% by more than 2 h", a.spread("%.3f"), b.spread("%.3f"),
			of(outs[1], firstCPU).over(of(outs[0], firstCPU)).median(), 100*sets[1].Far),
	}}, nil
}

func goalTwice(ctx context.Context, e *env) ([]goal, error) {
	sets, err := e.sets(ctx, across, e.scaled(load.Canonical(1, 50_000, 100, 0)))
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
		{what: e.count(50_000) + " series x 100 a second time, CPU over the first", limit: 1.2, format: "%.2f", got: second.over(of(outs[0], firstCPU)),
			note: fmt.Sprintf("%s CPU s a M; the first %s", second.spread("%.3f"), once.spread("%.3f"))},
		{what: "the same, bytes on disk settled over sent once", limit: 1.005, format: "%.4f", got: of(outs[0], stored).over(of(outs[1], stored))},
	}, nil
}

func goalHistograms(ctx context.Context, e *env) ([]goal, error) {
	base := load.Canonical(2, 1000, 300, 0)
	base.Values = load.Histograms
	late := base
	late.Late, late.LateBound = 0.25, 30*time.Minute
	outs, _, err := e.pairs(ctx, across, []int{0, 1}, base, late)
	if err != nil {
		return nil, err
	}
	a, b := of(outs[1], firstCPU), of(outs[0], firstCPU)
	return []goal{{
		what: e.count(1000) + " native-histogram series x 300, 25 % late, CPU over 0 %", limit: 1.3, format: "%.2f", got: a.over(b),
		note: fmt.Sprintf("%s against %s CPU s a M; settled %s", a.spread("%.2f"), b.spread("%.2f"), of(outs[1], settledCPU).over(of(outs[0], settledCPU)).spread("%.2f")),
	}}, nil
}

// goalLatency finds the top rate, then sends at half of it, to series that are created
// on the way, all in the first twentieth of a second, and to series that are known; the
// fsync quantile is that of the server's own histogram, interpolated.
func goalLatency(ctx context.Context, e *env) ([]goal, error) {
	create, sets, err := e.parts(ctx, across, 50_000, 100)
	if err != nil {
		return nil, err
	}
	defer closeSets(append(sets, create))
	var p99, fsync, allowed [2]figures
	for range e.some() {
		top, err := e.locked(ctx, trial{program: e.rwsink(), sets: sets})
		if err != nil {
			return nil, err
		}
		for i, s := range [][]*load.Set{sets, {create, sets[0]}} {
			half, err := e.locked(ctx, trial{program: e.rwsink(), sets: s, drive: drive.Options{Rate: top.rate[0] / 2}, fsync: true})
			if err != nil {
				return nil, err
			}
			p99[i] = append(p99[i], ms(half.results[i].Latency(0.99)))
			fsync[i] = append(fsync[i], 1000*half.fsyncP99)
			allowed[i] = append(allowed[i], 2*1000*half.fsyncP99+5)
		}
	}
	var goals []goal
	for i, what := range []string{e.count(50_000) + " series x 100 at half the top rate, p99 over (2 x p99 of fsync + 5 ms)", "the same where the series are known"} {
		goals = append(goals, goal{
			what: what, limit: 1, format: "%.2f", got: p99[i].over(allowed[i]),
			note: fmt.Sprintf("p99 %s ms, of fsync %s ms", p99[i].spread("%.1f"), fsync[i].spread("%.1f")),
		})
	}
	return goals, nil
}

// goalScale compares the cost of a sample of known series, 10,000 and 1,000,000. Loads
// end at the border: over it only the one of few series would have chunks to seal.
func goalScale(ctx context.Context, e *env) ([]goal, error) {
	var trials []trial
	for _, n := range []struct{ series, samples int }{{10_000, 200}, {1_000_000, 4}} {
		create, sets, err := e.parts(ctx, upTo, n.series, n.samples)
		if err != nil {
			return nil, err
		}
		sets = []*load.Set{create, sets[0]}
		defer closeSets(sets)
		trials = append(trials, trial{program: e.rwsink(), sets: sets})
	}
	trials[1].rest = e.Rest
	outs, err := e.rounds(ctx, e.some(), trials...)
	if err != nil {
		return nil, err
	}
	steady := func(o *outcome) float64 { return o.cpu[1] }
	a, b := of(outs[1], steady), of(outs[0], steady)
	many, few := e.count(1_000_000), e.count(10_000)
	return []goal{{
		what: "a sample of " + many + " known series over one of " + few + ", CPU", limit: 2, format: "%.2f", got: a.over(b),
		note: fmt.Sprintf("%s against %s CPU s a M; RSS %.0f B a series of %s", a.spread("%.3f"), b.spread("%.3f"), of(outs[1], rssPerSeries(trials[1].sets[0].Series)).median(), many),
	}}, nil
}

// parts are a load and, before it in time, one sample of each of its series, which creates them.
func (e *env) parts(ctx context.Context, p place, series, samples int) (create *load.Set, sets []*load.Set, err error) {
	sets, err = e.sets(ctx, p, e.scaled(load.Canonical(1, series, samples, 0)))
	if err != nil {
		return nil, nil, err
	}
	first := sets[0].Spec
	first.Samples = 1
	first.Start -= first.Interval.Milliseconds()
	if create, err = load.Prepare(ctx, first); err != nil {
		closeSets(sets)
	}
	return create, sets, err
}

func goalReplay(ctx context.Context, e *env) ([]goal, error) {
	outs, _, err := e.single(ctx, load.Canonical(1, 100_000, 100, 0), trial{crash: true})
	if err != nil {
		return nil, err
	}
	before, after := of(outs, rssMB(func(o *outcome) proc.Usage { return o.last })), of(outs, rssMB(func(o *outcome) proc.Usage { return o.again }))
	return []goal{
		{what: e.count(100_000) + " series x 100, kill -9, CPU s to ready a M samples", limit: 0.14, format: "%.3f", got: of(outs, func(o *outcome) float64 { return o.readyCPU }),
			note: of(outs, func(o *outcome) float64 { return o.ready.Seconds() }).spread("%.2f") + " s"},
		{what: "the same, memory when ready over before", limit: 1.2, format: "%.2f", got: after.over(before),
			note: fmt.Sprintf("%s against %s MB", after.spread("%.0f"), before.spread("%.0f"))},
	}, nil
}
