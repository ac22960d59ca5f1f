package block

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/rwsink/rwsink/chunkenc"
)

// TestSegmentsArePrometheus holds segments to what Prometheus's library writes:
// the same files, cut in the same places, with the same references.
func TestSegmentsArePrometheus(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	for _, dir := range []string{ours, theirs} {
		if err := os.Mkdir(filepath.Join(dir, chunksName), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w, err := chunks.NewWriter(filepath.Join(theirs, chunksName), chunks.WithSegmentSize(segmentMost))
	if err != nil {
		t.Fatal(err)
	}
	var s segmentWriter
	s.reset(ours)
	rng := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, segmentMost)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	sizes := []int{segmentMost, 1, 0, segmentMost - 8 - 2*entryFrame - 3, 2, 1}
	for range 2000 {
		sizes = append(sizes, rng.IntN(1<<rng.IntN(17)))
	}
	for _, size := range sizes {
		enc := chunkenc.EncDelta
		list := []chunks.Meta{{Chunk: entry{enc: enc, data: data[:size]}}}
		if err := w.WriteChunks(list...); err != nil {
			t.Fatal(err)
		}
		if ref, err := s.add(enc, data[:size]); err != nil || ref != list[0].Ref {
			t.Fatalf("an entry of %d bytes is at %#x, %v, want %#x", size, ref, err, list[0].Ref)
		}
	}
	if err := errors.Join(w.Close(), s.end(), s.end()); err != nil {
		t.Fatal(err)
	}
	got, want := filesOf(t, ours), filesOf(t, theirs)
	if len(want) != 3 || len(got) != len(want) {
		t.Fatalf("%d segments, the library has %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("segment %d: %d bytes differ from %d", i, len(got[i]), len(want[i]))
		}
	}
	s.reset(ours)
	if n := testing.AllocsPerRun(100, func() {
		if len(s.buf) > segmentBuffer/2 {
			s.buf = s.buf[:0]
		}
		if _, err := s.add(chunkenc.EncDelta, data[:100]); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations an entry", n)
	}
	s.abort()
}

// filesOf returns the segments of a block.
func filesOf(t *testing.T, dir string) (out [][]byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, chunksName, "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}
