package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
)

func everything(head.ContainerInfo) bool { return true }

// flushAll makes blocks of what is in the head, and merges none.
func flushAll(t testing.TB, s *store.Store) {
	t.Helper()
	must(t, s.FlushSome(context.Background(), everything))
}

// TestReadersCountExactly reads a fixed set of samples, in order and late ones,
// from many goroutines, while it is written again, flushed, merged and its log
// is cut; beside it a series comes and goes.
func TestReadersCountExactly(t *testing.T) {
	const series, samples = 20, 40
	s, _, o := rig(t, store.Options{Segment: 2000})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	write := func(i int) {
		for k := range int64(4) { // the third quarter first
			commit(t, s, i, 3_000+1_000*((k+2)%4), samples/4, 1)
		}
	}
	for i := range series {
		write(i)
	}
	stop := make(chan struct{})
	var rounds atomic.Int64
	var writers, readers sync.WaitGroup
	writers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				write(i % series)
				commit(t, s, series, 12_000+int64(i%50)*100, 1, float64(i))
			}
		}
	})
	for range 4 {
		readers.Go(func() {
			for k := 0; k < 10 || rounds.Load() < 6 && ctx.Err() == nil; k++ {
				if got := countOf(t, s); got != series*samples {
					t.Errorf("%d samples read, want %d", got, series*samples)
					return
				}
			}
		})
	}
	writers.Go(func() {
		for ; ; rounds.Add(1) {
			select {
			case <-stop:
				return
			default:
			}
			var err error
			if rounds.Load()%3 == 0 {
				err = s.Flush(context.Background())
			} else {
				err = s.FlushSome(context.Background(), everything)
			}
			if err = errors.Join(err, s.Head().Collect(context.Background())); err != nil {
				t.Error(err)
				return
			}
		}
	})
	readers.Wait()
	close(stop)
	writers.Wait()
	closeStore(t, s)
	s = start(t, o)
	if got := countOf(t, s); got != series*samples {
		t.Errorf("%d samples after a restart", got)
	}
	closeStore(t, s)
}

// countOf counts the samples before 12,000 in a fresh view, which must be in order.
func countOf(t testing.TB, s *store.Store) (n int) {
	v := s.View()
	defer v.Close()
	list, err := v.Select(context.Background(), 0, 11_999, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
	if err != nil {
		t.Error(err)
	}
	r := v.NewReader()
	for i := range list {
		last := int64(math.MinInt64)
		err := r.Read(&list[i], 0, 11_999, func(run *chunkenc.Samples) error {
			for _, ts := range run.T {
				if ts <= last {
					return fmt.Errorf("%d after %d", ts, last)
				}
				last = ts
			}
			n += run.Len()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return n
}

// TestOldViewsKeepCollectedSeries takes a view, lets its series leave the head
// with a flush and two collections and come back, and reads what was there.
func TestOldViewsKeepCollectedSeries(t *testing.T) {
	for _, back := range []bool{false, true} {
		s, _, _ := rig(t, store.Options{})
		ctx := context.Background()
		commit(t, s, 0, 3_000, 10, 1)
		v := s.View()
		for range 3 {
			commit(t, s, 1, 12_000, 1, 1)
			if err := errors.Join(s.FlushSome(ctx, everything), s.Head().Collect(ctx)); err != nil {
				t.Fatal(err)
			}
		}
		if x, _ := s.Head().Lookup(head.Key{Hi: 1, Lo: 0}); x != nil {
			t.Fatal("the series was not collected")
		}
		if back {
			commitNew(t, s, 0, 4_000)
		}
		got, err := readView(v, 0, 3_999)
		if err != nil || len(got) != 10 {
			t.Errorf("back %v: an old view holds %d samples, want 10, %v", back, len(got), err)
		}
		v.Close()
		closeStore(t, s)
	}
}

// commitNew commits one sample, its series resolved anew.
func commitNew(t testing.TB, s *store.Store, i int, at int64) {
	t.Helper()
	b := s.Head().NewBatch()
	defer b.Release()
	x, _, err := s.Head().Resolve(head.Key{Hi: 9, Lo: uint64(i)}, []head.Label{
		{Name: []byte("i"), Value: fmt.Append(nil, i)},
		{Name: []byte(labels.MetricName), Value: []byte("m")},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Float(x, at, 0, 1)
	if res, err := s.Head().Commit(context.Background(), b); err != nil || res.Samples != 1 {
		t.Fatalf("commit: %+v, %v", res, err)
	}
}

// TestCollectedUnderABatch: a batch names series that leave the head before it is committed.
func TestCollectedUnderABatch(t *testing.T) {
	s, _, o := rig(t, store.Options{Segment: 600})
	ctx := context.Background()
	commit(t, s, 0, 3_000, 10, 1)
	b := s.Head().NewBatch()
	defer b.Release()
	b.Float(resolve(t, s.Head(), 0), 4_000, 0, 2)
	b.Histogram(resolve(t, s.Head(), 0), 4_100, 0, testHistogram(3), nil)
	for range 3 {
		commit(t, s, 1, 12_000, 1, 1)
		if err := errors.Join(s.FlushSome(ctx, everything), s.Head().Collect(ctx), s.CutLog(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	if x, _ := s.Head().Lookup(head.Key{Hi: 1, Lo: 0}); x != nil {
		t.Fatal("the series was not collected")
	}
	if res, err := s.Head().Commit(ctx, b); err != nil || res.Samples != 1 || res.Histograms != 1 {
		t.Fatalf("commit: %+v, %v", res, err)
	}
	for range 2 {
		if n := countOf(t, s); n != 12 {
			t.Fatalf("%d samples, want 12", n)
		}
		closeStore(t, s)
		s = start(t, o)
	}
	closeStore(t, s)
}

// TestSlowReaderKeepsNothingWaiting holds a view while its blocks are merged and
// removed: their files go at once, the view still reads all.
func TestSlowReaderKeepsNothingWaiting(t *testing.T) {
	s, _, o := rig(t, store.Options{MaxSize: 0, Segment: 600})
	defer closeStore(t, s)
	ctx := context.Background()
	for i := range 3 {
		commit(t, s, i, 3_000, 10, 1)
		flushAll(t, s)
	}
	old := s.BlockDirs()
	v := s.View()
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	w := s.View()
	commit(t, s, 0, 12_000, 1, 1)
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	s.SetMaxSize(1)
	if err := s.Retain(); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, s, o.Path); len(left) > 0 || len(s.BlockDirs()) != 1 {
		t.Errorf("left: %v, blocks %v", left, s.BlockDirs())
	}
	for _, dir := range old {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
	if n := mapped(t, o.Path); n == 0 {
		t.Error("nothing is mapped for the open views")
	}
	for _, x := range []*store.View{v, w} {
		if got, err := readView(x, 0, 9_999); err != nil || len(got) != 30 {
			t.Errorf("%d samples, want 30, %v", len(got), err)
		}
		x.Close()
	}
	if n := mapped(t, o.Path); n > 4 {
		t.Errorf("%d files are mapped after the last reader of removed blocks", n)
	}
}

// mapped counts the mappings of files below dir; 0 where that cannot be known.
func mapped(t testing.TB, dir string) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 1
	}
	return strings.Count(string(data), filepath.Join(dir, "blocks"))
}

// TestThousandBlocks opens views and reads over very many blocks.
func TestThousandBlocks(t *testing.T) {
	n := 60
	if os.Getenv("RWSINK_SOAK") != "" {
		n = 1000
	}
	s, took := manyBlocks(t, n)
	defer closeStore(t, s)
	t.Logf("a view of %d blocks is open after %v", n, took)
	if got := read(t, s); len(got) != n || !slices.IsSorted(got[:1]) {
		t.Errorf("%d samples, want %d", len(got), n)
	}
}

// manyBlocks makes n blocks of a sample each and says how long a view then takes.
func manyBlocks(t testing.TB, n int) (*store.Store, time.Duration) {
	o := store.Options{Path: filepath.Join(fixture.QuickDir(t), "data"), Head: head.Options{
		BlockDuration: time.Second, Exemplars: 10,
		Accept: head.Accept{Window: -1, TrustClock: true, Now: func() time.Time { return time.UnixMilli(0) }, MaxFuture: 1000 * time.Hour},
	}}
	s := start(t, o)
	for i := range int64(n) {
		commit(t, s, 0, i*1_000, 1, 1)
		flushAll(t, s)
	}
	began := time.Now()
	s.View().Close()
	took := time.Since(began)
	return s, took
}

// BenchmarkView is a view of 1,000 blocks, and the search in all of them.
func BenchmarkView(b *testing.B) {
	s, _ := manyBlocks(b, 1000)
	defer closeStore(b, s)
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.View().Close()
		}
	})
	b.Run("select", func(b *testing.B) {
		b.ReportAllocs()
		v := s.View()
		defer v.Close()
		for b.Loop() {
			list, err := v.Select(context.Background(), math.MinInt64, math.MaxInt64, labels.MustNewMatcher(labels.MatchEqual, "i", "0"))
			if err != nil || len(list) != 1 {
				b.Fatal(len(list), err)
			}
		}
	})
}
