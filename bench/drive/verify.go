package drive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/prompb"
	"golang.org/x/sync/errgroup"

	"github.com/rwsink/rwsink/bench/load"
)

// Verdict is what reading a load back gave.
type Verdict struct {
	Mode    Mode
	Samples int // that are as they were sent
	Missing int
	Wrong   int // with other bits
	Extra   int // at a time at which nothing was sent, or of a series that was not sent
	Wall    time.Duration
	First   string // the first fault
}

// Err is nil when everything is as it was sent.
func (v *Verdict) Err() error {
	if v.Missing+v.Wrong+v.Extra == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d samples are missing, %d have other bits, %d were never sent; the first: %s", v.Mode, v.Missing, v.Wrong, v.Extra, v.First)
}

func (v *Verdict) fault(count *int, n int, format string, args ...any) {
	*count += n
	if v.First == "" {
		v.First = fmt.Sprintf(format, args...)
	}
}

// verifiers ask and compare at a time, so that the server encodes while this process compares.
const verifiers = 2

// Verify reads everything that spec describes from url in one mode, a target at a
// time, and compares it bit for bit.
func Verify(ctx context.Context, url string, spec *load.Spec, mode Mode) (*Verdict, error) {
	start := time.Now()
	var parts [verifiers]Verdict
	g, ctx := errgroup.WithContext(ctx)
	for n := range parts {
		g.Go(func() error { return parts[n].part(ctx, url, spec, mode, n) })
	}
	err := g.Wait()
	v := &Verdict{Mode: mode, Wall: time.Since(start)}
	for _, p := range parts {
		v.add(p)
	}
	return v, err
}

// add adds what another part of the load gave.
func (v *Verdict) add(p Verdict) {
	v.Samples += p.Samples
	v.Missing += p.Missing
	v.Wrong += p.Wrong
	v.Extra += p.Extra
	if v.First == "" {
		v.First = p.First
	}
}

// part verifies every target of which the number leaves n, divided by verifiers.
func (v *Verdict) part(ctx context.Context, url string, spec *load.Spec, mode Mode, n int) error {
	from, to := spec.Start, spec.End().UnixMilli()-1 // another load may begin there
	for i, target := 0, 0; i < spec.Series; target++ {
		next := i
		for next < spec.Series && spec.Instance(next, false) == spec.Instance(i, false) {
			next++
		}
		if target%verifiers == n {
			if err := v.target(ctx, url, spec, mode, i, next, from, to); err != nil {
				return fmt.Errorf("verify: %w", err)
			}
		}
		i = next
	}
	return nil
}

// target verifies the series from i up to next, which have one value of instance,
// and those that replaced them.
func (v *Verdict) target(ctx context.Context, url string, spec *load.Spec, mode Mode, i, next int, from, to int64) error {
	for _, successor := range []bool{false, true} {
		if successor && spec.Churn == 0 {
			continue
		}
		want := expect(spec, i, next, successor)
		if err := readAll(ctx, url, mode, "instance", spec.Instance(i, successor), from, to, func(ls []prompb.Label, got []point) error {
			return v.series(spec, want, ls, got)
		}); err != nil {
			return err
		}
		for text, s := range want {
			v.fault(&v.Missing, s.to-s.from, "%s is not there", text)
		}
	}
	return nil
}

// expected are the samples of series i from from up to to.
type expected struct{ i, from, to int }

// expect returns what should be read of the series from i up to next, or of
// their successors, by their labels.
func expect(spec *load.Spec, i, next int, successor bool) map[string]expected {
	want := map[string]expected{}
	for ; i < next; i++ {
		e := expected{i, 0, spec.Samples}
		for e.to > 0 && spec.Successor(i, e.to-1) {
			e.to--
		}
		if successor {
			e.from, e.to = e.to, spec.Samples
		}
		if e.from < e.to {
			want[spec.LabelsOf(i, successor).String()] = e
		}
	}
	return want
}

// series compares one series and takes it out of what is wanted.
func (v *Verdict) series(spec *load.Spec, want map[string]expected, ls []prompb.Label, got []point) error {
	text := text(ls)
	e, ok := want[text]
	if !ok {
		v.fault(&v.Extra, len(got), "%s was never sent, or is there twice", text)
		return nil
	}
	delete(want, text)
	for _, p := range got {
		for e.from < e.to && spec.Time(e.i, e.from) < p.t {
			v.fault(&v.Missing, 1, "%s at %d is not there", text, spec.Time(e.i, e.from))
			e.from++
		}
		switch {
		case e.from == e.to || spec.Time(e.i, e.from) != p.t:
			v.fault(&v.Extra, 1, "%s at %d was never sent", text, p.t)
			continue
		case !same(spec, e.i, e.from, p):
			v.fault(&v.Wrong, 1, "%s at %d has other bits: %v", text, p.t, p)
		default:
			v.Samples++
		}
		e.from++
	}
	if e.from < e.to {
		v.fault(&v.Missing, e.to-e.from, "%s at %d is not there", text, spec.Time(e.i, e.from))
	}
	if v.Extra > 1000 {
		return errors.New("more than 1,000 samples were never sent: " + v.First)
	}
	return nil
}

func same(spec *load.Spec, i, k int, p point) bool {
	if spec.Values == load.Histograms {
		if p.h == nil {
			return false
		}
		want := spec.Histogram(i, k)
		return want.Equals(p.h) && math.Float64bits(want.Sum) == math.Float64bits(p.h.Sum)
	}
	return p.h == nil && math.Float64bits(spec.Float(i, k)) == math.Float64bits(p.v)
}
