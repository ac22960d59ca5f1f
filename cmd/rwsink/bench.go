package main

import (
	"context"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/rwsink/rwsink/bench"
	"github.com/rwsink/rwsink/bench/load"
	"github.com/rwsink/rwsink/internal/instant"
)

// benchCommands are the sub-commands of bench, each with what runs it.
type benchCommands map[string]func(ctx context.Context, stdout, stderr io.Writer) error

// benchFlags defines bench and its sub-commands.
func benchFlags(app *kingpin.Application) benchCommands {
	cmd := app.Command("bench", "Measure remote-write receivers.")
	commands := benchCommands{}
	sub := func(name, help string, define func(*kingpin.CmdClause) func(context.Context, io.Writer, io.Writer) error) *kingpin.CmdClause {
		c := cmd.Command(name, help)
		commands[c.FullCommand()] = define(c)
		checked(c)
		return c
	}
	sub("load", "Send a load to a remote-write URL and report. The default.", benchLoad).Default()
	sub("floor", "Measure the least that a receiver must do with the same bodies, and a bare HTTP sink.", func(c *kingpin.CmdClause) func(context.Context, io.Writer, io.Writer) error {
		return benchTrial(c, &bench.TrialOptions{}, bench.Floor)
	})
	sub("ooo", "Measure what late samples cost, for compressed and uncompressed chunks.", benchOOO)
	sub("peers", "Measure rwsink, Prometheus and VictoriaMetrics side by side; make bench-peers builds them.", func(c *kingpin.CmdClause) func(context.Context, io.Writer, io.Writer) error {
		var o bench.TrialOptions
		onlyFlag(c, &o)
		return benchTrial(c, &o, bench.Peers)
	})
	sub("goals", "Measure what the project promises, each with its figure beside it.", benchGoals)
	sub("sink", "Serve HTTP that takes every body and does nothing, as a yardstick.", benchSink).Hidden()
	return commands
}

// runBench runs a sub-command until it is done or a signal comes.
func runBench(run func(context.Context, io.Writer, io.Writer) error, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, stdout, stderr)
}

// specFlags defines the flags of a load; what they say is valid after parsing.
type specFlags struct {
	spec                 load.Spec
	values               string
	late, lateFar, churn float64 // percent
}

func (s *specFlags) define(cmd *kingpin.CmdClause) {
	d := &s.spec
	cmd.Flag("protocol", "Version of remote write: 1 or 2.").Default("1").IntVar(&d.Protocol)
	cmd.Flag("series", "Series at any one time.").Default("100000").IntVar(&d.Series)
	cmd.Flag("samples", "Samples a series.").Default("100").IntVar(&d.Samples)
	cmd.Flag("interval", "Time between the samples of a series.").Default("15s").DurationVar(&d.Interval)
	cmd.Flag("labels", "Labels a series beside its name, on average.").Default("10.4").Float64Var(&d.Labels)
	oneOf(cmd, &s.values, "values", "Model of the values.", load.ValuesNames()...)
	cmd.Flag("churn", "Percent of the series that end on the way and are followed by new ones.").Default("0").Float64Var(&s.churn)
	cmd.Flag("late", "Percent of the samples that arrive after a newer one of their series.").Default("0").Float64Var(&s.late)
	cmd.Flag("late-bound", "How long after its time a late sample arrives at most, uniformly.").Default("30m").DurationVar(&d.LateBound)
	cmd.Flag("late-far", "Percent of the late samples that arrive more than 2h after their time, up to the bound.").Default("0").Float64Var(&s.lateFar)
	cmd.Flag("late-scrapes", "Whole scrapes of a target are late, each by one delay, and not samples one by one.").BoolVar(&d.Scrapes)
	cmd.Flag("late-control", "Send series in the order that --late makes, but each with its samples in order of time: a control that has nothing late.").BoolVar(&d.Control)
	cmd.Flag("request", "Samples a request.").Default("2000").IntVar(&d.Request)
	cmd.Flag("entry", "Samples of a series in one entry of a request; 1 is what Prometheus sends.").Default("1").IntVar(&d.Entry)
	cmd.Flag("clients", "Connections that send at the same time, each its own series.").Default("4").IntVar(&d.Clients)
	cmd.Flag("seed", "Seed of everything that is drawn.").Default("1").Uint64Var(&d.Seed)
}

// parsed returns the load that the flags say.
func (s *specFlags) parsed() (load.Spec, error) {
	spec := s.spec
	var err error
	if spec.Values, err = load.ParseValues(s.values); err != nil {
		return spec, err
	}
	spec.Late, spec.LateFar, spec.Churn = s.late/100, s.lateFar/100, s.churn/100
	return spec, spec.Validate()
}

func benchLoad(cmd *kingpin.CmdClause) func(context.Context, io.Writer, io.Writer) error {
	var s specFlags
	var o bench.LoadOptions
	var settle, verify bool
	cmd.Flag("url", "Remote-write endpoint.").Default("http://127.0.0.1:9201/api/v1/write").StringVar(&o.Drive.URL)
	s.define(cmd)
	end := instant.Time(time.Now().UnixMilli())
	cmd.Flag("end", "Time before which the load ends, as RFC 3339 or in Unix seconds; by default now.").SetValue(&end)
	cmd.Flag("in-flight", "Requests under way a client (pipelining).").Default("1").IntVar(&o.Drive.InFlight)
	cmd.Flag("rate", "Samples per second of all clients together; 0 is as fast as answers come.").Default("0").Float64Var(&o.Drive.Rate)
	cmd.Flag("duration", "Time after which nothing more is sent; 0 is no bound.").Default("0").DurationVar(&o.Drive.Duration)
	cmd.Flag("twice", "Send everything a second time.").BoolVar(&o.Twice)
	cmd.Flag("pid", "Process id of the server, on this machine: its processor time and memory are reported.").IntVar(&o.PID)
	cmd.Flag("path", "Data directory of the server, on this machine: its size is reported.").StringVar(&o.Path)
	cmd.Flag("rest", "Time after the last answer until memory is read again.").Default("10s").DurationVar(&o.Rest)
	cmd.Flag("settle", "Make the server flush and compact at the end (/api/v1/admin/tsdb/flush of the same server).").BoolVar(&settle)
	cmd.Flag("verify", "Read everything back in both modes (/api/v1/read of the same server) and compare it bit for bit.").BoolVar(&verify)
	cmd.Flag("json", "Print the report as JSON.").BoolVar(&o.JSON)
	return func(ctx context.Context, stdout, stderr io.Writer) (err error) {
		if o.Spec, err = s.parsed(); err != nil {
			return err
		}
		o.Spec.Start = int64(end) - o.Spec.Length().Milliseconds()
		if settle {
			if o.Settle, err = beside(o.Drive.URL, "/api/v1/admin/tsdb/flush"); err != nil {
				return err
			}
		}
		if verify {
			if o.Read, err = beside(o.Drive.URL, "/api/v1/read"); err != nil {
				return err
			}
		}
		return bench.Load(ctx, o, stdout, stderr)
	}
}

// beside returns the URL of another path of the same server.
func beside(write, path string) (string, error) {
	u, err := url.Parse(write)
	if err != nil {
		return "", err
	}
	u.Path, u.RawQuery = path, ""
	return u.String(), nil
}

// trialFlags defines the flags of everything that starts servers.
func trialFlags(cmd *kingpin.CmdClause, o *bench.TrialOptions, rounds int) {
	cmd.Flag("rounds", "Rounds in which what is compared is interleaved.").Default(strconv.Itoa(rounds)).IntVar(&o.Rounds)
	cmd.Flag("rest", "Time after the last answer until memory counts.").Default("10s").DurationVar(&o.Rest)
	cmd.Flag("dir", "Directory below which servers keep their data while they run; by default that for temporary files.").StringVar(&o.Dir)
	cmd.Flag("binary", "The rwsink to measure; by default this one.").StringVar(&o.Binary)
	cmd.Flag("cache", "Directory with the binaries of other receivers.").Envar("RWSINK_CACHE").Default(".cache").StringVar(&o.Cache)
	cmd.Flag("lock", "File that is locked while something is measured, so that the measurements of a machine take turns.").StringVar(&o.Lock)
}

// onlyFlag defines the flag that chooses among what has a name.
func onlyFlag(cmd *kingpin.CmdClause, o *bench.TrialOptions) {
	cmd.Flag("only", "Regular expression: measure only what has a name that matches.").StringVar(&o.Only)
}

// runTrial completes what the flags say.
func runTrial(run func(context.Context, bench.TrialOptions, io.Writer) error, o *bench.TrialOptions) func(context.Context, io.Writer, io.Writer) error {
	return func(ctx context.Context, stdout, stderr io.Writer) (err error) {
		o.Log = stderr
		if o.Binary == "" {
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
		}
		return run(ctx, *o, stdout)
	}
}

// benchTrial defines a sub-command over one load.
func benchTrial(cmd *kingpin.CmdClause, o *bench.TrialOptions, run func(context.Context, bench.TrialOptions, io.Writer) error) func(context.Context, io.Writer, io.Writer) error {
	var s specFlags
	s.define(cmd)
	trialFlags(cmd, o, 3)
	return func(ctx context.Context, stdout, stderr io.Writer) (err error) {
		if o.Spec, err = s.parsed(); err != nil {
			return err
		}
		return runTrial(run, o)(ctx, stdout, stderr)
	}
}

func benchOOO(cmd *kingpin.CmdClause) func(context.Context, io.Writer, io.Writer) error {
	o := bench.TrialOptions{Spec: bench.OOOSpec()}
	cmd.Flag("protocol", "Version of remote write: 1 or 2.").Default("1").IntVar(&o.Spec.Protocol)
	cmd.Flag("series", "Series.").Default(strconv.Itoa(o.Spec.Series)).IntVar(&o.Spec.Series)
	cmd.Flag("samples", "Samples a series.").Default(strconv.Itoa(o.Spec.Samples)).IntVar(&o.Spec.Samples)
	trialFlags(cmd, &o, 3)
	return runTrial(bench.OOO, &o)
}

func benchGoals(cmd *kingpin.CmdClause) func(context.Context, io.Writer, io.Writer) error {
	var o bench.TrialOptions
	cmd.Flag("scale", "Times the numbers of series that the goals name, to try it out.").Default("1").Float64Var(&o.Scale)
	onlyFlag(cmd, &o)
	trialFlags(cmd, &o, 9)
	return runTrial(bench.Goals, &o)
}

func benchSink(cmd *kingpin.CmdClause) func(context.Context, io.Writer, io.Writer) error {
	address := cmd.Flag("listen-address", "Address to listen on.").Default("127.0.0.1:9301").String()
	return func(ctx context.Context, _, _ io.Writer) error { return bench.Sink(ctx, *address) }
}
