package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/store"
)

// exportDir makes a directory with samples of every kind over four days, in any
// order, in blocks, in the head and in both, and returns what it holds.
func exportDir(t *testing.T) (dir string, newest int64, want []string) {
	t.Helper()
	dir = filepath.Join(quickDir(t), "data")
	s := open(t, store.Options{Path: dir})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	newest = time.Now().UnixMilli()
	values := []float64{1, 2, math.Inf(1), math.Copysign(0, -1), math.NaN(), math.Float64frombits(value.StaleNaN), math.Float64frombits(0x7ff8_0000_dead_beef)}
	for round := range 4 {
		for range 200 {
			b := s.Head().NewBatch()
			at := newest - rng.Int64N(4*24*3600)*1000
			if rng.IntN(2) == 0 {
				at = newest - rng.Int64N(1800)*1000
			}
			for i := range 8 {
				series, ts := resolve(t, s.Head(), i), at-int64(rng.IntN(3))*1000
				switch {
				case i < 4 || i == 7 && rng.IntN(2) == 0:
					b.Float(series, ts, 0, values[rng.IntN(len(values))])
				case i == 4:
					b.Histogram(series, ts, 0, tsdbutil.GenerateTestHistogram(rng.Int64N(5)), nil)
				case i == 5:
					b.Histogram(series, ts, 0, nil, tsdbutil.GenerateTestFloatHistogram(rng.Int64N(5)))
				default:
					b.Histogram(series, ts, 0, tsdbutil.GenerateTestGaugeHistogram(rng.Int64N(5)), nil)
				}
			}
			if res, err := s.Head().Commit(context.Background(), b); err != nil || res.Refused.Any() {
				t.Fatalf("%+v, %v", res, err)
			}
			b.Release()
		}
		if round%2 == 0 {
			if err := s.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	want = readAll(t, s)
	closeStore(t, s)
	return dir, newest, want
}

// readAll returns "i t value" of all series, histograms as floats with what tells a gauge.
func readAll(t *testing.T, s *store.Store) (out []string) {
	t.Helper()
	v := s.View()
	defer v.Close()
	series, err := v.Select(context.Background(), math.MinInt64, math.MaxInt64, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
	if err != nil {
		t.Fatal(err)
	}
	r := v.NewReader()
	for i := range series {
		err := r.Read(&series[i], math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
			for k, ts := range run.T {
				text := ""
				switch run.Kind {
				case chunkenc.KindFloat:
					text = fmt.Sprintf("%x", math.Float64bits(run.V[k]))
				case chunkenc.KindHistogram:
					text = histogramText(run.H[k].ToFloat(nil))
				default:
					text = histogramText(run.FH[k])
				}
				out = append(out, fmt.Sprintf("%s %d %s", series[i].Labels.Get("i"), ts, text))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func histogramText(h *histogram.FloatHistogram) string {
	return fmt.Sprintf("%v gauge=%v", h, h.CounterResetHint == histogram.GaugeType)
}

// readStandard reads blocks with Prometheus's library, which must find no two
// that overlap and no chunk of more than 120 samples.
func readStandard(t *testing.T, dir string) (out []string, metas []tsdb.BlockMeta) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := tsdb.OpenBlock(promslog.NewNopLogger(), filepath.Join(dir, name.Name()), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		metas = append(metas, b.Meta())
		q, err := tsdb.NewBlockQuerier(b, math.MinInt64, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
		for set.Next() {
			out = appendStandard(out, set.At().Labels().Get("i"), set.At().Iterator(nil))
		}
		cq, err := tsdb.NewBlockChunkQuerier(b, math.MinInt64, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		all := cq.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
		for all.Next() {
			for it := all.At().Iterator(nil); it.Next(); {
				if n := it.At().Chunk.NumSamples(); n > 120 {
					t.Errorf("a chunk of %d samples", n)
				}
			}
		}
		if err := errors.Join(set.Err(), all.Err(), q.Close(), cq.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(metas, func(a, b tsdb.BlockMeta) int { return int(a.MinTime - b.MinTime) })
	if o := tsdb.OverlappingBlocks(metas); len(o) > 0 {
		t.Errorf("blocks overlap: %v", o)
	}
	return out, metas
}

func appendStandard(out []string, name string, it promenc.Iterator) []string {
	for {
		switch it.Next() {
		case promenc.ValNone:
			return out
		case promenc.ValFloat:
			ts, v := it.At()
			out = append(out, fmt.Sprintf("%s %d %x", name, ts, math.Float64bits(v)))
		default:
			ts, h := it.AtFloatHistogram(nil)
			out = append(out, fmt.Sprintf("%s %d %s", name, ts, histogramText(h)))
		}
	}
}

// timeOf returns the timestamp of "i t value".
func timeOf(s string) (ts int64) {
	var i string
	_, _ = fmt.Sscan(s, &i, &ts)
	return ts
}

// TestExportIsReadByPrometheus exports everything, and a part by range and
// matchers, and reads the same.
func TestExportIsReadByPrometheus(t *testing.T) {
	dir, newest, want := exportDir(t)
	from, to := newest-30*3600*1000, newest-3600*1000
	for _, tc := range []struct {
		name string
		o    store.ExportOptions
		keep func(string) bool
	}{
		{"everything", store.ExportOptions{From: math.MinInt64, To: math.MaxInt64}, func(string) bool { return true }},
		{"in long blocks", store.ExportOptions{From: math.MinInt64, To: math.MaxInt64, BlockDuration: 36 * time.Hour}, func(string) bool { return true }},
		{"a range and two selectors", store.ExportOptions{From: from, To: to, Matchers: [][]*labels.Matcher{
			{labels.MustNewMatcher(labels.MatchRegexp, "i", "[14]")},
			{labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"), labels.MustNewMatcher(labels.MatchRegexp, "i", "[46]")},
		}}, func(s string) bool {
			return strings.ContainsRune("146", rune(s[0])) && timeOf(s) >= from && timeOf(s) <= to
		}},
		{"nothing", store.ExportOptions{From: 0, To: 1}, func(string) bool { return false }},
	} {
		tc.o.Path, tc.o.Output = dir, filepath.Join(t.TempDir(), "out")
		out, err := store.Export(context.Background(), tc.o)
		if err != nil {
			t.Fatal(err)
		}
		got, metas := readStandard(t, tc.o.Output)
		part := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return !tc.keep(s) })
		if out.Samples != uint64(len(part)) || out.Blocks != len(metas) || tc.name != "nothing" && out.Blocks < 2 {
			t.Errorf("%s: %+v, want %d samples", tc.name, out, len(part))
		}
		slices.Sort(got)
		slices.Sort(part)
		if !slices.Equal(got, part) {
			t.Errorf("%s: %d samples read, want %d", tc.name, len(got), len(part))
			for i := range min(len(got), len(part)) {
				if got[i] != part[i] {
					t.Errorf("first: got %s, want %s", got[i], part[i])
					break
				}
			}
		}
	}
	s := open(t, store.Options{Path: dir})
	if got := readAll(t, s); !slices.Equal(got, want) {
		t.Error("an export changed the directory")
	}
	closeStore(t, s)
}

func TestExportRefuses(t *testing.T) {
	dir, _, _ := checkedDir(t)
	full := t.TempDir()
	must(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	for name, o := range map[string]store.ExportOptions{
		"is not empty":      {Path: dir, Output: full},
		"no data directory": {Path: full, Output: t.TempDir()},
		"from 2 to 1":       {Path: dir, Output: t.TempDir(), From: 2, To: 1},
	} {
		if _, err := store.Export(context.Background(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := t.TempDir()
	if _, err := store.Export(ctx, store.ExportOptions{Path: dir, Output: out, From: math.MinInt64, To: math.MaxInt64}); !errors.Is(err, context.Canceled) {
		t.Errorf("an export that is ended: %v", err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
