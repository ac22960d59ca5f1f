package head_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
)

// TestCutsDependOnTimestampsAlone seals random timestamps at once, and in
// pieces, as blocks have them, that are joined where Plan says so: the chunks
// must be cut alike, none may be too long, and Plan must leave them as they are.
func TestCutsDependOnTimestampsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seal := head.NewSealer(head.Options{BlockDuration: time.Second, ChunkSamples: rapid.IntRange(1, 20).Draw(t, "chunk")})
		run := &chunkenc.Samples{}
		run.Reset(chunkenc.KindFloat)
		at := rapid.Int64Range(-1e6, 1e6).Draw(t, "from")
		for range rapid.IntRange(1, 20).Draw(t, "stretches") {
			step := rapid.SampledFrom([]int64{1, 7, 50, 400, 3000, 1e6}).Draw(t, "step")
			for range rapid.IntRange(1, 100).Draw(t, "n") {
				at += step
				run.T, run.V = append(run.T, at), append(run.V, 0)
			}
		}
		want := seal.Seal(nil, run)
		for i := range want {
			if int(want[i].N) > seal.Most(chunkenc.KindFloat) {
				t.Fatalf("a chunk of %d samples", want[i].N)
			}
		}
		joins := func(list []chunkenc.Chunk) (out [][2]int64) {
			var spans []head.Span
			for i := range list {
				spans = append(spans, head.Span{MinT: list[i].MinT, MaxT: list[i].MaxT, N: int(list[i].N), Kind: list[i].Kind()})
			}
			seal.Plan(spans, func(i, j int, _ int64, whole bool) {
				if !whole {
					t.Fatalf("[%d, %d) would be cut", list[i].MinT, list[i].MaxT)
				}
				out = append(out, [2]int64{list[i].MinT, list[j-1].MaxT})
			})
			return out
		}
		cuts := joins(want)
		if len(cuts) != len(want) {
			t.Fatalf("%d chunks of Seal would be joined to %d", len(want), len(cuts))
		}
		var pieces []chunkenc.Chunk
		length := rapid.SampledFrom([]int64{1000, 3000, 9000}).Draw(t, "block")
		for i := 0; i < run.Len(); {
			j := i + 1
			for j < run.Len() && floorDiv(run.T[j], length) == floorDiv(run.T[i], length) {
				j++
			}
			piece := run.Slice(i, j)
			pieces = append(pieces, seal.Seal(nil, &piece)...)
			i = j
		}
		if got := joins(pieces); !slices.Equal(got, cuts) {
			t.Fatalf("joined from pieces: %v, at once %v", got, cuts)
		}
	})
}

func floorDiv(t, length int64) int64 {
	d := t / length
	if t%length < 0 {
		d--
	}
	return d
}
