package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rwsink/rwsink/bench/drive"
	"github.com/rwsink/rwsink/bench/load"
	"github.com/rwsink/rwsink/internal/proc"
)

// TrialOptions are of everything that starts servers.
type TrialOptions struct {
	Spec   load.Spec     // the load, or the one that others are made of
	Rounds int           // in which what is compared is interleaved
	Binary string        // of rwsink
	Cache  string        // directory of the other programs' binaries; for Peers
	Rest   time.Duration // after the last answer, before memory counts
	Dir    string        // below which servers have their directories; "" is the system's for temporary files
	Only   string        // regular expression: of the goals or the peers, those whose name matches
	Lock   string        // file that is locked while something is measured, so that measurements of this machine take turns; "" is none
	Scale  float64       // of the numbers of series; for Goals
	Log    io.Writer     // progress
}

// env is what trials share.
type env struct {
	TrialOptions
	cpus
	dir string
}

func newEnv(o TrialOptions) (*env, error) {
	c, err := split()
	if err != nil {
		return nil, err
	}
	if o.Rounds < 1 {
		return nil, fmt.Errorf("%d rounds, want at least 1", o.Rounds)
	}
	dir, err := os.MkdirTemp(o.Dir, "rwsink-bench-")
	if err != nil {
		return nil, err
	}
	return &env{o, c, dir}, nil
}

func (e *env) close() { _ = os.RemoveAll(e.dir) }

// lock waits for its turn.
func (e *env) lock(ctx context.Context) (unlock func(), err error) {
	if e.Lock == "" {
		return func() {}, nil
	}
	f, err := os.OpenFile(e.Lock, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() { locked <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }() // no signal ends the wait
	select {
	case err = <-locked:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", e.Lock, err)
	}
	return func() { f.Close() }, nil
}

func (e *env) logf(format string, args ...any) { fmt.Fprintf(e.Log, format+"\n", args...) }

// trial is one server and what it is put to.
type trial struct {
	program program
	sets    []*load.Set // one after the other
	rest    time.Duration
	settle  bool
	crash   bool          // killed and started again, after the sets
	fsync   bool          // the quantile of its fsyncs is asked for
	drive   drive.Options // URL and NoCounts are set by the trial
}

// outcome is what a trial gave; CPU figures are processor seconds a million samples.
type outcome struct {
	cpu        []float64 // of each set, up to its last answer
	rate       []float64 // samples per second of each set
	results    []*drive.Result
	last       proc.Usage // at the last answer
	rested     proc.Usage // after the rest
	settledCPU float64    // of all sets up to the settled state, from the beginning
	settled    proc.Usage
	fsyncP99   float64 // seconds
	disk       int64   // bytes at the last answer, log included
	stored     int64   // bytes settled, log not included
	readyCPU   float64 // to be ready again after the crash
	ready      time.Duration
	again      proc.Usage // when ready again
}

// locked is run in its turn.
func (e *env) locked(ctx context.Context, t trial) (*outcome, error) {
	unlock, err := e.turn(ctx, t)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return e.run(ctx, t)
}

// run starts the server, sends, measures, reads everything back, and ends the
// server. What is not read back as it was sent gives no figure.
func (e *env) run(ctx context.Context, t trial) (o *outcome, err error) {
	s, err := start(ctx, t.program, e.dir, e.cpus.server)
	if err != nil {
		return nil, err
	}
	defer s.end()
	o = &outcome{}
	total := 0.0
	for _, set := range t.sets {
		if err := e.send(ctx, s, t, set, o); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		total += float64(set.Total()) / 1e6
	}
	if s.data {
		if o.disk, err = s.diskBytes(); err != nil {
			return nil, err
		}
	}
	if t.fsync {
		if o.fsyncP99, err = s.histogramQuantile(ctx, "rwsink_wal_fsync_duration_seconds", 0.99); err != nil {
			return nil, err
		}
	}
	if t.rest > 0 {
		if err := pause(ctx, t.rest); err != nil {
			return nil, err
		}
		if o.rested, err = s.usage(); err != nil {
			return nil, err
		}
	}
	if t.crash {
		if err := e.crash(ctx, s, total, o); err != nil {
			return nil, err
		}
	}
	if t.settle {
		spent := s.spent
		if t.crash {
			return nil, errors.New("BUG: a trial that settles does not crash")
		}
		if err := s.settled(ctx); err != nil {
			return nil, err
		}
		if o.settled, err = s.usage(); err != nil {
			return nil, err
		}
		o.settledCPU = (o.settled.CPU - spent).Seconds() / total
		if o.stored, err = s.storedBytes(); err != nil {
			return nil, err
		}
	}
	return o, s.verify(ctx, t.sets)
}

// send sends one set and adds what it gave.
func (e *env) send(ctx context.Context, s *server, t trial, set *load.Set, o *outcome) error {
	before, err := s.usage()
	if err != nil {
		return err
	}
	opts := t.drive
	opts.URL, opts.NoCounts = s.url(s.write), !s.data
	var r *drive.Result
	if err := quiet(e.client, func() error {
		var err error
		r, err = drive.Run(ctx, set, opts)
		return err
	}); err != nil {
		return err
	}
	if o.last, err = s.usage(); err != nil {
		return err
	}
	if err := r.Complete(set); err != nil {
		return err
	}
	millions := float64(set.Total()) / 1e6
	o.cpu = append(o.cpu, (o.last.CPU-before.CPU).Seconds()/millions)
	o.rate = append(o.rate, float64(r.Samples)/r.Wall.Seconds())
	o.results = append(o.results, r)
	return nil
}

// crash kills the server and starts it again on what it left.
func (e *env) crash(ctx context.Context, s *server, millions float64, o *outcome) error {
	if err := s.kill(); err != nil {
		return err
	}
	begin := time.Now()
	if err := s.run(ctx); err != nil {
		return err
	}
	o.ready = time.Since(begin)
	o.readyCPU = s.spent.Seconds() / millions
	var err error
	o.again, err = s.usage()
	return err
}

// unitRounds is how often floor and sink are measured beside something else.
const unitRounds = 3

// unit is what a receiver's cost is told in: the floor and the HTTP sink.
type unit struct {
	floor float64
	sink  figures
}

func (u unit) value() float64 { return u.floor + u.sink.median() }

// unit measures it for a set, so many times.
func (e *env) unit(ctx context.Context, set *load.Set, rounds int) (unit, floor, error) {
	unlock, err := e.lock(ctx)
	if err != nil {
		return unit{}, nil, err
	}
	defer unlock()
	e.logf("floor, remote write %d.0", set.Protocol)
	f, err := measureFloor(ctx, e.cpus.server, set, rounds)
	if err != nil {
		return unit{}, nil, err
	}
	u := unit{floor: f.least()}
	for range rounds {
		o, err := e.run(ctx, trial{program: sinkProgram(e.Binary), sets: []*load.Set{set}})
		if err != nil {
			return unit{}, nil, err
		}
		u.sink = append(u.sink, o.cpu[0])
	}
	return u, f, nil
}
