package transfer_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/transfer"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// options are those of a store in dir that keeps everything.
func options(dir string) store.Options {
	return store.Options{Path: dir, Head: head.Options{Accept: head.Accept{Now: time.Now, Window: -1, MaxFuture: time.Hour}}}
}

// newRand returns a generator whose seed is logged.
func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

var oddValues = []float64{1, 2, math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.NaN(), math.Float64frombits(value.StaleNaN),
	math.Float64frombits(0x7ff8_0000_dead_beef), 0.1, 1e-300, math.MaxFloat64, 5e-324, math.Pi}

// randomDir makes a directory with samples of every kind over four days, in any
// order, in blocks, in the head and in both, and returns what it holds.
func randomDir(t testing.TB, starts bool) (dir string, newest int64, want []string) {
	t.Helper()
	dir = filepath.Join(fixture.QuickDir(t), "data")
	s, err := store.OpenOffline(context.Background(), options(dir))
	must(t, err)
	rng := newRand(t)
	newest = time.Now().UnixMilli()
	for round := range 4 {
		for range 200 {
			b := s.Head().NewBatch()
			at := newest - rng.Int64N(4*24*3600)*1000
			if rng.IntN(2) == 0 {
				at = newest - rng.Int64N(1800)*1000
			}
			for i := range 8 {
				ts, st := at-int64(rng.IntN(3))*1000, int64(0)
				if starts && rng.IntN(3) > 0 {
					st = ts - rng.Int64N(1e6)
				}
				put(t, s.Head(), b, rng, i, ts, st)
			}
			res, err := s.Head().Commit(context.Background(), b)
			must(t, err)
			if res.Refused.Any() {
				t.Fatal(res.Refused.Error())
			}
			b.Release()
		}
		if round%2 == 0 {
			must(t, s.Flush(context.Background()))
		}
	}
	want = readStore(t, s)
	must(t, s.Close())
	return dir, newest, want
}

// put adds a sample to the i-th series.
func put(t testing.TB, h *head.Head, b *head.Batch, rng *rand.Rand, i int, ts, st int64) {
	series := resolve(t, h, i)
	switch {
	case i < 4 || i == 7 && rng.IntN(2) == 0:
		b.Float(series, ts, st, oddValues[rng.IntN(len(oddValues))])
	case rng.IntN(12) == 0:
		b.Histogram(series, ts, st, &histogram.Histogram{Sum: math.Float64frombits(value.StaleNaN)}, nil)
	case i == 4:
		b.Histogram(series, ts, st, tsdbutil.GenerateTestHistogram(rng.Int64N(5)), nil)
	case i == 5:
		b.Histogram(series, ts, st, nil, tsdbutil.GenerateTestFloatHistogram(rng.Int64N(5)))
	case i == 6:
		b.Histogram(series, ts, st, tsdbutil.GenerateTestCustomBucketsHistogram(rng.Int64N(5)), nil)
	default:
		b.Histogram(series, ts, st, tsdbutil.GenerateTestGaugeHistogram(rng.Int64N(5)), nil)
	}
}

// resolve finds or creates the i-th series; its labels need to be escaped.
func resolve(t testing.TB, h *head.Head, i int) *head.Series {
	t.Helper()
	s, _, err := h.Resolve(head.Key{Hi: 1, Lo: uint64(i)}, []head.Label{
		{Name: []byte("i"), Value: fmt.Append(nil, i)},
		{Name: []byte(labels.MetricName), Value: []byte("m")},
		{Name: []byte("odd.ü"), Value: []byte("\"\\\n\t\x01日")},
	})
	must(t, err)
	return s
}

// readDir returns "i t st value" of everything in a directory, every bit of it.
func readDir(t testing.TB, dir string) []string {
	t.Helper()
	s, err := store.OpenOffline(context.Background(), options(dir))
	must(t, err)
	defer func() { must(t, s.Close()) }()
	return readStore(t, s)
}

func readStore(t testing.TB, s *store.Store) (out []string) {
	t.Helper()
	v := s.View()
	defer v.Close()
	series, err := v.SelectAny(context.Background(), math.MinInt64, math.MaxInt64, nil)
	must(t, err)
	r := v.NewReader()
	for i := range series {
		err := r.Read(&series[i], math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
			for k, ts := range run.T {
				var st int64
				if len(run.ST) > 0 {
					st = run.ST[k]
				}
				name := series[i].Labels.Get("i")
				if name == "" {
					name = series[i].Labels.String()
				}
				out = append(out, fmt.Sprintf("%s %d %d %s", name, ts, st, valueText(run, k)))
			}
			return nil
		})
		must(t, err)
	}
	return out
}

func valueText(run *chunkenc.Samples, k int) string {
	switch run.Kind {
	case chunkenc.KindFloat:
		return fmt.Sprintf("%x", math.Float64bits(run.V[k]))
	case chunkenc.KindHistogram:
		return "int " + histogramText(run.H[k].ToFloat(nil))
	}
	return "float " + histogramText(run.FH[k])
}

func histogramText(h *histogram.FloatHistogram) string {
	return fmt.Sprintf("%v sum=%x gauge=%v", h, math.Float64bits(h.Sum), h.CounterResetHint == histogram.GaugeType)
}

// same compares what two directories hold.
func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	t.Errorf("%s: %d samples, want %d", what, len(got), len(want))
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("first: got %s, want %s", got[i], want[i])
			return
		}
	}
}

// importInto imports inputs into dir.
func importInto(t testing.TB, dir string, inputs ...string) (transfer.Imported, []string) {
	t.Helper()
	var said []string
	out, err := transfer.Import(context.Background(), transfer.ImportOptions{
		Store: options(dir), Inputs: inputs, From: math.MinInt64, To: math.MaxInt64, Memory: 64 << 10, Say: func(s string) { said = append(said, s) },
	})
	must(t, err)
	return out, said
}
