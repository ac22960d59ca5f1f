package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rwsink/rwsink/bench/drive"
	"github.com/rwsink/rwsink/bench/load"
	"github.com/rwsink/rwsink/internal/proc"
)

// LoadOptions say what Load sends, where to, and what it looks at.
type LoadOptions struct {
	Spec   load.Spec
	Drive  drive.Options // Progress is set here
	Twice  bool          // everything is sent a second time
	PID    int           // of the server, on this machine; 0 is unknown
	Path   string        // the server's data directory, on this machine; "" is unknown
	Rest   time.Duration // after the last answer, before memory is read again
	Settle string        // URL to POST to that makes everything take its last form; "" is none
	Read   string        // URL of remote read, from which everything is read back; "" is none
	JSON   bool
}

// Report is what Load found.
type Report struct {
	Series, Samples   int     // series of the load, samples of all
	Protocol          int     // of remote write
	Late, LateFar     float64 // shares of the samples that arrived late, and by more than load.Far
	BytesPerSample    float64 // compressed, as sent
	RawBytesPerSample float64 // before compression
	Passes            []Pass
	Rested, Settled   *State          `json:",omitempty"`
	Read              []drive.Verdict `json:",omitempty"`
}

// Pass is one sending of the load.
type Pass struct {
	Seconds          float64
	Samples          int // acknowledged
	SamplesPerSecond float64
	Requests         int
	Status           map[int]int // answers
	Miscounts        int
	Refusal          string             `json:",omitempty"` // the first
	LatencyMs        map[string]float64 // by quantile
	Server           *State             `json:",omitempty"` // at the last answer
}

// State is what the server has used since the load began, and holds.
type State struct {
	CPUSeconds           float64
	CPUSecondsPerMillion float64 // samples that were acknowledged so far
	RSS, Anon, Peak      int64   // bytes
	RSSPerSeries         float64
	DiskBytes            int64   `json:",omitempty"`
	DiskBytesPerSample   float64 `json:",omitempty"`
	Seconds              float64 `json:",omitempty"` // that it took to come to this state
}

var quantiles = []struct {
	name string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}}

// Load prepares the bodies, sends them and prints a report to out; progress goes
// to log. The error says what was not as it should be, an answer included.
func Load(ctx context.Context, o LoadOptions, out, log io.Writer) error {
	if err := o.check(ctx); err != nil { // before the work of preparing
		return err
	}
	fmt.Fprintf(log, "preparing %d samples of %d series\n", o.Spec.Total(), o.Spec.Series)
	set, err := load.Prepare(ctx, o.Spec)
	if err != nil {
		return err
	}
	defer set.Close()
	total := float64(set.Total())
	r := &Report{
		Series: set.Series, Samples: set.Total(), Protocol: set.Protocol, Late: set.Late, LateFar: set.Far,
		BytesPerSample: float64(set.Bytes) / total, RawBytesPerSample: float64(set.Raw) / total,
	}
	err = r.fill(ctx, &o, set, log)
	if o.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return errors.Join(err, enc.Encode(r))
	}
	r.print(out)
	return err
}

// check names what could not be sent to or looked at. Settling is tried as well: that
// of what is there already.
func (o *LoadOptions) check(ctx context.Context) error {
	if o.PID > 0 {
		if _, err := proc.Read(o.PID); err != nil {
			return err
		}
	}
	if o.Path != "" {
		if _, err := drive.DiskBytes(o.Path); err != nil {
			return fmt.Errorf("--path=%s: %w", o.Path, err)
		}
	}
	if err := o.Drive.Reach(ctx); err != nil {
		return err
	}
	return o.settle(ctx)
}

// settle makes everything take its last form, where that is asked for.
func (o *LoadOptions) settle(ctx context.Context) error {
	if o.Settle == "" {
		return nil
	}
	if err := request(ctx, http.MethodPost, o.Settle); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

func (r *Report) fill(ctx context.Context, o *LoadOptions, set *load.Set, log io.Writer) error {
	w := watcher{o: o, series: set.Series}
	if err := w.begin(); err != nil {
		return err
	}
	passes := 1
	if o.Twice {
		passes = 2
	}
	for i := range passes {
		o.Drive.Progress = progress(log, fmt.Sprintf("pass %d of %d", i+1, passes))
		res, err := drive.Run(ctx, set, o.Drive)
		w.samples += res.Samples
		p := newPass(res)
		if state, stateErr := w.state(0); stateErr == nil {
			p.Server = state
		} else if err == nil {
			err = stateErr
		}
		r.Passes = append(r.Passes, p)
		if err == nil {
			err = refused(res)
		}
		if err != nil {
			return err
		}
	}
	var err error
	if o.Rest > 0 && o.PID > 0 {
		fmt.Fprintf(log, "resting for %v\n", o.Rest)
		if err := pause(ctx, o.Rest); err != nil {
			return err
		}
		if r.Rested, err = w.state(o.Rest); err != nil {
			return err
		}
	}
	if o.Settle != "" {
		fmt.Fprintln(log, "settling")
		start := time.Now()
		if err := o.settle(ctx); err != nil {
			return err
		}
		if r.Settled, err = w.state(time.Since(start)); err != nil {
			return err
		}
	}
	if o.Read == "" {
		return nil
	}
	if r.Passes[0].Samples != set.Total() {
		return fmt.Errorf("verify: only %d of %d samples were sent", r.Passes[0].Samples, set.Total())
	}
	return r.verify(ctx, o, log)
}

func (r *Report) verify(ctx context.Context, o *LoadOptions, log io.Writer) error {
	var errs []error
	for _, mode := range drive.Modes {
		fmt.Fprintf(log, "reading everything back, %s\n", mode)
		v, err := drive.Verify(ctx, o.Read, &o.Spec, mode)
		if err == nil {
			err = v.Err()
		}
		r.Read = append(r.Read, *v)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// refused is an error if not every answer was a success with the right counts.
func refused(r *drive.Result) error {
	if r.Refusal == "" {
		return nil
	}
	return fmt.Errorf("not everything was taken, answers by status: %s, miscounts: %d; the first: %s", byStatus(r.Status), r.Miscounts, r.Refusal)
}

func newPass(res *drive.Result) Pass {
	p := Pass{
		Seconds: res.Wall.Seconds(), Samples: res.Samples,
		Requests: res.Requests, Status: res.Status, Miscounts: res.Miscounts, Refusal: res.Refusal, LatencyMs: map[string]float64{},
	}
	if res.Wall > 0 { // 0 when no connection came about
		p.SamplesPerSecond = float64(res.Samples) / res.Wall.Seconds()
	}
	for _, q := range quantiles {
		p.LatencyMs[q.name] = ms(res.Latency(q.q))
	}
	return p
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// watcher reads the state of a server, if it knows which process that is.
type watcher struct {
	o       *LoadOptions
	series  int
	samples int
	spent   time.Duration // processor time before the load
}

func (w *watcher) begin() error {
	if w.o.PID == 0 {
		return nil
	}
	u, err := proc.Read(w.o.PID)
	w.spent = u.CPU
	return err
}

// state returns nil when there is nothing to know.
func (w *watcher) state(took time.Duration) (*State, error) {
	if w.o.PID == 0 && w.o.Path == "" {
		return nil, nil
	}
	s := &State{Seconds: took.Seconds()}
	if w.o.PID > 0 {
		u, err := proc.Read(w.o.PID)
		if err != nil {
			return nil, err
		}
		s.CPUSeconds = (u.CPU - w.spent).Seconds()
		s.CPUSecondsPerMillion = s.CPUSeconds / float64(max(1, w.samples)) * 1e6
		s.RSS, s.Anon, s.Peak = u.RSS, u.Anon, u.Peak
		s.RSSPerSeries = float64(u.RSS) / float64(w.series)
	}
	if w.o.Path != "" {
		n, err := drive.DiskBytes(w.o.Path)
		if err != nil {
			return nil, err
		}
		s.DiskBytes, s.DiskBytesPerSample = n, float64(n)/float64(max(1, w.samples))
	}
	return s, nil
}

// progress writes a line every time it is called.
func progress(w io.Writer, what string) func(drive.Progress) {
	return func(p drive.Progress) {
		fmt.Fprintf(w, "%s: %3.0f %%, %d requests answered, %.0f samples/s\n", what,
			100*float64(p.Samples)/float64(p.Of), p.Requests, float64(p.Samples)/max(p.Elapsed.Seconds(), 1e-9))
	}
}

func byStatus(status map[int]int) string {
	var parts []string
	for _, s := range slices.Sorted(maps.Keys(status)) {
		parts = append(parts, fmt.Sprintf("%d %dx", s, status[s]))
	}
	return strings.Join(parts, ", ")
}

func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "remote write %d.0, %d series, %d samples, %.2f %% late (%.2f %% by more than %v), %.1f B a sample compressed, %.1f B raw\n\n",
		r.Protocol, r.Series, r.Samples, 100*r.Late, 100*r.LateFar, load.Far, r.BytesPerSample, r.RawBytesPerSample)
	t := table{head: []string{"pass", "samples", "s", "samples/s", "p50 ms", "p90", "p99", "p99.9", "max", "answers"}}
	for i, p := range r.Passes {
		row := []string{fmt.Sprint(i + 1), fmt.Sprint(p.Samples), fmt.Sprintf("%.2f", p.Seconds), fmt.Sprintf("%.0f", p.SamplesPerSecond)}
		for _, q := range quantiles {
			row = append(row, fmt.Sprintf("%.2f", p.LatencyMs[q.name]))
		}
		t.add(append(row, byStatus(p.Status))...)
	}
	t.print(w)
	s := table{head: []string{"state of the server", "CPU s", "CPU s a M samples", "RSS MB", "anon MB", "peak MB", "RSS B a series", "disk MB with the log", "disk B a sample"}}
	add := func(name string, st *State) {
		if st == nil {
			return
		}
		s.add(name, fmt.Sprintf("%.2f", st.CPUSeconds), fmt.Sprintf("%.3f", st.CPUSecondsPerMillion), mb(st.RSS), mb(st.Anon), mb(st.Peak),
			fmt.Sprintf("%.0f", st.RSSPerSeries), fmt.Sprintf("%.1f", float64(st.DiskBytes)/1e6), fmt.Sprintf("%.2f", st.DiskBytesPerSample))
	}
	for i, p := range r.Passes {
		add(fmt.Sprintf("last answer of pass %d", i+1), p.Server)
	}
	if r.Rested != nil {
		add(fmt.Sprintf("%.0f s later", r.Rested.Seconds), r.Rested)
	}
	if r.Settled != nil {
		add(fmt.Sprintf("settled, %.1f s later", r.Settled.Seconds), r.Settled)
	}
	if len(s.rows) > 0 {
		s.print(w)
	}
	for _, v := range r.Read {
		fmt.Fprintf(w, "%s: %d samples as they were sent, %d missing, %d with other bits, %d never sent; %.1f s\n",
			v.Mode, v.Samples, v.Missing, v.Wrong, v.Extra, v.Wall.Seconds())
	}
}
