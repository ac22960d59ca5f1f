//go:build !race

package head_test

import (
	"context"
	"math"
	"testing"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

// The race detector makes pools forget at random, so nothing is counted under it.

// steady is a head with as many series, to which rounds of one sample a series are written.
type steady struct {
	p     *process
	n     int
	round int64
}

func newSteady(t testing.TB, n int) *steady {
	p, err := start(discard{memfs.New(1)}, nearOptions(), wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stop() })
	s := &steady{p: p, n: n, round: (nowMs/(2*hourMs) + 1) * 2 * hourMs / stepMs}
	for i := range n {
		p.series(i)
	}
	return s
}

// write commits one sample of each series, delayMs behind their time.
func (s *steady) write(tb testing.TB, delayMs int64) {
	b := s.p.head.NewBatch()
	for i := range s.n {
		x, _ := s.p.head.Lookup(key(i))
		b.Float(x, s.round*stepMs-delayMs, 0, float64(s.round))
	}
	res, err := s.p.head.Commit(context.Background(), b)
	if err != nil || res.Samples != s.n {
		tb.Fatalf("%+v, %v", res, err)
	}
	b.Release()
	s.round++
}

// TestSteadyStateAllocatesNothing writes 2,000 known series: nothing is
// allocated between two seals, and little with them.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	const series = 2000
	s := newSteady(t, series)
	for range 32 + 17 { // through a seal, and into a tail that has its memory
		s.write(t, 0)
	}
	if n := testing.AllocsPerRun(10, func() { s.write(t, 0) }); n != 0 {
		t.Errorf("%g allocations a request between two seals", n)
	}
	// A whole slot, its seals and its join included.
	const rounds = 240
	n := testing.AllocsPerRun(1, func() {
		for range rounds {
			s.write(t, 0)
		}
	})
	if per := n / (rounds * series); per > 0.15 {
		t.Errorf("%.3f allocations a sample with seals", per)
	}
}

// TestReaderAllocatesNoSamples reads a series of chunks and a tail again and
// again: a reader allocates for the list of containers (there are two), not for what is in them.
func TestReaderAllocatesNoSamples(t *testing.T) {
	const perRead = 4 // the list, its growth, and a function each
	s := newSteady(t, 1)
	for range 500 {
		s.write(t, 0)
	}
	x, _ := s.p.head.Lookup(key(0))
	r := s.p.head.View().NewReader()
	count := 0
	emit := func(run *chunkenc.Samples) error { count += run.Len(); return nil }
	read := func() {
		if err := r.Read(x, math.MinInt64, math.MaxInt64, emit); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if count != 500 {
		t.Fatalf("%d samples", count)
	}
	if n := testing.AllocsPerRun(100, read); n > perRead {
		t.Errorf("%g allocations a read", n)
	}
	for i := range int64(9) { // some wait in the late buffer
		s.p.stored(t, float(0, (s.round-300)*stepMs+i+1, 1))
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > perRead {
		t.Errorf("%g allocations a read of late samples", n)
	}
}
