package store_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/store/block"
)

// TestBlockOfVersion1 opens a store with a block whose index is not packed, reads
// it, and merges it with what came later: into a block of the version of today.
func TestBlockOfVersion1(t *testing.T) {
	dir := filepath.Join(fixture.QuickDir(t), "data")
	if err := os.CopyFS(filepath.Join(dir, "blocks"), os.DirFS("block/testdata/golden/v1")); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"index", "meta.json", "rwsink.json", "tombstones", "chunks-000001"} {
		if err := os.Remove(filepath.Join(dir, "blocks", text+".txt")); err != nil {
			t.Fatal(err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "VERSION"), []byte("1\n"), 0o600))
	const first, last = 1_700_000_000_000, 1_700_000_600_000 // about those of the block
	s := open(t, store.Options{Path: dir})
	defer closeStore(t, s)
	expect := func(when string, version int, want map[string]int) {
		t.Helper()
		if got := countsOf(t, s, first, last); len(got) != len(want) || got["0"] != want["0"] || got["1"] != want["1"] || got["2"] != want["2"] {
			t.Errorf("%s: %v samples, want %v", when, got, want)
		}
		dirs := s.BlockDirs()
		if len(dirs) != 1 {
			t.Fatalf("%s: blocks %v", when, dirs)
		}
		b, err := block.Open(dirs[0], block.NewPages(0))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		if b.Info().Version != version {
			t.Errorf("%s: version %d, want %d", when, b.Info().Version, version)
		}
	}
	expect("as it was", 1, map[string]int{"0": 40, "1": 40, "2": 40})
	h := s.Head()
	x, _, err := h.Resolve(head.Key{Hi: 1}, []head.Label{{Name: []byte("__name__"), Value: []byte("m")}, {Name: []byte("k"), Value: []byte("1")}})
	if err != nil {
		t.Fatal(err)
	}
	c := h.NewBatch()
	c.Float(x, first+7, 0, 1)
	if res, err := h.Commit(context.Background(), c); err != nil || res.Samples != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	c.Release()
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	expect("merged", 2, map[string]int{"0": 40, "1": 41, "2": 40})
}

// countsOf returns how many samples each series m has, by its label k.
func countsOf(t *testing.T, s *store.Store, lo, hi int64) map[string]int {
	t.Helper()
	v := s.View()
	defer v.Close()
	series, err := v.Select(context.Background(), lo, hi, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
	if err != nil {
		t.Fatal(err)
	}
	r, got := v.NewReader(), map[string]int{}
	for i := range series {
		err := r.Read(&series[i], lo, hi, func(run *chunkenc.Samples) error {
			got[series[i].Labels.Get("k")] += len(run.T)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}
