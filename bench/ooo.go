package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/rwsink/rwsink/bench/load"
)

// oooLate are the shares of late samples of the table, percent.
var oooLate = []float64{0, 1, 5, 10, 25, 50, 99}

// OOOSpec is the load of the table: 1 s, late by up to half an hour.
func OOOSpec() load.Spec {
	s := load.Canonical(1, 1000, 3600, 0)
	s.Interval, s.LateBound = time.Second, 30*time.Minute
	return s
}

// oooKind is one configuration of chunks.
type oooKind struct {
	encoding string
	samples  int // a chunk at most
}

// published is what RedisTimeSeries published as its loss of ingestion rate, at
// oooLate, for chunks of 4,096 bytes.
var published = [][]string{
	{"RedisTimeSeries, compressed", "4,096", "", "", "0", "10", "35 to 75", "35 to 75", "35 to 75", "", "up to 95"},
	{"RedisTimeSeries, uncompressed", "4,096", "", "", "0", "about 0", "5 to 19", "5 to 19", "5 to 19", "", "up to 45"},
}

// OOO prints what late samples cost for compressed and uncompressed chunks, small
// and large, beside what one database with fixed chunks published of its own.
func OOO(ctx context.Context, o TrialOptions, out io.Writer) error {
	e, err := newEnv(o)
	if err != nil {
		return err
	}
	defer e.close()
	specs := make([]load.Spec, len(oooLate))
	for i, late := range oooLate {
		specs[i] = o.Spec
		specs[i].Late = late / 100
	}
	sets, err := e.sets(ctx, across, specs...)
	if err != nil {
		return err
	}
	defer closeSets(sets)
	var kinds []oooKind
	for _, encoding := range []string{"delta", "raw"} {
		for _, samples := range []int{128, 2048} {
			kinds = append(kinds, oooKind{encoding, samples})
		}
	}
	rate, cpu, stored, err := e.ooo(ctx, kinds, sets)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s.\nIngestion by share of late samples: %d series x %d samples, %v apart, late by up to %v, remote write %d.0, medians of %d rounds.\n"+
		"Loss is of the rate against 0 %% late of the same round, in percent; negative is faster.\n\n",
		machine(), o.Spec.Series, o.Spec.Samples, o.Spec.Interval, o.Spec.LateBound, o.Spec.Protocol, o.Rounds)
	e.printOOO(out, kinds, sets, rate, cpu, stored)
	return nil
}

// ooo runs every kind with every set, by turns.
func (e *env) ooo(ctx context.Context, kinds []oooKind, sets []*load.Set) (rate, cpu [][]figures, stored []figures, err error) {
	rate, cpu, stored = make([][]figures, len(kinds)), make([][]figures, len(kinds)), make([]figures, len(kinds))
	for round := range e.Rounds {
		for i, k := range kinds {
			if round == 0 {
				rate[i], cpu[i] = make([]figures, len(sets)), make([]figures, len(sets))
			}
			p := e.rwsink("--storage.chunk-encoding="+k.encoding, fmt.Sprintf("--storage.chunk-samples=%d", k.samples))
			var trials []trial
			for j := range sets {
				trials = append(trials, trial{program: p, sets: sets[j : j+1], settle: j == 0})
			}
			unlock, err := e.turn(ctx, trials...)
			if err != nil {
				return nil, nil, nil, err
			}
			for j, t := range trials {
				e.logf("round %d: %s, %d samples a chunk, %g %% late", round+1, k.encoding, k.samples, oooLate[j])
				o, err := e.run(ctx, t)
				if err != nil {
					unlock()
					return nil, nil, nil, err
				}
				rate[i][j], cpu[i][j] = append(rate[i][j], o.rate[0]), append(cpu[i][j], o.cpu[0])
				if j == 0 {
					stored[i] = append(stored[i], float64(o.stored)/float64(sets[j].Total()))
				}
			}
			unlock()
		}
	}
	return rate, cpu, stored, nil
}

func (e *env) printOOO(out io.Writer, kinds []oooKind, sets []*load.Set, rate, cpu [][]figures, stored []figures) {
	loss := table{head: []string{"loss of rate, %; chunks", "bytes a full chunk", "B a sample", "samples/s at 0 %"}}
	costs := table{head: []string{"CPU against 0 %; chunks", "CPU s a M at 0 %"}}
	for j, late := range oooLate {
		loss.head = append(loss.head, fmt.Sprintf("%g %% late", late))
		if j > 0 {
			costs.head = append(costs.head, fmt.Sprintf("%g %% late", late))
		}
	}
	for i, k := range kinds {
		name := fmt.Sprintf("rwsink, %s, %d samples", k.encoding, k.samples)
		b := stored[i].median()
		row := []string{name, fmt.Sprintf("%.0f", b*float64(k.samples)), fmt.Sprintf("%.2f", b), fmt.Sprintf("%.0f", rate[i][0].median())}
		cost := []string{name, cpu[i][0].spread("%.3f")}
		for j := range sets {
			row = append(row, fmt.Sprintf("%.0f", 100*(1-rate[i][j].over(rate[i][0]).median())))
			if j > 0 {
				cost = append(cost, cpu[i][j].over(cpu[i][0]).spread("%.2f"))
			}
		}
		loss.add(row...)
		costs.add(cost...)
	}
	loss.rows = append(loss.rows, published...)
	loss.print(out)
	costs.print(out)
	fmt.Fprintln(out, "Late as it came out:")
	for j, set := range sets {
		fmt.Fprintf(out, " %g %% wanted, %.2f %%;", oooLate[j], 100*set.Late)
	}
	fmt.Fprintln(out)
}
