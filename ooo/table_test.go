package ooo_test

import (
	"fmt"
	"os"
	"testing"
	"text/tabwriter"

	"github.com/rwsink/rwsink/chunkenc"
)

// tablePasses is how often each chunk is merged for the table.
const tablePasses = 60

// BenchmarkTable prints what a merge of 10 % late samples costs beside its goals, as
// chunkenc's benchmark of this name does for the codec: arrival, decode, sort, merge,
// encode. Raw chunks are the yardstick: what is left without a codec.
//
//	go test ./ooo -run '^$' -bench '^BenchmarkTable$' -benchtime 1x
//
// Times are sums of the least time of each group of chunks.
func BenchmarkTable(b *testing.B) {
	series := scrapes(b)
	for range b.N {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "\nfigure\ttoday\tgoal\tstretch\n")
		for _, size := range chunkSizes {
			late, stored := tableMerge(b, series, size, chunkenc.EncDelta)
			raw, rawStored := tableMerge(b, series, size, chunkenc.EncRaw)
			fmt.Fprintf(w, "merge, 10 %% late, chunks of %d: ns/late sample\t%.0f (%.1f a stored one); raw %.0f (%.1f)\t300\t200\n", size, late, stored, raw, rawStored)
		}
		w.Flush()
	}
}

// tableMerge gives ns a late and a stored sample.
func tableMerge(b *testing.B, series []*chunkenc.Samples, size int, enc chunkenc.Encoding) (late, stored float64) {
	l := newLoad(series, size, 10, enc)
	c := newChunkMerge()
	c.enc.Float = enc
	best := l.groups()
	for range tablePasses {
		if err := l.pass(best, func(k int) error { return c.merge(l.chunks[k], l.late[k]) }); err != nil {
			b.Fatal(err)
		}
	}
	ns := float64(total(best).Nanoseconds())
	return ns / float64(l.lates), ns / float64(l.stored)
}
