package block_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// write makes a block of n series with three chunks each, all at the same times.
func write(t testing.TB, parent string, n int) (dir string, want []string) {
	t.Helper()
	w, err := block.Create(vfs.OS{}, parent, 0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	enc := chunkenc.Encoder{Float: chunkenc.EncDelta}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("s%04d", i)
	}
	times := make([]int64, 300)
	for i := range times {
		times[i] = 1_700_000_000_000 + int64(i)*15_000 + rng.Int64N(5)
	}
	for _, name := range names {
		var list []chunkenc.Chunk
		for k := 0; k < 300; k += 100 {
			s := chunkenc.Samples{T: times[k : k+100]}
			for i := range s.T {
				s.V = append(s.V, float64(rng.IntN(100)))
				want = append(want, fmt.Sprintf("%s %d %g", name, s.T[i], s.V[i]))
			}
			list = enc.Seal(list, &s)
		}
		if err := w.AddSeries(labels.FromStrings("__name__", "m", "s", name), list); err != nil {
			t.Fatal(err)
		}
	}
	dir, err = w.Commit(context.Background(), block.CommitInfo{
		Generation: block.Generation{Class: 1, LSN: 9}, Level: 1,
		Logs: []block.LogRange{{MinT: 0, MaxT: math.MaxInt64, From: 0, To: 9}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, want
}

func readBlock(t *testing.T, b *block.Block) (got []string) {
	t.Helper()
	all, err := b.All(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	r := b.NewReader()
	for _, s := range all {
		err := r.Read(s.Ref, math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
			for i := range run.T {
				got = append(got, fmt.Sprintf("%s %d %g", s.Labels.Get("s"), run.T[i], run.V[i]))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestReadsWhatWasWritten(t *testing.T) {
	dir, want := write(t, t.TempDir(), 50)
	b, err := block.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if got := readBlock(t, b); !slices.Equal(got, want) {
		t.Fatalf("%d samples read, %d written", len(got), len(want))
	}
	info, meta := b.Info(), b.Meta()
	if info.Generation != (block.Generation{Class: 1, LSN: 9}) || !slices.Contains(info.Encodings, "time") {
		t.Errorf("info %+v", info)
	}
	if meta.Stats.NumSamples != 15_000 || meta.Stats.NumSeries != 50 || meta.Stats.NumChunks != 150 {
		t.Errorf("stats %+v", meta.Stats)
	}
	perSample := float64(b.Size()) / 15_000
	if perSample > 2.2 {
		t.Errorf("%.2f bytes a sample: the time columns are not shared", perSample)
	}
	one, err := b.Select(context.Background(), labels.MustNewMatcher(labels.MatchRegexp, "s", "s00(07|1.)"))
	if err != nil || len(one) != 11 {
		t.Errorf("%d series selected, %v", len(one), err)
	}
}

// TestDamageIsNamed damages each file of a block, in length and in content.
func TestDamageIsNamed(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"removed":   os.Remove,
		"truncated": func(p string) error { return os.Truncate(p, 10) },
		"emptied":   func(p string) error { return os.Truncate(p, 0) },
	} {
		for _, file := range []string{"rwsink.json", "meta.json", "index", "chunks/000001"} {
			dir, _ := write(t, t.TempDir(), 2)
			if err := damage(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			b, err := block.Open(dir)
			if err == nil {
				b.Release()
				t.Errorf("%s %s: opened", file, name)
				continue
			}
			if !slices.Contains([]string{file, "meta.json"}, file) && !filepath.IsAbs(err.Error()) && err.Error() == "" {
				t.Errorf("%s %s: %v", file, name, err)
			}
		}
	}
}
