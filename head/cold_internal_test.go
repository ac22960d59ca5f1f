package head

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// TestPlacesBeyond4GiB packs and erases where a run holds more bytes than 32 bits count.
func TestPlacesBeyond4GiB(t *testing.T) {
	a, r, s := newApplier(Options{ChunkSamples: coldPack}), coldRun{}, &Series{ref: 1}
	r.pages = make([][]byte, math.MaxUint32/coldPage+2) // of others
	var want []int64
	for i := int64(19_999); i >= 0; i-- { // newest first: but for the first few all are packed
		c, _ := r.add(s, &sample{t: i, v: math.Float64frombits(uint64(i) * 0x9e3779b97f4a7c15)})
		a.pack(&r, c)
		if i%1000 != 999 {
			want = append(want, i)
		}
	}
	if c := r.series.of(s); c.last <= math.MaxUint32 {
		t.Fatalf("the newest chunk is at %d", c.last)
	}
	for i := int64(999); i < 20_000; i += 1000 {
		a.eraseCold(&r, s, i, i)
	}
	var sorted runList
	var late ooo.Buffer
	a.cold.copy(&sorted, &late, &r, s, math.MinInt64, math.MaxInt64)
	var times []int64
	for _, run := range a.merge(sorted.list, &late) {
		if run.Kind != chunkenc.KindFloat {
			t.Fatalf("a run of %v", run.Kind)
		}
		times = append(times, run.T...)
	}
	slices.Reverse(want)
	if !slices.Equal(times, want) {
		t.Errorf("%d samples read, %d written", len(times), len(want))
	}
}

// TestColdRunAgainstModel adds and erases samples anywhere in int64, in order of time
// and not, with start timestamps and without: what is read in any range is what a map
// holds, and the memory that is counted is what there is.
func TestColdRunAgainstModel(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 77))
		a, r := newApplier(Options{ChunkSamples: []int{4, 50, 240}[seed%3]}), &coldRun{}
		start := []int64{math.MinInt64, math.MaxInt64 - 5000, -2500, 1_700_000_000_000, 0}[rng.IntN(5)]
		span := []int64{50, 5000, math.MaxInt64}[rng.IntN(3)]
		late, started, newest := rng.IntN(4), rng.IntN(3), start
		pick := func() int64 {
			if rng.IntN(4) >= late {
				newest += min(rng.Int64N(3), math.MaxInt64-newest)
				return newest
			}
			return start + min(rng.Int64N(span), math.MaxInt64-max(start, 0))
		}
		list, models := []*Series{{ref: 1}, {ref: 17}, {ref: 5000}}, []oracle{{}, {}, {}}
		check := func(lo, hi int64) {
			lo, hi = min(lo, hi), max(lo, hi)
			for i, s := range list {
				var runs runList
				var waiting ooo.Buffer
				var got []string
				a.cold.copy(&runs, &waiting, r, s, lo, hi)
				for _, run := range a.merge(runs.list, &waiting) {
					for k, t := range run.T {
						if t >= lo && t <= hi {
							got = append(got, describe(sampleOf(run, k)))
						}
					}
				}
				if want := models[i].in(lo, hi); !slices.Equal(got, want) {
					t.Fatalf("seed %d: series %d has %d samples in [%d, %d], want %d", seed, i, len(got), lo, hi, len(want))
				}
			}
			if got, want := r.memory(), memoryOf(r); got != want {
				t.Fatalf("seed %d: %d bytes are counted of %d", seed, got, want)
			}
		}
		for range 3000 {
			i := rng.IntN(len(list))
			s, x := list[i], sample{t: pick(), v: float64(rng.IntN(5))}
			if rng.IntN(10) == 0 {
				x.v = math.Float64frombits(value.StaleNaN)
			}
			if rng.IntN(10) < 5*started {
				x.st = 1 + rng.Int64N(3)
			}
			c, _ := r.add(s, &x)
			a.pack(r, c)
			models[i].add(x)
			switch rng.IntN(300) {
			case 0:
				lo, hi := x.t, x.t+min(rng.Int64N(10), math.MaxInt64-x.t)
				if rng.IntN(10) == 0 {
					lo, hi = math.MinInt64, math.MaxInt64
				}
				maps.DeleteFunc(models[i], func(t int64, _ sample) bool { return t >= lo && t <= hi })
				if empty := a.eraseCold(r, s, lo, hi); empty != (len(models[i]) == 0) {
					t.Fatalf("seed %d: %v, of %d samples", seed, empty, len(models[i]))
				}
			case 1:
				check(pick(), pick())
			}
		}
		check(math.MinInt64, math.MaxInt64)
	}
}

// memoryOf counts the memory of a run anew.
func memoryOf(r *coldRun) int {
	n := coldRunBytes + r.series.bytes()
	for _, slab := range r.arena.slabs {
		n += len(slab) * len(block{})
	}
	for _, page := range r.pages {
		n += cap(page)
	}
	r.series.each(func(c *coldSeries) {
		n += coldSeriesBytes
		if c.rows != nil {
			n += rowsBytes + c.rows.Bytes()
		}
	})
	return n
}

// TestColdSeriesIsOneCacheLine keeps what every sample of long ago touches from growing.
func TestColdSeriesIsOneCacheLine(t *testing.T) {
	if coldSeriesBytes != 64 {
		t.Errorf("%d bytes", coldSeriesBytes)
	}
}
