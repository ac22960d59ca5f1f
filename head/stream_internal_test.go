package head

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// oddBits are values that an encoding may lose.
var oddBits = []uint64{
	0, 1 << 63, 1, value.StaleNaN, value.NormalNaN, 0x7ff8dead_beef0001, 0xfff00000_00000001,
	math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)), math.Float64bits(math.MaxFloat64),
	math.Float64bits(1 << 53), math.Float64bits(1<<53 + 2), math.Float64bits(-1 << 63), math.Float64bits(1 << 63), math.Float64bits(1e300),
	math.Float64bits(-0.001), math.Float64bits(0.1), math.Float64bits(9e15 + 0.5), math.Float64bits(1 << 32), math.Float64bits(-1 << 31),
}

// randomValue returns values of the kinds that are measured, and odd ones.
func randomValue(rng *rand.Rand, before float64) float64 {
	switch rng.IntN(8) {
	case 0:
		return math.Float64frombits(oddBits[rng.IntN(len(oddBits))])
	case 1:
		return before
	case 2:
		return math.Trunc(before) + float64(rng.IntN(1000))
	case 3:
		return float64(rng.Int64N(1<<(1+rng.IntN(62)))) - 1000
	case 4:
		return float64(rng.Int64N(1<<(1+rng.IntN(50)))-500) / 1000
	case 5:
		return rng.Float64()
	case 6:
		return math.Float64frombits(rng.Uint64() << (8 * rng.IntN(8)))
	}
	return math.Float64frombits(rng.Uint64())
}

// TestStreamKeepsEveryBit pushes samples of any time and value to many streams
// of one arena by turns, and takes them out again.
func TestStreamKeepsEveryBit(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(11, seed))
		start := []int64{0, 1_700_000_000_000, math.MinInt64, math.MaxInt64 - 1<<20, -77}[seed%5]
		reach := int64(1) << (1 + rng.IntN(62))
		type column struct {
			s       stream
			newest  int64
			t, bits []int64
		}
		a, columns := &arena{}, make([]column, 30)
		var scratch []byte
		check := func(c *column) {
			var ts []int64
			var vs []float64
			ts, vs, scratch = c.s.appendTo(nil, nil, a, start, scratch)
			got := make([]int64, len(vs))
			for i, v := range vs {
				got[i] = int64(math.Float64bits(v))
			}
			if !slices.Equal(ts, c.t) || !slices.Equal(got, c.bits) {
				t.Fatalf("seed %d: got %v %x\nwant %v %x", seed, ts, got, c.t, c.bits)
			}
			if len(ts) > 0 && c.s.firstTime(a, start) != ts[0] {
				t.Fatalf("seed %d: the first time is %d, want %d", seed, c.s.firstTime(a, start), ts[0])
			}
			late := int32(0)
			for i, at := range ts {
				if i > 0 && at <= slices.Max(ts[:i]) {
					late++
				}
			}
			if c.s.late != late {
				t.Fatalf("seed %d: %d late of %v", seed, c.s.late, ts)
			}
		}
		for range 3000 {
			c := &columns[rng.IntN(len(columns))]
			x := start + rng.Int64N(reach)
			if x < start { // beyond the end of time
				x = math.MaxInt64
			}
			if n := len(c.t); n > 0 && rng.IntN(3) > 0 && c.newest < math.MaxInt64-15_003 {
				x = c.newest + 15_000 + rng.Int64N(3)
			}
			if len(c.t) == 0 {
				c.newest = start
			}
			v := randomValue(rng, math.Float64frombits(c.s.last))
			c.s.push(a, c.newest, x, v)
			c.t, c.bits, c.newest = append(c.t, x), append(c.bits, int64(math.Float64bits(v))), max(c.newest, x)
			if rng.IntN(100) == 0 {
				check(c)
				a.clear(&c.s)
				c.t, c.bits = nil, nil
			}
		}
		for i := range columns {
			check(&columns[i])
			a.clear(&columns[i].s)
		}
		free := 0
		for i := a.free; i != 0; i = a.at(i).next() {
			free++
		}
		if free != int(a.used) {
			t.Errorf("seed %d: %d blocks are free of %d", seed, free, a.used)
		}
	}
}

// TestStreamIsSmall bounds what a sample of the usual kinds takes.
func TestStreamIsSmall(t *testing.T) {
	for _, c := range []struct {
		name  string
		value func(i int) float64
		most  int // bytes of 240 samples
	}{
		{"constant", func(int) float64 { return 17.25 }, 260},
		{"counter", func(i int) float64 { return 1e9 + float64(i*37) }, 500},
		{"gauge", func(i int) float64 { return float64(i*7919%100) / 100 }, 980},
		{"noise", func(i int) float64 { return math.Sqrt(float64(i)) }, 240 * 10},
	} {
		a, s, newest := &arena{}, stream{}, int64(0)
		for i := range 240 {
			at := int64(i+1) * 15_000
			s.push(a, newest, at, c.value(i))
			newest = at
		}
		if n := len(a.copy(nil, &s)); n > c.most {
			t.Errorf("%s: 240 samples take %d bytes, want at most %d", c.name, n, c.most)
		}
	}
}

// TestLateStaysOpen has a quarter of the samples come up to half a slot late:
// none has to be merged into a chunk, and a slot is sealed once.
func TestLateStaysOpen(t *testing.T) {
	h, c := testHead(t, Options{})
	s := testSeries(h, "m")
	rng := rand.New(rand.NewPCG(1, 9))
	want := oracle{}
	start := int64(1_700_006_400_000) // of a container
	for i := range int64(470) {
		x := sample{t: start + 15_000*i, v: float64(i)}
		if i > 120 && i%4 == 0 {
			x.t -= 1 + rng.Int64N(120*15_000)
		}
		c.place(s, 1, &x)
		want.add(x)
		if n := s.live.lateLen(); n > 0 {
			t.Fatalf("%d samples wait beside the stream", n)
		}
	}
	if n := len(s.live.chunks); n != 1 || s.live.chunks[0].MaxT > start+240*15_000 {
		t.Errorf("%d chunks, want the first half of the range in one", n)
	}
	if got := readAll(t, h, s, math.MinInt64, math.MaxInt64); !slices.Equal(got, want.in(math.MinInt64, math.MaxInt64)) {
		t.Fatalf("%d samples read, %d expected", len(got), len(want))
	}
}

// BenchmarkStream pushes and takes out what a slot holds, of counters.
func BenchmarkStream(b *testing.B) {
	const n = 240
	p := &part{box: newContainer(0, 1<<40, 0, false)}
	push := func() {
		for i := range int64(n) {
			p.push(&sample{t: 15_000 * i, v: float64(1e6 + i*i)})
		}
	}
	b.Run("push", func(b *testing.B) {
		for b.Loop() {
			p.clearTail()
			push()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
	})
	p.clearTail()
	push()
	var r streamReader
	b.Run("run", func(b *testing.B) {
		var out chunkenc.Samples
		for b.Loop() {
			out.Reset(chunkenc.KindFloat)
			r.run(&out, &p.floats, p.box.arena, p.box.lo)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
	})
	b.Run("late", func(b *testing.B) {
		var out ooo.Buffer
		for b.Loop() {
			out.Reset()
			r.late(&out, &p.floats, p.box.arena, p.box.lo, nil, 0, 1<<40)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
	})
}

// TestPartsOfOpenContainers places samples in several ranges at random while
// ranges are frozen: a series knows its parts of all open containers, newest first, and
// passes over those of frozen ones that are not taken out yet.
func TestPartsOfOpenContainers(t *testing.T) {
	h, c := testHead(t, Options{})
	list := []*Series{testSeries(h, "a"), testSeries(h, "bb")}
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range 2000 {
		s, at := list[rng.IntN(2)], rng.Int64N(10*7_200_000)
		c.place(s, 1, &sample{t: at, v: float64(i)})
		if p := s.partAt(at); p == nil || p.box.frozen || !p.box.contains(at) {
			t.Fatalf("no part for %d", at)
		}
		if i%100 == 99 {
			box := h.containers.Load().open[rng.IntN(len(h.containers.Load().open))]
			c.freeze(func(o *Container) bool { return o == box })
			for _, box := range h.containers.Load().frozen {
				if rng.IntN(2) == 0 {
					box.each(box.unlink)
				}
			}
		}
		for _, s := range list {
			n := 0
			for p := s.live; p != nil; p = p.older {
				if p.box.parts.of(s) != p || p.older != nil && (p.older.box.lo > p.box.lo || p.older.box.lo == p.box.lo && !p.older.box.frozen) {
					t.Fatalf("part of [%d, %d] out of place", p.box.lo, p.box.hi)
				}
				if !p.box.frozen {
					n++
				}
			}
			for _, box := range h.containers.Load().open {
				if box.parts.of(s) != nil {
					n--
				}
			}
			if n != 0 {
				t.Fatalf("%d parts too many are known", n)
			}
		}
	}
}
