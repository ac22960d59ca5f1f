package store_test

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// A set is what a benchmark writes: points in order of time.
type set struct {
	labels []labels.Labels
	points []point
}

type point struct {
	t      int64
	v      float64
	series int32
}

// loadSet reads a .rwd.gz file of CODEC_DATA, or of the samples that the codec has.
func loadSet(name string) (*set, error) {
	all, err := fixture.ReadSeries("../chunkenc/testdata", name)
	if err != nil {
		return nil, err
	}
	out := &set{}
	for i, s := range all {
		ls := labels.FromStrings(labels.MetricName, "m", "name", s.Name)
		if strings.HasPrefix(s.Name, "{") {
			if ls, err = parser.NewParser(parser.Options{}).ParseMetric(s.Name); err != nil {
				return nil, err
			}
		}
		out.labels = append(out.labels, ls)
		for k, t := range s.T {
			out.points = append(out.points, point{t, s.V[k], int32(i)})
		}
	}
	slices.SortStableFunc(out.points, func(a, b point) int { return cmp.Compare(a.t, b.t) })
	return out, nil
}

// late returns the points with half of them, at random, delay places later.
func (s *set) late(delay int) *set {
	rng := rand.New(rand.NewPCG(1, 2))
	type due struct {
		at int
		p  point
	}
	list := make([]due, len(s.points))
	for i, p := range s.points {
		list[i] = due{i, p}
		if rng.IntN(2) == 0 {
			list[i].at += 1 + rng.IntN(delay)
		}
	}
	slices.SortStableFunc(list, func(a, b due) int { return a.at - b.at })
	out := &set{labels: s.labels, points: make([]point, len(list))}
	for i := range list {
		out.points[i] = list[i].p
	}
	return out
}

// feed writes a set to a store whose clock goes with it.
func feed(b *testing.B, s *store.Store, x *set, clock *atomic.Int64) {
	b.Helper()
	h := s.Head()
	series := make([]*head.Series, len(x.labels))
	for i, ls := range x.labels {
		var wire []head.Label
		ls.Range(func(l labels.Label) { wire = append(wire, head.Label{Name: []byte(l.Name), Value: []byte(l.Value)}) })
		var err error
		if series[i], _, err = h.Resolve(head.Key{Hi: 1, Lo: uint64(i)}, wire); err != nil {
			b.Fatal(err)
		}
	}
	const batch = 2000
	for part := range slices.Chunk(x.points, batch) {
		c := h.NewBatch()
		for _, p := range part {
			clock.Store(max(clock.Load(), p.t))
			c.Float(series[p.series], p.t, 0, p.v)
		}
		if res, err := h.Commit(context.Background(), c); err != nil || res.Samples != len(part) {
			b.Fatalf("commit: %+v, %v", res, err)
		}
		c.Release()
	}
}

// BenchmarkSize tells what a sample takes on disk once it was written in order,
// or half of it late, and flushed, and what the bytes are made of.
func BenchmarkSize(b *testing.B) {
	for _, name := range []string{"prom-jitter", "nab-real"} {
		x, err := loadSet(name + ".rwd.gz")
		if err != nil {
			b.Fatal(err)
		}
		for _, arrival := range []string{"in order", "half late"} {
			y := x
			if arrival == "half late" {
				y = x.late(len(x.points) / 5)
			}
			b.Run(name+"/"+arrival, func(b *testing.B) {
				for b.Loop() {
					var clock atomic.Int64
					if name == "nab-real" { // of long ago
						clock.Store(time.Now().UnixMilli())
					}
					s := start(b, store.Options{Path: filepath.Join(fixture.QuickDir(b), "data"), Sync: wal.SyncNever, Head: head.Options{
						Accept: head.Accept{Window: -1, TrustClock: true, Now: func() time.Time { return time.UnixMilli(clock.Load()) }},
					}})
					feed(b, s, y, &clock)
					if err := s.Flush(context.Background()); err != nil {
						b.Fatal(err)
					}
					report(b, s, len(x.points))
					closeStore(b, s)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// report tells what the blocks of a store are made of.
func report(b *testing.B, s *store.Store, samples int) {
	b.Helper()
	var values, inline, shared, chunks, index int64
	var entries, columns int
	for _, dir := range s.BlockDirs() {
		open, err := block.Open(dir, block.NewPages(1<<20))
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range open.Info().Files {
			switch filepath.Dir(f.Name) {
			case "chunks":
				chunks += f.Size
			default:
				index += f.Size
			}
		}
		all, err := open.Select(context.Background(), labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".*"))
		if err != nil {
			b.Fatal(err)
		}
		r, seen := open.NewReader(), map[uint64]bool{}
		for _, x := range all {
			list, err := r.Chunks(x.Ref, math.MinInt64, math.MaxInt64)
			if err != nil {
				b.Fatal(err)
			}
			for i := range list {
				entries++
				ref, ok := chunkenc.TimeRef(list[i].Data)
				if !ok {
					inline += int64(len(list[i].Data))
					continue
				}
				values += int64(len(list[i].Data))
				if !seen[ref] {
					seen[ref] = true
					columns++
					shared += int64(len(list[i].Times.Data))
				}
			}
		}
		open.Release()
	}
	n := float64(samples)
	b.ReportMetric(float64(chunks)/n, "chunk-B/sample")
	b.ReportMetric(float64(chunks+index)/n, "B/sample")
	b.ReportMetric(float64(values)/n, "shared-chunk-B/sample")
	b.ReportMetric(float64(inline)/n, "inline-chunk-B/sample")
	b.ReportMetric(float64(shared)/n, "column-B/sample")
	b.ReportMetric(float64(chunks-values-inline-shared)/n, "frame-B/sample")
	b.ReportMetric(float64(index)/n, "index-B/sample")
	b.ReportMetric(n/float64(entries), "samples/chunk")
	b.ReportMetric(float64(columns), "columns")
}
