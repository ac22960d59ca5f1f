package block_test

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

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// write makes a block of n series with three chunks each, all at the same times.
func write(t testing.TB, parent string, n int) (dir string, want []string) {
	t.Helper()
	w, err := block.Create(vfs.OS{}, parent, block.NewBuffers())
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

func readBlock(t *testing.T, b *block.Block) []string {
	t.Helper()
	got, err := samplesOf(b)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func samplesOf(b *block.Block) (got []string, err error) {
	all, err := b.Select(context.Background(), labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".*"))
	if err != nil {
		return nil, err
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
			return nil, err
		}
	}
	return got, nil
}

func TestReadsWhatWasWritten(t *testing.T) {
	dir, want := write(t, t.TempDir(), 50)
	b, err := block.Open(dir, block.NewPages(1<<20))
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
			b, err := block.Open(dir, block.NewPages(1<<20))
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

// TestFlippedBitsAreFound flips a bit of every byte of every file of a block: it
// does not open, or does not read, or holds what it held.
func TestFlippedBitsAreFound(t *testing.T) {
	parent := t.TempDir()
	dir, want := write(t, parent, 1)
	whole, err := block.Open(dir, block.NewPages(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	info, meta := fmt.Sprint(whole.Info()), fmt.Sprint(whole.Meta())
	whole.Release()
	found, harmless := 0, 0
	for _, name := range []string{"rwsink.json", "meta.json", "index", "chunks/000001"} {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range data {
			flipped := slices.Clone(data)
			flipped[at] ^= 1 << (at % 8)
			if err := os.WriteFile(path, flipped, 0o644); err != nil {
				t.Fatal(err)
			}
			b, err := block.Open(dir, block.NewPages(1<<20))
			if err != nil {
				found++
				continue
			}
			got, err := samplesOf(b)
			switch {
			case err != nil && b.Fault() == nil:
				t.Errorf("%s byte %d: no fault is kept of %v", name, at, err)
			case err != nil:
				found++
			case !slices.Equal(got, want) || fmt.Sprint(b.Info()) != info || fmt.Sprint(b.Meta()) != meta:
				t.Errorf("%s byte %d: a flipped bit changed what is read", name, at)
			default:
				harmless++
			}
			b.Release()
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found < 4*harmless {
		t.Errorf("%d found, %d harmless", found, harmless)
	}
}

// TestShorterFileOfAnOpenBlock cuts the files of an open block: its mappings then
// end in a fault, which must end the read and not the process.
func TestShorterFileOfAnOpenBlock(t *testing.T) {
	for _, file := range []string{"index", "chunks/000001"} {
		dir, _ := write(t, t.TempDir(), 50)
		b, err := block.Open(dir, block.NewPages(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, file), 0); err != nil {
			t.Fatal(err)
		}
		_, err = samplesOf(b)
		var corrupt *vfs.CorruptError
		if !errors.As(err, &corrupt) || b.Fault() == nil {
			t.Errorf("%s: %v, fault %v", file, err, b.Fault())
		}
		if _, err = b.Select(context.Background(), labels.MustNewMatcher(labels.MatchRegexp, "s", "s00.*")); file == "index" && err == nil {
			t.Error("a search in an index that has gone succeeded")
		}
		b.Release()
	}
}

// TestBugsStillPanic: what is no fault of a mapping goes on as a panic.
func TestBugsStillPanic(t *testing.T) {
	dir, _ := write(t, t.TempDir(), 1)
	b, err := block.Open(dir, block.NewPages(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	defer func() {
		if recover() == nil {
			t.Error("a panic was swallowed")
		}
	}()
	all, err := b.Select(context.Background(), labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".*"))
	if err != nil {
		t.Fatal(err)
	}
	_ = b.NewReader().Read(all[0].Ref, math.MinInt64, math.MaxInt64, func(*chunkenc.Samples) error {
		var p *int
		*p = 1
		return nil
	})
}
