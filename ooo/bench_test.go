package ooo_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// lateShares are the shares of late samples, in percent of all.
var lateShares = []int{1, 10, 50}

// chunkSizes are the samples of a chunk before its late samples come.
var chunkSizes = []int{120, 240, 512, 1024}

// split parts the samples of s: about percent of them arrive late, in random order.
func split(s *chunkenc.Samples, percent int, rng *rand.Rand) (base *chunkenc.Samples, late []event) {
	base = &chunkenc.Samples{Kind: s.Kind}
	for i, t := range s.T {
		if rng.IntN(100) < percent {
			late = append(late, event{t: t, v: s.V[i]})
		} else {
			base.T, base.V = append(base.T, t), append(base.V, s.V[i])
		}
	}
	rng.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
	return base, late
}

// scrape returns n samples of a counter at 1 s with jitter.
func scrape(n int, rng *rand.Rand) *chunkenc.Samples {
	s := &chunkenc.Samples{}
	v := 0.0
	for i := range n {
		s.T = append(s.T, 1_700_000_000_000+int64(i)*1000+rng.Int64N(7)-3)
		s.V = append(s.V, v)
		v += float64(rng.IntN(100))
	}
	return s
}

// BenchmarkMergeColumns is the merge alone, arrival and copy into the scratch
// buffer included, without the codec.
func BenchmarkMergeColumns(b *testing.B) {
	for _, n := range chunkSizes {
		for _, percent := range lateShares {
			b.Run(fmt.Sprintf("chunk=%d/late=%d%%", n, percent), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 2))
				const chunks = 64
				var bases [chunks][]*chunkenc.Samples
				var lates [chunks][]event
				total := 0
				for i := range chunks {
					base, late := split(scrape(n, rng), percent, rng)
					bases[i], lates[i] = []*chunkenc.Samples{base}, late
					total += len(late)
				}
				var m ooo.Merger
				var late ooo.Buffer
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					for k := range chunks {
						late.Reset()
						for _, e := range lates[k] {
							late.Float(e.t, 0, e.v)
						}
						m.Merge(bases[k], &late)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(total), "ns/late")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n*chunks), "ns/stored")
			})
		}
	}
}
