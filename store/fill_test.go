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
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/ooo"
	"github.com/rwsink/rwsink/store"
)

// sampled is a sample of the series that resolve knows by number.
type sampled struct {
	i int
	t int64
	v float64
}

// fill fills samples, by number of series and time, into the ranges that they lie in.
func fill(t testing.TB, s *store.Store, list []sampled) (out store.Filled) {
	t.Helper()
	rangeOf := s.FillRanges()
	parts := map[int64][]sampled{}
	for _, x := range list {
		lo, _ := rangeOf(x.t)
		parts[lo] = append(parts[lo], x)
	}
	for lo, part := range parts {
		_, hi := rangeOf(lo)
		slices.SortStableFunc(part, func(a, b sampled) int {
			if a.i != b.i {
				return a.i - b.i
			}
			return int(a.t - b.t)
		})
		got, err := s.Fill(context.Background(), lo, hi, func(add func(labels.Labels, []ooo.Layer) error) error {
			for i := 0; i < len(part); {
				j := i
				run := chunkenc.Samples{}
				for ; j < len(part) && part[j].i == part[i].i; j++ {
					run.T, run.V = append(run.T, part[j].t), append(run.V, part[j].v)
				}
				ls := labels.FromStrings("i", fmt.Sprint(part[i].i), labels.MetricName, "m")
				layer := ooo.Layer{Lo: run.T[0], Hi: run.T[len(run.T)-1], Read: func(lo, hi int64, emit func(*chunkenc.Samples) error) error {
					a, _ := slices.BinarySearch(run.T, lo)
					b, _ := slices.BinarySearch(run.T, hi+1)
					if a == b {
						return nil
					}
					piece := run.Slice(a, b)
					return emit(&piece)
				}}
				if err := add(ls, []ooo.Layer{layer}); err != nil {
					return err
				}
				i = j
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		out.Samples += got.Samples
		out.Same += got.Same
		out.Other += got.Other
	}
	return out
}

func openQuiet(t testing.TB, dir string) *store.Store {
	t.Helper()
	s, err := store.OpenOffline(context.Background(), store.Options{Path: dir, Head: head.Options{Accept: head.Accept{Now: time.Now, Window: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFillOnlyAdds fills in and writes in turn, at the same times, flushes and
// merges, and starts again: what was written first, or written at all, stays.
func TestFillOnlyAdds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := filepath.Join(fixture.QuickDir(t), "data")
	s := openQuiet(t, dir)
	now := time.Now().UnixMilli()
	staleNaN := math.Float64frombits(value.StaleNaN)
	type key struct {
		i int
		t int64
	}
	filled, wrote := map[key]float64{}, map[key]float64{}
	stale := func(m map[key]float64, k key) bool { v, ok := m[k]; return ok && value.IsStaleNaN(v) }
	for round := range 40 {
		var list []sampled
		seen := map[key]bool{}
		begin := now - rng.Int64N(6)*2*3600*1000
		for range 60 {
			x := sampled{rng.IntN(3), begin - rng.Int64N(200)*1000, float64(rng.IntN(100))}
			if rng.IntN(5) == 0 {
				x.v = staleNaN
			}
			if k := (key{x.i, x.t}); !seen[k] {
				seen[k] = true
				list = append(list, x)
			}
		}
		if round%2 == 0 {
			for _, x := range list {
				k := key{x.i, x.t}
				if _, ok := wrote[k]; ok && !stale(wrote, k) {
					continue
				}
				if _, ok := filled[k]; !ok || stale(filled, k) && !value.IsStaleNaN(x.v) {
					filled[k] = x.v
				}
			}
			fill(t, s, list)
		} else {
			b := s.Head().NewBatch()
			for _, x := range list {
				b.Float(resolve(t, s.Head(), x.i), x.t, 0, x.v)
				if k := (key{x.i, x.t}); !value.IsStaleNaN(x.v) || wrote[k] == 0 && !hasKey(wrote, k) {
					wrote[k] = x.v
				}
			}
			if res, err := s.Head().Commit(context.Background(), b); err != nil || res.Refused.Any() {
				t.Fatalf("%+v, %v", res, err)
			}
			b.Release()
		}
		switch rng.IntN(6) {
		case 0:
			if err := s.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		case 1:
			closeStore(t, s)
			s = openQuiet(t, dir)
		}
	}
	want := map[key]float64{}
	for k, v := range filled {
		want[k] = v
	}
	for k, v := range wrote {
		if f, ok := want[k]; !ok || value.IsStaleNaN(f) || !value.IsStaleNaN(v) {
			want[k] = v
		}
	}
	var texts []string
	for k, v := range want {
		texts = append(texts, fmt.Sprintf("%d %d %x", k.i, k.t, math.Float64bits(v)))
	}
	slices.Sort(texts)
	compare := func(when string) {
		t.Helper()
		got := read(t, s)
		slices.Sort(got)
		if !slices.Equal(got, texts) {
			t.Errorf("%s: %d samples, want %d", when, len(got), len(texts))
			for i := range min(len(got), len(texts)) {
				if got[i] != texts[i] {
					t.Fatalf("first: got %s, want %s", got[i], texts[i])
				}
			}
		}
	}
	compare("at the end")
	closeStore(t, s)
	verify(t, dir)
	s = openQuiet(t, dir)
	compare("after a restart")
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	compare("after everything was merged")
	closeStore(t, s)
	verify(t, dir)
}

func hasKey[K comparable, V any](m map[K]V, k K) bool { _, ok := m[k]; return ok }

// verify checks a directory, which must have no fault.
func verify(t testing.TB, dir string) {
	t.Helper()
	c, err := store.Check(context.Background(), dir, store.CheckOptions{Fault: func(err error) { t.Error(err) }, Note: func(string) {}})
	if err != nil || c.Faults > 0 {
		t.Errorf("%v, %v", c, err)
	}
}

// TestFillTwice fills the same twice, over blocks and over the head, and merges:
// the second time adds nothing, and the bytes that stay are the same.
func TestFillTwice(t *testing.T) {
	var list []sampled
	begin := time.Now().Add(-20*time.Hour).UnixMilli() / 15000 * 15000
	for i := range 20 {
		for k := range int64(2000) {
			list = append(list, sampled{10 + i, begin + k*15000, float64(k % 100)}) // two digits: order of labels
		}
	}
	size := func(dir string) (n int64) {
		s := openQuiet(t, dir)
		if err := s.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		n = s.Total()
		closeStore(t, s)
		return n
	}
	once, twice := filepath.Join(fixture.QuickDir(t), "once"), filepath.Join(fixture.QuickDir(t), "twice")
	s := openQuiet(t, once)
	if got := fill(t, s, list); got.Samples != uint64(len(list)) {
		t.Errorf("%+v", got)
	}
	closeStore(t, s)
	s = openQuiet(t, twice)
	fill(t, s, list[:len(list)/2])
	if got := fill(t, s, list); got.Samples != uint64(len(list)/2) || got.Same != uint64(len(list)/2) {
		t.Errorf("the second time: %+v", got)
	}
	if got := fill(t, s, list); got.Samples != 0 || got.Same != uint64(len(list)) || got.Block != "" {
		t.Errorf("the third time: %+v", got)
	}
	closeStore(t, s)
	if a, b := size(once), size(twice); float64(b) > 1.02*float64(a) {
		t.Errorf("%d bytes, filled in parts %d", a, b)
	}
}

// TestFillLeavesNothing ends in the middle of a fill.
func TestFillLeavesNothing(t *testing.T) {
	dir := filepath.Join(fixture.QuickDir(t), "data")
	s := openQuiet(t, dir)
	boom := errors.New("boom")
	run := chunkenc.Samples{T: []int64{1}, V: []float64{1}}
	_, err := s.Fill(context.Background(), 0, 10, func(add func(labels.Labels, []ooo.Layer) error) error {
		err := add(labels.FromStrings(labels.MetricName, "m"), []ooo.Layer{{Lo: 0, Hi: 10, Read: func(_, _ int64, emit func(*chunkenc.Samples) error) error { return emit(&run) }}})
		return errors.Join(err, boom)
	})
	if !errors.Is(err, boom) {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "blocks")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	closeStore(t, s)
}

func TestFillRanges(t *testing.T) {
	const hour = 3600 * 1000
	now := time.UnixMilli(1_700_000_000_000)
	for retention, want := range map[time.Duration]int64{0: 162 * hour, 20 * 24 * time.Hour: 18 * hour, 24 * time.Hour: 2 * hour} {
		s, err := store.OpenOffline(context.Background(), store.Options{Path: filepath.Join(t.TempDir(), "data"), Head: head.Options{
			Accept: head.Accept{Now: func() time.Time { return now }, Retention: retention},
		}})
		if err != nil {
			t.Fatal(err)
		}
		rangeOf := s.FillRanges()
		if lo, hi := rangeOf(now.UnixMilli() - 400*hour); hi-lo+1 != want {
			t.Errorf("retention %v: long ago [%d, %d], want %d ms", retention, lo, hi, want)
		}
		if lo, hi := rangeOf(now.UnixMilli()); hi-lo+1 != 2*hour {
			t.Errorf("retention %v: now [%d, %d]", retention, lo, hi)
		}
		// One after another they leave no gap and do not overlap, to the ends of time.
		for at := now.UnixMilli() - 600*hour; at < now.UnixMilli(); {
			lo, hi := rangeOf(at)
			if lo2, hi2 := rangeOf(hi); lo2 != lo || hi2 != hi || lo > at {
				t.Fatalf("[%d, %d] of %d, [%d, %d] of its end", lo, hi, at, lo2, hi2)
			}
			at = hi + 1
		}
		for _, at := range []int64{math.MinInt64, math.MinInt64 + 1, math.MinInt64 + want - 1, math.MaxInt64 - 1, math.MaxInt64, -1, 0} {
			if lo, hi := rangeOf(at); lo > at || hi < at {
				t.Errorf("[%d, %d] of %d", lo, hi, at)
			}
		}
		closeStore(t, s)
	}
}

// TestFillBringsBack deletes what was filled and what was written, fills it
// again, and finds it again, also after a start and a merge.
func TestFillBringsBack(t *testing.T) {
	dir := filepath.Join(fixture.QuickDir(t), "data")
	s := openQuiet(t, dir)
	now := time.Now().UnixMilli()
	b := s.Head().NewBatch()
	b.Float(resolve(t, s.Head(), 1), now-5000, 0, 1)
	if res, err := s.Head().Commit(context.Background(), b); err != nil || res.Refused.Any() {
		t.Fatalf("%+v, %v", res, err)
	}
	b.Release()
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	list := []sampled{{1, now - 5000, 2}, {1, now - 4000, 3}}
	if got := fill(t, s, list); got.Samples != 1 || got.Other != 1 {
		t.Errorf("%+v", got)
	}
	if err := s.Delete(context.Background(), math.MinInt64, math.MaxInt64, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "i", "1")}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s); len(got) != 0 {
		t.Errorf("deleted, and there: %q", got)
	}
	if got := fill(t, s, list); got.Samples != 2 {
		t.Errorf("%+v", got)
	}
	want := []string{fmt.Sprintf("1 %d %x", now-5000, math.Float64bits(2)), fmt.Sprintf("1 %d %x", now-4000, math.Float64bits(3))}
	for _, when := range []string{"filled again", "after a start", "after a merge", "after a merge and a start"} {
		switch when {
		case "after a start", "after a merge and a start":
			closeStore(t, s)
			verify(t, dir)
			s = openQuiet(t, dir)
		case "after a merge":
			if err := s.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if got := read(t, s); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	closeStore(t, s)
}

// TestFilledOverADelete: what is filled in where something was deleted stays, also
// merged with blocks of before the delete, when the deletes are applied anew.
func TestFilledOverADelete(t *testing.T) {
	s, _, o := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data")})
	ctx := context.Background()
	commit(t, s, 1, 12_000, 10, 1)
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	v := s.View()
	all, err := v.SelectAny(ctx, math.MinInt64, math.MaxInt64, nil)
	v.Close()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	deleteOf(t, s, 12_200, 12_500, "1")
	run := &chunkenc.Samples{T: []int64{12_200, 12_300}, V: []float64{5, 6}}
	read := func(_, _ int64, emit func(*chunkenc.Samples) error) error { return emit(run) }
	if _, err := s.Fill(ctx, 12_000, 12_999, func(add func(labels.Labels, []ooo.Layer) error) error {
		return add(all[0].Labels, []ooo.Layer{{Lo: 12_200, Hi: 12_300, Read: read}})
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(ctx); err != nil { // which merges
		t.Fatal(err)
	}
	dirs := s.BlockDirs()
	if len(dirs) != 1 {
		t.Fatal(dirs)
	}
	for _, damage := range []func(){
		func() { flipOnDisk(t, filepath.Join(dirs[0], "tombstones"), 7) },
		func() { flipOnDisk(t, filepath.Join(o.Path, "blocks", "deletes.json"), 7) },
	} {
		closeStore(t, s)
		damage()
		s = start(t, o)
		if n := samplesOf(t, s, 1); n != 8 {
			t.Errorf("%d samples, want 8", n)
		}
	}
	closeStore(t, s)
}
