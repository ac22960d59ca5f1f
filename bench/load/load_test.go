package load_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/rwsink/rwsink/bench/load"
)

const end = 1_800_000_000_000

// arrived is one sample as a receiver sees it.
type arrived struct {
	series string
	t      int64
	v      float64
	h      *histogram.Histogram
}

// decode returns what the bodies of one client hold, with Prometheus's own
// decoders, and the largest number of samples of an entry.
func decode(t *testing.T, set *load.Set, client int) (out []arrived, entry int) {
	t.Helper()
	b := labels.NewScratchBuilder(0)
	for _, body := range set.Clients[client] {
		raw, err := snappy.Decode(nil, body.Data)
		if err != nil || len(raw) != body.Raw {
			t.Fatalf("%d bytes, want %d: %v", len(raw), body.Raw, err)
		}
		n := len(out)
		add := func(ls labels.Labels, n int, at func(j int) arrived) {
			entry = max(entry, n)
			for j := range n {
				a := at(j)
				a.series = ls.String()
				out = append(out, a)
			}
		}
		if set.Protocol == 1 {
			var req prompb.WriteRequest
			if err := req.Unmarshal(raw); err != nil {
				t.Fatal(err)
			}
			for _, ts := range req.Timeseries {
				ls := ts.ToLabels(&b, nil)
				add(ls, len(ts.Samples), func(j int) arrived { return arrived{t: ts.Samples[j].Timestamp, v: ts.Samples[j].Value} })
				add(ls, len(ts.Histograms), func(j int) arrived {
					return arrived{t: ts.Histograms[j].Timestamp, h: ts.Histograms[j].ToIntHistogram()}
				})
			}
		} else {
			var req writev2.Request
			if err := req.Unmarshal(raw); err != nil {
				t.Fatal(err)
			}
			for _, ts := range req.Timeseries {
				ls, err := ts.ToLabels(&b, req.Symbols)
				if err != nil {
					t.Fatal(err)
				}
				if m, err := ts.ToMetadata(req.Symbols); err != nil || m.Help == "" || m.Type == "" {
					t.Fatalf("metadata %+v", m)
				}
				add(ls, len(ts.Samples), func(j int) arrived { return arrived{t: ts.Samples[j].Timestamp, v: ts.Samples[j].Value} })
				add(ls, len(ts.Histograms), func(j int) arrived {
					return arrived{t: ts.Histograms[j].Timestamp, h: ts.Histograms[j].ToIntHistogram()}
				})
			}
		}
		if got := len(out) - n; got != body.Samples || got > set.Request {
			t.Fatalf("a body with %d samples says %d", got, body.Samples)
		}
	}
	return out, entry
}

func prepare(t *testing.T, spec load.Spec) *load.Set {
	t.Helper()
	set, err := load.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

// TestSameData checks that every load over the same series holds the same samples,
// each once, whatever the protocol, the order and the shape of the requests, and
// that the share of late samples is what was asked for.
func TestSameData(t *testing.T) {
	base := load.Canonical(1, 230, 50, end)
	base.Churn, base.LateBound = 0.2, 10*time.Minute
	for name, change := range map[string]func(*load.Spec){
		"1.0":             func(*load.Spec) {},
		"2.0":             func(s *load.Spec) { s.Protocol = 2 },
		"25 % late":       func(s *load.Spec) { s.Late = 0.25 },
		"99 % late":       func(s *load.Spec) { s.Late, s.LateBound = 0.99, time.Hour },
		"late, 10 a time": func(s *load.Spec) { s.Late, s.Entry, s.Protocol = 0.5, 10, 2 },
		"far": func(s *load.Spec) {
			s.Interval, s.Late, s.LateBound, s.LateFar = 15*time.Minute, 0.25, 12*time.Hour, 0.5
		},
		"histograms":      func(s *load.Spec) { s.Values = load.Histograms },
		"histograms, 2.0": func(s *load.Spec) { s.Values, s.Protocol, s.Late = load.Histograms, 2, 0.25 },
		"scrapes":         func(s *load.Spec) { s.Late, s.Scrapes = 0.25, true },
		"control":         func(s *load.Spec) { s.Late, s.Control, s.Churn = 0.5, true, 0 },
		"one client":      func(s *load.Spec) { s.Clients, s.Request = 1, 7 },
	} {
		if testing.Short() && name != "late, 10 a time" {
			continue // one goroutine prepares and counts
		}
		t.Run(name, func(t *testing.T) {
			spec := base
			change(&spec)
			set := prepare(t, spec)
			checkData(t, set)
		})
	}
}

func checkData(t *testing.T, set *load.Set) {
	type key struct {
		series string
		t      int64
	}
	want := map[key]arrived{}
	for i := range set.Series {
		for k := range set.Samples {
			a := arrived{t: set.Time(i, k)}
			if set.Values == load.Histograms {
				a.h = set.Histogram(i, k)
				if err := a.h.Validate(); err != nil {
					t.Fatal(err)
				}
			} else {
				a.v = set.Float(i, k)
			}
			want[key{set.LabelsOf(i, set.Successor(i, k)).String(), a.t}] = a
		}
	}
	if len(want) != set.Total() {
		t.Fatalf("%d samples are different, of %d", len(want), set.Total())
	}
	newest, late, entry := map[string]int64{}, 0, 0
	for c := range set.Clients {
		all, n := decode(t, set, c)
		entry = max(entry, n)
		for _, a := range all {
			k := key{a.series, a.t}
			w, ok := want[k]
			if !ok {
				t.Fatalf("%v arrives and is not of the load, or twice", k)
			}
			if math.Float64bits(a.v) != math.Float64bits(w.v) || a.h != nil && !a.h.Equals(w.h) {
				t.Fatalf("%v: %v, want %v", k, a, w)
			}
			delete(want, k)
			if a.t < newest[a.series] {
				late++
			}
			newest[a.series] = max(newest[a.series], a.t)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d samples are missing", len(want))
	}
	wanted := set.Spec.Late
	if set.Control {
		wanted = 0
	}
	if set.Late > 0 != (wanted > 0) || entry > set.Entry || set.Far > 0 != (set.LateFar > 0) {
		t.Errorf("shares %g late, %g far; entries of %d", set.Late, set.Far, entry)
	}
	if got := float64(late) / float64(set.Total()); set.Churn == 0 && math.Abs(got-set.Late) > 1e-9 || math.Abs(got-wanted) > 0.15 {
		t.Errorf("%g of the samples are late, the set says %g, wanted %g", got, set.Late, wanted)
	}
}

// TestLateShare counts disorder where there is no churn: every late sample comes
// after a newer one.
func TestLateShare(t *testing.T) {
	for _, share := range []float64{0, 0.01, 0.05, 0.25, 0.5, 0.99} {
		if testing.Short() && share != 0.25 {
			continue
		}
		spec := load.Canonical(1, 150, 100, end)
		spec.Late, spec.LateBound = share, 30*time.Minute
		set := prepare(t, spec)
		checkData(t, set)
		if math.Abs(set.Late-share) > 0.006 {
			t.Errorf("%g late, want %g", set.Late, share)
		}
	}
}

// TestCanonical holds the shape of the load against the one that the figures of
// other servers were measured with.
func TestCanonical(t *testing.T) {
	for protocol, want := range map[int]struct{ raw, compressed float64 }{1: {356, 42.5}, 2: {66, 20.7}} {
		set := prepare(t, load.Canonical(protocol, 20000, 10, end))
		raw, compressed := float64(set.Raw)/float64(set.Total()), float64(set.Bytes)/float64(set.Total())
		t.Logf("protocol %d: %.1f B raw and %.1f B compressed a sample", protocol, raw, compressed)
		if math.Abs(raw-want.raw) > want.raw*0.1 || math.Abs(compressed-want.compressed) > want.compressed*0.1 {
			t.Errorf("want %.1f and %.1f", want.raw, want.compressed)
		}
	}
}

// TestEndAt places loads at every 97th second of a day, and before 1970: they end
// before now, at one distance from the border, and are never of long ago for longer
// than they lie behind it.
func TestEndAt(t *testing.T) {
	block, past := load.Far.Milliseconds(), 5*time.Minute
	for _, day := range []int64{end / 86_400_000 * 86_400_000, -10 * 86_400_000} {
		var first load.Spec
		for now := day; now < day+86_400_000; now += 97_000 {
			spec := load.Canonical(1, 10, 100, end)
			spec.EndAt(now, past)
			if first.Samples == 0 {
				first = spec
			}
			for _, k := range []int{0, 79, 80, 99} {
				if a, b := spec.Time(3, k)-spec.Start, first.Time(3, k)-first.Start; a != b || (spec.Start-first.Start)%block != 0 {
					t.Fatalf("now %d: sample %d at %d, want %d", now, k, a, b)
				}
			}
			middle := spec.End().Add(-past)
			if before, after := spec.Time(9, 78), spec.Time(0, 80); (middle.UnixMilli()%block+block)%block != block/2 || before >= middle.UnixMilli() || after < middle.UnixMilli() {
				t.Fatalf("now %d: the border is %v", now, middle)
			}
			over := now - spec.Cold().UnixMilli()
			if last := spec.Time(9, 99); last >= now || over > past.Milliseconds() || spec.Cold().Sub(spec.End()) != load.Far-past {
				t.Fatalf("now %d: the last sample is of %d, cold from %v on", now, last, spec.Cold())
			}
		}
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*load.Spec){
		"protocol":   func(s *load.Spec) { s.Protocol = 3 },
		"series":     func(s *load.Spec) { s.Series = 0 },
		"samples":    func(s *load.Spec) { s.Samples = -1 },
		"interval":   func(s *load.Spec) { s.Interval = time.Millisecond },
		"labels":     func(s *load.Spec) { s.Labels = math.NaN() },
		"late 150 %": func(s *load.Spec) { s.Late = 1.5 },
		"at most":    func(s *load.Spec) { s.Late = 0.5 },
		"more than":  func(s *load.Spec) { s.Late, s.LateBound, s.LateFar = 0.5, time.Hour, 0.1 },
		"churn":      func(s *load.Spec) { s.Churn = -1 },
		"request":    func(s *load.Spec) { s.Request = 0 },
		"clients":    func(s *load.Spec) { s.Clients = 1000 },
		"values":     func(s *load.Spec) { s.Values = 99 },
	} {
		spec := load.Canonical(1, 100, 10, end)
		change(&spec)
		if _, err := load.Prepare(context.Background(), spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := load.ParseValues("odd"); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Error(err)
	}
	for i, name := range load.ValuesNames() {
		if v, err := load.ParseValues(name); err != nil || int(v) != i || v.String() != name {
			t.Error(name, v, err)
		}
	}
}

// TestPrepareEnds reports an end that all clients see once.
func TestPrepareEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := load.Prepare(ctx, load.Canonical(1, 100, 10, end))
	if !errors.Is(err, context.Canceled) || err.Error() != "load: context canceled" {
		t.Errorf("got %v", err)
	}
}
