package head

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestPlaceFloatIsPlace places floats at random, in order and not, in several
// slots and containers, by the short way and by the long one: all that is kept of
// them is the same, and what is counted.
func TestPlaceFloatIsPlace(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		target := []int{4, 16, 240}[rng.IntN(3)]
		a, short := testHead(t, Options{ChunkSamples: target})
		b, long := testHead(t, Options{ChunkSamples: target})
		sa, sb := testSeries(a, "a"), testSeries(b, "a")
		step, at := 1+rng.Int64N(30_000), int64(0)
		for i := range 3000 {
			x := sample{t: at, v: float64(rng.IntN(50))}
			switch rng.IntN(40) {
			case 0:
				x.t -= rng.Int64N(20 * step)
			case 1:
				x.st = x.t - 1
			case 2:
				at += rng.Int64N(200 * step)
			}
			at += step
			if rng.IntN(300) == 0 {
				short.freeze(func(box *Container) bool { return box.contains(x.t) })
				long.freeze(func(box *Container) bool { return box.contains(x.t) })
			}
			short.placeFloat(sa, 1, x.t, x.st, x.v)
			long.place(sb, 1, &x)
			if i%500 == 499 {
				compareContainers(t, a.containers.Load(), b.containers.Load())
			}
		}
		if !reflect.DeepEqual(short.stats, long.stats) || short.applier.stats != long.applier.stats || sa.newest != sb.newest {
			t.Fatalf("counted %+v and %+v", short.stats, long.stats)
		}
	}
}

func compareContainers(t *testing.T, x, y *containerList) {
	a, b := slices.Concat(x.frozen, x.open), slices.Concat(y.frozen, y.open)
	if len(a) != len(b) {
		t.Fatalf("%d containers, want %d", len(a), len(b))
	}
	for i := range a {
		if a[i].samples != b[i].samples || a[i].newest != b[i].newest || a[i].last != b[i].last {
			t.Fatalf("container %d differs", i)
		}
		x, y := partsOf(a[i]), partsOf(b[i])
		if !reflect.DeepEqual(x, y) || !reflect.DeepEqual(a[i].arena, b[i].arena) {
			t.Fatalf("container %d holds %+v, want %+v", i, x, y)
		}
	}
}

// partsOf returns copies of the parts, without what they point to around them.
func partsOf(c *Container) (out []part) {
	c.parts.each(func(p *part) {
		x := *p
		x.series, x.box, x.older = nil, nil, nil
		out = append(out, x)
	})
	return out
}

// TestRefTable compares the table with a map, of references near one another and as far
// apart as they can be.
func TestRefTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	table, want := refTable[part]{}, map[uint64]*part{}
	for range 5000 {
		s := &Series{ref: 1<<40 + rng.Uint64N(300)*(1+rng.Uint64N(2)*refNodeSpan)} // begins in the middle
		if rng.IntN(10) == 0 {
			s.ref = rng.Uint64() >> rng.IntN(64)
		}
		switch p := want[s.ref]; {
		case table.of(s) != p:
			t.Fatalf("part of %d", s.ref)
		case p == nil:
			p = &part{series: s}
			table.put(s, p)
			want[s.ref] = p
		case rng.IntN(3) > 0:
			table.remove(s)
			delete(want, s.ref)
		}
	}
	all := map[uint64]*part{}
	table.each(func(p *part) { all[p.series.ref] = p })
	if !maps.Equal(all, want) {
		t.Fatalf("%d parts, want %d", len(all), len(want))
	}
	if n := table.bytes(); n > (refNodeBytes+refPageBytes)*len(want) {
		t.Errorf("%d parts take %d bytes", len(want), n)
	}
	for _, ref := range slices.Collect(maps.Keys(want)) {
		table.remove(&Series{ref: ref})
	}
	if n := table.bytes(); n != 0 || len(table.nodes) != len(table.numbers) {
		t.Errorf("%d nodes of %d numbers, %d bytes, are kept", len(table.nodes), len(table.numbers), n)
	}
}
