package ooo_test

import (
	"fmt"
	"os"
	"testing"
	"text/tabwriter"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/rounds"
)

// BenchmarkTable prints what a merge of 10 % late samples costs beside its goals, as
// chunkenc's benchmark of this name does for the codec: arrival, decode, sort, merge,
// encode. Raw chunks are the yardstick: what is left without a codec.
//
//	go test ./ooo -run '^$' -bench '^BenchmarkTable$' -benchtime 1x
//
// Times are CPU time of the thread, medians over many interleaved rounds, and the least
// pass.
func BenchmarkTable(b *testing.B) {
	series := scrapes(b)
	for range b.N {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "\nfigure\ttoday\tgoal\tstretch\n")
		for _, size := range chunkSizes {
			delta, raw := newLoad(series, size, 10, chunkenc.EncDelta), newLoad(series, size, 10, chunkenc.EncRaw)
			m := rounds.Race(delta.lates, mergeAll(b, delta, chunkenc.EncDelta), mergeAll(b, raw, chunkenc.EncRaw))
			share := float64(delta.lates) / float64(delta.stored)
			fmt.Fprintf(w, "merge, 10 %% late, chunks of %d: ns/late sample\t%.0f (%.1f a stored one), least %.0f; raw %.0f (%.1f), least %.0f\t300\t200\n",
				size, m[0].Ns, m[0].Ns*share, m[0].Least, m[1].Ns, m[1].Ns*share, m[1].Least)
		}
		w.Flush()
	}
}

// mergeAll gives what merges all chunks of a load once.
func mergeAll(b *testing.B, l *load, enc chunkenc.Encoding) func() {
	c := newChunkMerge()
	c.enc.Float = enc
	return func() {
		for k := range l.chunks {
			if err := c.merge(l.chunks[k], l.late[k]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
