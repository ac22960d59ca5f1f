package chunkenc_test

import (
	"testing"

	"github.com/rwsink/rwsink/chunkenc"
)

// The benchmarks for benchstat: what one operation is, is one pass over a set.

func benchSet(b *testing.B, f func(b *testing.B, s *set)) {
	for _, name := range []string{"jitter", "nab"} {
		series := mustLoad(b, map[string]string{"jitter": "prom-jitter.rwd.gz", "nab": "nab-real.rwd.gz"}[name])
		b.Run(name, func(b *testing.B) {
			s := newSet(b, series)
			b.ReportAllocs()
			for b.Loop() {
				f(b, s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.n), "ns/sample")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	benchSet(b, func(b *testing.B, s *set) { s.decode(b) })
}

func BenchmarkSeal(b *testing.B) {
	benchSet(b, func(b *testing.B, s *set) { s.seal() })
}

func BenchmarkTranscode(b *testing.B) {
	benchSet(b, func(b *testing.B, s *set) { s.transcode(b) })
}

func BenchmarkAppendXOR(b *testing.B) {
	benchSet(b, func(b *testing.B, s *set) {
		for i := range s.halves {
			buf = chunkenc.AppendXOR(buf[:0], s.halves[i].T, s.halves[i].V)
		}
	})
}
