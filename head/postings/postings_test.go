package postings_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/index"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/head/postings"
)

// model is the series that an index must know, looked through one by one.
type model map[uint64]labels.Labels

func (m model) selected(ms []*labels.Matcher) []uint64 {
	var out []uint64
	for ref, ls := range m {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name)) }) {
			out = append(out, ref)
		}
	}
	slices.Sort(out)
	return out
}

// remove takes series out of both.
func (m model) remove(x *postings.Index, refs []uint64) {
	gone, pairs := map[uint64]struct{}{}, map[labels.Label]struct{}{}
	for _, ref := range refs {
		gone[ref] = struct{}{}
		m[ref].Range(func(l labels.Label) { pairs[l] = struct{}{} })
		delete(m, ref)
	}
	x.Remove(gone, pairs)
}

func selected(t interface{ Fatal(...any) }, x *postings.Index, ms ...*labels.Matcher) []uint64 {
	p, err := x.Select(context.Background(), ms...)
	if err != nil {
		t.Fatal(err)
	}
	refs, err := index.ExpandPostings(p)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]uint64, len(refs))
	for i, ref := range refs {
		out[i] = uint64(ref)
	}
	return out
}

var values = []string{"", "a", "b", "bb", "c", "d"}

func drawLabels(t *rapid.T, ref uint64) labels.Labels {
	b := labels.NewScratchBuilder(4)
	for _, name := range []string{"m", "n", "o"} {
		if v := rapid.SampledFrom(values).Draw(t, name); v != "" {
			b.Add(name, v)
		}
	}
	b.Add("z", fmt.Sprint(ref))
	return b.Labels()
}

func drawMatcher(t *rapid.T) *labels.Matcher {
	kind := rapid.SampledFrom([]labels.MatchType{labels.MatchEqual, labels.MatchNotEqual, labels.MatchRegexp, labels.MatchNotRegexp}).Draw(t, "kind")
	value := rapid.SampledFrom(values).Draw(t, "value")
	if kind == labels.MatchRegexp || kind == labels.MatchNotRegexp {
		value = rapid.SampledFrom([]string{"", "a|c", "b.*", ".*", ".+", "a?", "[^b]+"}).Draw(t, "pattern")
	}
	return labels.MustNewMatcher(kind, rapid.SampledFrom([]string{"m", "n", "o", "z", "nowhere"}).Draw(t, "of"), value)
}

// TestAgainstModel adds, removes and selects at random.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, m, ref := postings.New(), model{}, uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "count") {
					ref += rapid.SampledFrom([]uint64{1, 1, 1, 2, 127, 128, 1 << 40}).Draw(t, "step")
					m[ref] = drawLabels(t, ref)
					x.Add(ref, m[ref])
				}
			},
			"remove": func(t *rapid.T) {
				share := rapid.SampledFrom([]uint64{1, 2, 10}).Draw(t, "share")
				m.remove(x, slices.Collect(func(yield func(uint64) bool) {
					for _, ref := range slices.Sorted(maps.Keys(m)) {
						if ref%share == 0 && !yield(ref) {
							return
						}
					}
				}))
			},
			"clear": func(*rapid.T) {
				x.Clear()
				clear(m)
				ref = 0
			},
			"": func(t *rapid.T) {
				ms := rapid.SliceOfN(rapid.Custom(drawMatcher), 1, 3).Draw(t, "matchers")
				if got, want := selected(t, x, ms...), m.selected(ms); !slices.Equal(got, want) {
					t.Fatalf("%v: got %v, want %v", ms, got, want)
				}
			},
		})
	})
}

// TestSeek goes through a long list by steps of all lengths, as a list of
// Prometheus's does.
func TestSeek(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x, ref := postings.New(), uint64(0)
	var plain []storage.SeriesRef
	for range 5000 {
		ref += 1 + rng.Uint64N(1<<rng.IntN(20))
		x.Add(ref, labels.FromStrings("m", "a"))
		plain = append(plain, storage.SeriesRef(ref))
	}
	for range 500 {
		got, err := x.Select(context.Background(), labels.MustNewMatcher(labels.MatchEqual, "m", "a"))
		if err != nil {
			t.Fatal(err)
		}
		want, to := index.NewListPostings(plain), storage.SeriesRef(1)
		for alive, step := true, 1+rng.Uint64N(1<<rng.IntN(28)); alive; {
			if rng.IntN(2) == 0 {
				to += storage.SeriesRef(rng.Uint64N(2 * step))
				alive = want.Seek(to)
				if got.Seek(to) != alive {
					t.Fatalf("seek %d: not %t", to, alive)
				}
			} else if alive = want.Next(); got.Next() != alive {
				t.Fatalf("next: not %t", alive)
			}
			if alive && got.At() != want.At() {
				t.Fatalf("at %d, want %d", got.At(), want.At())
			}
			to = max(to, want.At())
		}
		if got.Next() || got.Seek(0) || got.Err() != nil {
			t.Fatal("it goes on behind the end")
		}
	}
}

// TestReadersGoOn adds and removes while others read: what stays is always found,
// in order, whatever comes and goes beside it.
func TestReadersGoOn(t *testing.T) {
	x, m := postings.New(), model{}
	for ref := uint64(1); ref <= 1000; ref++ {
		m[ref] = labels.FromStrings("id", fmt.Sprint(ref), "m", "a", "odd", fmt.Sprint(ref%2))
		x.Add(ref, m[ref])
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, ms := range [][]*labels.Matcher{
		{labels.MustNewMatcher(labels.MatchEqual, "odd", "1")},
		{labels.MustNewMatcher(labels.MatchRegexp, "id", ".+"), labels.MustNewMatcher(labels.MatchEqual, "odd", "1")},
		{labels.MustNewMatcher(labels.MatchRegexp, "id", ".*[13579]")},
		{labels.MustNewMatcher(labels.MatchNotEqual, "odd", "0")},
	} {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				refs := selected(t, x, ms...)
				if !slices.IsSorted(refs) || len(slices.Compact(refs)) != len(refs) {
					t.Error("out of order")
					return
				}
				stays := slices.DeleteFunc(refs, func(ref uint64) bool { return ref > 1000 })
				if len(stays) != 500 {
					t.Errorf("%d found of 500", len(stays))
					return
				}
			}
		})
	}
	for ref, round := uint64(1001), 0; round < 50; round++ {
		var added []uint64
		for range 40 {
			m[ref] = labels.FromStrings("id", fmt.Sprint(ref), "m", "a", "odd", fmt.Sprint(ref%2), "round", fmt.Sprint(round))
			x.Add(ref, m[ref])
			added = append(added, ref)
			ref++
		}
		m.remove(x, added)
	}
	close(stop)
	readers.Wait()
}

// TestRemovedAtOnce removes the series of a name from several sides at once, until it is gone.
func TestRemovedAtOnce(t *testing.T) {
	const sides, each = 4, 300 // more labels than are gone through under one lock
	for range 500 {
		x := postings.New()
		for ref := range uint64(sides * each) {
			x.Add(ref+1, labels.FromStrings("id", fmt.Sprint(ref+1)))
		}
		var removals sync.WaitGroup
		for side := range uint64(sides) {
			removals.Go(func() {
				refs, pairs := map[uint64]struct{}{}, map[labels.Label]struct{}{}
				for ref := side*each + 1; ref <= (side+1)*each; ref++ {
					refs[ref], pairs[labels.Label{Name: "id", Value: fmt.Sprint(ref)}] = struct{}{}, struct{}{}
				}
				x.Remove(refs, pairs)
			})
		}
		removals.Wait()
		if refs := selected(t, x, labels.MustNewMatcher(labels.MatchRegexp, "id", ".*")); len(refs) > 0 {
			t.Fatalf("%d are left", refs)
		}
	}
}

// BenchmarkAdd adds series of scrapes: targets of 200 series with ten labels.
func BenchmarkAdd(b *testing.B) {
	const series = 100_000
	list := make([]labels.Labels, series)
	for i := range list {
		target := i / 200
		list[i] = labels.FromStrings("__name__", fmt.Sprint("metric_", i%200/5), "cluster", "eu-1", "code", fmt.Sprint(i*7%5), "container", "c", "endpoint", "http",
			"handler", fmt.Sprint("/", i%5), "instance", fmt.Sprint("10.0.0.", target), "job", fmt.Sprint("j", target%8), "namespace", fmt.Sprint("n", target%7), "pod", fmt.Sprint("p-", target))
	}
	b.ReportAllocs()
	for b.Loop() {
		x := postings.New()
		for i, ls := range list {
			x.Add(uint64(i+1), ls)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series), "ns/series")
}
