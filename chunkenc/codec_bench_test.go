package chunkenc_test

import (
	"runtime"
	"testing"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/rounds"
)

// The benchmarks for benchstat: what one operation is, is one pass over a set. Beside the
// wall time stands the CPU time of a sample, which other load adds less to.

func benchSet(b *testing.B, f func(b *testing.B, s *set)) {
	sets := append(shapes(), shape{"jitter", mustLoad(b, "prom-jitter.rwd.gz")}, shape{"nab", mustLoad(b, "nab-real.rwd.gz")})
	for _, shape := range sets {
		b.Run(shape.name, func(b *testing.B) {
			s := newSet(b, shape.series)
			b.ReportAllocs()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := rounds.CPUTime()
			for b.Loop() {
				f(b, s)
			}
			b.ReportMetric(float64(rounds.CPUTime()-start)/float64(b.N)/float64(s.n), "cpu-ns/sample")
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
