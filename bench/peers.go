package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rwsink/rwsink/bench/load"
	"github.com/rwsink/rwsink/internal/proc"
)

// Versions of the peers; they name the cached binaries too.
const (
	prometheusVersion      = "v0.316.0" // of the module: Prometheus 3.16
	victoriaMetricsVersion = "v1.151.0"
)

// peer is a program under one protocol, and what its trials gave.
type peer struct {
	program
	protocol int
	out      []*outcome
	crashed  []*outcome
}

// peers are the programs whose name matches o.Only, all without it.
func (e *env) peers() ([]*peer, error) {
	prometheus := filepath.Join(e.Cache, "prometheus-"+prometheusVersion)
	all := []*peer{
		{program: e.rwsink(), protocol: 1},
		{program: e.rwsink(), protocol: 2},
		{program: prometheusProgram(prometheus), protocol: 1},
		{program: prometheusProgram(prometheus), protocol: 2},
		{program: victoriaMetrics(filepath.Join(e.Cache, "victoria-metrics-"+victoriaMetricsVersion)), protocol: 1},
	}
	out, err := chosen(e.Only, "peer", all, func(p *peer) string { return p.name })
	if err != nil {
		return nil, err
	}
	for _, p := range out {
		if _, err := os.Stat(p.binary); err != nil {
			return nil, fmt.Errorf("%s is not built, make bench-peers does that: %w", p.name, err)
		}
	}
	return out, nil
}

// Peers runs rwsink, Prometheus and VictoriaMetrics on the same bodies, by turns,
// and prints what each costs.
func Peers(ctx context.Context, o TrialOptions, out io.Writer) error {
	e, err := newEnv(o)
	if err != nil {
		return err
	}
	defer e.close()
	peers, err := e.peers()
	if err != nil {
		return err
	}
	specs := []load.Spec{o.Spec, o.Spec}
	specs[0].Protocol, specs[1].Protocol = 1, 2
	prepared, err := e.sets(ctx, across, specs...)
	if err != nil {
		return err
	}
	defer closeSets(prepared)
	sets := map[int]*load.Set{}
	units := map[int]unit{}
	for _, set := range prepared {
		sets[set.Protocol] = set
		if units[set.Protocol], _, err = e.unit(ctx, set, unitRounds); err != nil {
			return err
		}
	}
	err = e.peerRounds(ctx, peers, sets) // what was measured is printed whatever came then
	fmt.Fprintf(out, "%s.\n%d series x %d samples, %d a request, %.1f %% late; server on one core; medians of %d rounds at most (range).\n", machine(), o.Spec.Series, o.Spec.Samples, o.Spec.Request, 100*o.Spec.Late, o.Rounds)
	for _, protocol := range []int{1, 2} {
		fmt.Fprintf(out, "Floor + HTTP sink, remote write %d.0: %.3f + %.3f CPU s a M samples.\n", protocol, units[protocol].floor, units[protocol].sink.median())
	}
	fmt.Fprintln(out)
	printPeers(out, peers, sets, units, o.Rest)
	printCrashes(out, peers)
	return err
}

// peerRounds runs every program once a round.
func (e *env) peerRounds(ctx context.Context, peers []*peer, sets map[int]*load.Set) error {
	for round := range e.Rounds {
		for i := range peers {
			p := peers[(i+round)%len(peers)] // nobody is always the first
			e.logf("round %d: %s, remote write %d.0", round+1, p.name, p.protocol)
			if err := e.peer(ctx, p, sets[p.protocol]); err != nil {
				return err
			}
			o := p.out[len(p.out)-1]
			e.logf("  %.3f CPU s a M samples, %.0f samples/s, %.0f MB, then %.0f MB", o.cpu[0], o.rate[0], float64(o.last.RSS)/1e6, float64(o.rested.RSS)/1e6)
		}
	}
	return nil
}

// peer runs one program once; those that keep a log are killed and come back too.
func (e *env) peer(ctx context.Context, p *peer, set *load.Set) error {
	o, err := e.locked(ctx, trial{program: p.program, sets: []*load.Set{set}, rest: e.Rest, settle: true})
	if err != nil {
		return err
	}
	p.out = append(p.out, o)
	if p.protocol != 1 || p.read == "" {
		return nil
	}
	if o, err = e.locked(ctx, trial{program: p.program, sets: []*load.Set{set}, crash: true}); err != nil {
		return err
	}
	p.crashed = append(p.crashed, o)
	return nil
}

// of collects one figure of every outcome.
func of(outs []*outcome, f func(*outcome) float64) figures {
	var out figures
	for _, o := range outs {
		out = append(out, f(o))
	}
	return out
}

func rssMB(u func(*outcome) proc.Usage) func(*outcome) float64 {
	return func(o *outcome) float64 { return float64(u(o).RSS) / 1e6 }
}

func printPeers(w io.Writer, peers []*peer, sets map[int]*load.Set, units map[int]unit, rest time.Duration) {
	t := table{head: []string{"server", "remote write", "CPU s a M samples", "x (floor + sink)", "samples/s", "p50 ms", "p99 ms",
		"RSS MB, last answer", fmt.Sprintf("%v later", rest), "settled: CPU s a M", "disk B a sample", "before, log included"}}
	for _, p := range peers {
		total := float64(sets[p.protocol].Total())
		cpu := of(p.out, func(o *outcome) float64 { return o.cpu[0] })
		if len(cpu) == 0 {
			continue
		}
		latency := func(q float64) figures {
			return of(p.out, func(o *outcome) float64 { return ms(o.results[0].Latency(q)) })
		}
		t.add(p.name, fmt.Sprintf("%d.0", p.protocol), cpu.spread("%.3f"), fmt.Sprintf("%.2f", cpu.median()/units[p.protocol].value()),
			of(p.out, func(o *outcome) float64 { return o.rate[0] }).spread("%.0f"),
			latency(0.5).spread("%.1f"), latency(0.99).spread("%.0f"),
			of(p.out, rssMB(func(o *outcome) proc.Usage { return o.last })).spread("%.0f"),
			of(p.out, rssMB(func(o *outcome) proc.Usage { return o.rested })).spread("%.0f"),
			of(p.out, func(o *outcome) float64 { return o.settledCPU }).spread("%.3f"),
			of(p.out, func(o *outcome) float64 { return float64(o.stored) / total }).spread("%.2f"),
			of(p.out, func(o *outcome) float64 { return float64(o.disk) / total }).spread("%.2f"))
	}
	t.print(w)
}

func printCrashes(w io.Writer, peers []*peer) {
	t := table{head: []string{"killed and started again", "CPU s to ready a M samples", "s to ready", "RSS MB before", "RSS MB when ready", "after / before"}}
	for _, p := range peers {
		if len(p.crashed) == 0 {
			continue
		}
		before, after := of(p.crashed, rssMB(func(o *outcome) proc.Usage { return o.last })), of(p.crashed, rssMB(func(o *outcome) proc.Usage { return o.again }))
		t.add(p.name, of(p.crashed, func(o *outcome) float64 { return o.readyCPU }).spread("%.3f"),
			of(p.crashed, func(o *outcome) float64 { return o.ready.Seconds() }).spread("%.2f"),
			before.spread("%.0f"), after.spread("%.0f"), after.over(before).spread("%.2f"))
	}
	t.print(w)
}
