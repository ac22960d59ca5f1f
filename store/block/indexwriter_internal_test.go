package block

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"pgregory.net/rapid"
)

// libSeries is a series as Prometheus's library takes it for an index.
type libSeries struct {
	labels labels.Labels
	chunks []chunks.Meta
}

// byLibrary returns the index that Prometheus's library writes.
func byLibrary(t testing.TB, list []libSeries) []byte {
	t.Helper()
	symbols := []string{""}
	for _, s := range list {
		s.labels.Range(func(l labels.Label) { symbols = append(symbols, l.Name, l.Value) })
	}
	slices.Sort(symbols)
	name := filepath.Join(t.TempDir(), "plain")
	w, err := index.NewWriter(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slices.Compact(symbols) {
		if err := w.AddSymbol(s); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range list {
		if err := w.AddSeries(storage.SeriesRef(i+1), s.labels, s.chunks...); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	plain, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// byUs returns the packed index of the same.
func byUs(t testing.TB, b *Buffers, list []libSeries) []byte {
	t.Helper()
	b.reset()
	for _, s := range list {
		for _, c := range s.chunks {
			b.index.chunks = append(b.index.chunks, chunkEntry{c.Ref, c.MinTime, c.MaxTime})
		}
		b.index.add(s.labels)
	}
	var out bytes.Buffer
	if err := b.index.write(context.Background(), &out, &b.packer); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpacked returns the plain index that a packed one stands for.
func unpacked(t testing.TB, packed []byte) []byte {
	t.Helper()
	p, err := openPacked("index", packed, NewPages(0))
	if err != nil {
		t.Fatal(err)
	}
	all := append(slices.Clone(p.first), make([]byte, p.table-p.series)...)
	for i := range p.packed {
		from, to, _ := p.bounds(int64(i))
		b, err := ranged(p, int(from), int(to))
		if err != nil {
			t.Fatal(err)
		}
		copy(all[from:], b)
	}
	return append(all, p.last...)
}

func expectPlain(t testing.TB, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%d bytes, want %d; the first that differs is at %d", len(got), len(want), at)
}

// drawSeries draws series in order of labels: few names and values, so that series
// share them and names are values too, empty ones, and long ones.
func drawSeries(t *rapid.T) (list []libSeries) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "c", "job", "näme", "\xff"}), rapid.StringN(1, 6, -1))
	value := rapid.OneOf(text, rapid.Just(string(bytes.Repeat([]byte("v"), 200))))
	drawn := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) labels.Labels {
		return labels.FromMap(rapid.MapOfN(text, value, 1, 6).Draw(t, "labels"))
	}), 1, 60, func(ls labels.Labels) string { return ls.String() }).Draw(t, "series")
	slices.SortFunc(drawn, labels.Compare)
	ref := chunks.ChunkRef(8)
	for _, ls := range drawn {
		s := libSeries{labels: ls}
		at := rapid.OneOf(rapid.Int64Range(-1_000, 1_000), rapid.Just(int64(math.MinInt64/4)), rapid.Just(int64(0))).Draw(t, "begin")
		for range rapid.IntRange(1, 5).Draw(t, "chunks") {
			c := chunks.Meta{Ref: ref, MinTime: at, MaxTime: at + rapid.Int64Range(0, 1<<40).Draw(t, "length")}
			at = c.MaxTime + rapid.Int64Range(1, 1<<20).Draw(t, "gap")
			ref += chunks.ChunkRef(rapid.Uint64Range(1, 1<<33).Draw(t, "size"))
			s.chunks = append(s.chunks, c)
		}
		list = append(list, s)
	}
	return list
}

// TestIndexIsPrometheus holds what we write to what Prometheus's library does,
// byte for byte, one index after another from the same memory.
func TestIndexIsPrometheus(t *testing.T) {
	buffers := NewBuffers()
	rapid.Check(t, func(rt *rapid.T) {
		list := drawSeries(rt)
		expectPlain(t, unpacked(t, byUs(t, buffers, list)), byLibrary(t, list))
	})
}

// TestLargeIndexIsPrometheus: so many series that postings are gathered in more
// than one walk, entries reach over pages, and little of the memory is kept.
func TestLargeIndexIsPrometheus(t *testing.T) {
	buffers := NewBuffers()
	for _, n := range []int{30_000, 7, 30_000} {
		list := make([]libSeries, n)
		ref := chunks.ChunkRef(8)
		for i := range list {
			s := libSeries{labels: labels.FromStrings("__name__", "m", "a", fmt.Sprint(i/1000), "b", fmt.Sprint(i%7), "c", fmt.Sprint(i%300),
				"d", "x", "e", "x", "n", fmt.Sprintf("%06d", i), "o", fmt.Sprintf("%06d", n-i))}
			for k := range int64(1 + i%3) {
				s.chunks = append(s.chunks, chunks.Meta{Ref: ref, MinTime: 1000 * k, MaxTime: 1000*k + 999})
				ref += 70_000
			}
			if i == n/2 {
				for k := range int64(20_000) {
					s.chunks = append(s.chunks, chunks.Meta{Ref: ref, MinTime: 1_000_000 + 10*k, MaxTime: 1_000_009 + 10*k})
					ref += 9
				}
			}
			list[i] = s
		}
		slices.SortFunc(list, func(a, b libSeries) int { return labels.Compare(a.labels, b.labels) })
		ref = 8
		for i := range list {
			for k := range list[i].chunks {
				list[i].chunks[k].Ref, ref = ref, ref+9
			}
		}
		expectPlain(t, unpacked(t, byUs(t, buffers, list)), byLibrary(t, list))
	}
	if walks := 8 * 30_000 / max(gatherLeast, gatherLists*30_000); walks < 2 {
		t.Errorf("%d walks", walks)
	}
}

// TestKeptMemory: what is kept for the next block refers to nothing
// of the last, and is bounded.
func TestKeptMemory(t *testing.T) {
	b := NewBuffers()
	_ = byUs(t, b, []libSeries{{labels.FromStrings("a", "b"), []chunks.Meta{{Ref: 8, MinTime: 1, MaxTime: 2}}}})
	texts, series := b.index.texts[:cap(b.index.texts)], b.index.series[:cap(b.index.series)]
	b.reset()
	if texts[1] != "" || !series[0].labels.IsEmpty() || len(b.index.pairs) != 0 || len(b.index.symbols) != 1 {
		t.Errorf("%q, %v, %v, %v", texts[1], series[0].labels, b.index.pairs, b.index.symbols)
	}
	if s := kept(make([]uint64, keptBytes/8)); cap(s) != keptBytes/8 || len(s) != 0 {
		t.Errorf("%d of %d", len(s), cap(s))
	}
	if s := kept(make([]uint64, keptBytes/8+1)); s != nil {
		t.Errorf("%d bytes are kept", 8*cap(s))
	}
}

// failingWriter fails from the n-th byte on.
type failingWriter struct{ left int }

var errFull = errors.New("full")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// TestIndexToAFullDisk: whatever write fails, the index does.
func TestIndexToAFullDisk(t *testing.T) {
	b := NewBuffers()
	list := make([]libSeries, 5_000)
	for i := range list {
		list[i] = libSeries{labels.FromStrings("n", fmt.Sprintf("%06d", i)), []chunks.Meta{{Ref: 8, MinTime: 1, MaxTime: 2}}}
	}
	whole := len(byUs(t, b, list))
	for left := 0; left <= whole; left += max(1, whole/40) {
		b.reset()
		for _, s := range list {
			b.index.chunks = append(b.index.chunks, chunkEntry{8, 1, 2})
			b.index.add(s.labels)
		}
		if err := b.index.write(context.Background(), &failingWriter{left}, &b.packer); !errors.Is(err, errFull) && left < whole {
			t.Fatalf("room for %d of %d bytes: %v", left, whole, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.index.write(ctx, &failingWriter{whole}, &b.packer); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestIndexAllocatesNothing: a block of series that are known takes no memory of its own.
func TestIndexAllocatesNothing(t *testing.T) {
	b := NewBuffers()
	list := make([]labels.Labels, 500)
	for i := range list {
		list[i] = labels.FromStrings("__name__", "m", "n", fmt.Sprintf("%06d", i))
	}
	var out bytes.Buffer
	write := func() {
		out.Reset()
		b.reset()
		for i, ls := range list {
			b.index.chunks = append(b.index.chunks, chunkEntry{chunks.ChunkRef(8 + i), 1, 2})
			b.index.add(ls)
		}
		if err := b.index.write(context.Background(), &out, &b.packer); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if n := testing.AllocsPerRun(10, write); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkWriteIndex writes the index of a block: of few series, as backfills do
// again and again, and of many.
func BenchmarkWriteIndex(b *testing.B) {
	for _, n := range []int{200, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			buffers, list := NewBuffers(), make([]labels.Labels, n)
			for i := range list {
				list[i] = labels.FromStrings("__name__", "m", "instance", fmt.Sprintf("host-%03d", i/100), "job", fmt.Sprint("j", i/7000), "n", fmt.Sprintf("%06d", i))
			}
			b.ReportAllocs()
			for b.Loop() {
				buffers.reset()
				for i, ls := range list {
					buffers.index.chunks = append(buffers.index.chunks, chunkEntry{chunks.ChunkRef(8 + 50*i), 1000, 2000})
					buffers.index.add(ls)
				}
				if err := buffers.index.write(context.Background(), &failingWriter{math.MaxInt}, &buffers.packer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
