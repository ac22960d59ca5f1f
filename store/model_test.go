package store_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/store"
)

// wanted is what must be readable: the last value of a series and timestamp.
type wanted map[[2]int64]float64

func (m wanted) lines() []string {
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, fmt.Sprintf("%d %d %x", k[0], k[1], math.Float64bits(v)))
	}
	slices.Sort(out)
	return out
}

func (m wanted) clone() wanted { return maps.Clone(m) }

func sorted(lines []string) []string { slices.Sort(lines); return lines }

func bits(v float64) uint64 { return math.Float64bits(v) }

// TestAnyAgeAnyOrder writes samples of any age in random order, flushes,
// merges, restarts and cuts the log between them, and reads what was
// acknowledged after each step.
func TestAnyAgeAnyOrder(t *testing.T) {
	parent := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(parent, fmt.Sprint(n))
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := &world{t: t, dir: dir, now: 10_000, want: wanted{}}
		w.open()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w.step()
		}
		w.check()
		w.close()
	})
}

type world struct {
	t    *rapid.T
	dir  string
	now  int64
	s    *store.Store
	want wanted
}

func (w *world) open() {
	encoding := rapid.SampledFrom([]chunkenc.Encoding{chunkenc.EncDelta, chunkenc.EncRaw}).Draw(w.t, "encoding")
	s, err := store.Open(store.Options{Path: w.dir, Segment: 2000, Head: head.Options{
		BlockDuration: time.Second, ChunkSamples: 8, Encoding: encoding,
		Accept: head.Accept{Window: -1, MaxFuture: time.Minute, Now: func() time.Time { return time.UnixMilli(w.now) }, TrustClock: true},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Replay(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	w.s = s
}

func (w *world) close() {
	if err := w.s.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) step() {
	t := w.t
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		w.close()
		w.open()
	case 1:
		if err := w.s.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.check()
	case 2:
		at := rapid.Int64Range(0, 20).Draw(t, "flush") * 1000
		err := w.s.FlushSome(context.Background(), func(c head.ContainerInfo) bool { return c.Lo <= at && at <= c.Hi })
		if err != nil {
			t.Fatal(err)
		}
	case 3:
		w.now += rapid.Int64Range(0, 3000).Draw(t, "pass")
	case 4:
		w.check()
	default:
		w.write()
	}
}

func (w *world) write() {
	t, h := w.t, w.s.Head()
	b := h.NewBatch()
	defer b.Release()
	n := rapid.IntRange(1, 50).Draw(t, "samples")
	for range n {
		i := rapid.IntRange(0, 3).Draw(t, "series")
		ts := 10 * rapid.Int64Range(0, 2000).Draw(t, "t")
		v := float64(rapid.IntRange(0, 5).Draw(t, "v"))
		b.Float(resolve(t, h, i), ts, 0, v)
		w.want[[2]int64{int64(i), ts}] = v
	}
	res, err := h.Commit(context.Background(), b)
	if err != nil || res.Samples != n {
		t.Fatalf("commit: %+v, %v", res, err)
	}
}

func (w *world) check() {
	got := read(w.t, w.s)
	slices.Sort(got)
	if want := w.want.lines(); !slices.Equal(got, want) {
		w.t.Fatalf("%d samples read, %d acknowledged:\n got %v\nwant %v", len(got), len(want), got, want)
	}
}
