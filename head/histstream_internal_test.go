package head

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// histDraw draws histograms of a series whose layout changes now and then.
type histDraw struct {
	rng    *rand.Rand
	shape  histShape
	counts []int64
}

func (d *histDraw) change() {
	spans := func() (list []histogram.Span, buckets int) {
		for range d.rng.IntN(4) {
			s := histogram.Span{Offset: int32(d.rng.IntN(40) - 20), Length: uint32(1 + d.rng.IntN(12))}
			list, buckets = append(list, s), buckets+int(s.Length)
		}
		return list, buckets
	}
	d.shape = histShape{schema: int32(d.rng.IntN(12) - 3), zeroThreshold: d.rng.Float64()}
	d.shape.positive, d.shape.buckets[0] = spans()
	d.shape.negative, d.shape.buckets[1] = spans()
	if d.rng.IntN(3) == 0 {
		d.shape.custom = []float64{-1, math.Copysign(0, -1), d.rng.Float64(), math.Inf(1)}[:1+d.rng.IntN(4)]
	}
	d.counts = make([]int64, d.shape.buckets[0]+d.shape.buckets[1])
}

// sample draws one of kind k at t.
func (d *histDraw) sample(k chunkenc.Kind, t int64) sample {
	if d.rng.IntN(8) == 0 {
		d.change()
	}
	x := sample{t: t}
	if d.rng.IntN(4) == 0 {
		x.st = t - d.rng.Int64N(100) - 1
	}
	for i := range d.counts {
		switch d.rng.IntN(6) {
		case 0:
			d.counts[i] = int64(d.rng.Uint64()) // any, so that differences wrap
		case 1, 2:
			d.counts[i] += d.rng.Int64N(1000)
		}
	}
	hint := histogram.CounterResetHint(d.rng.IntN(4))
	sum := []float64{0, math.NaN(), math.Float64frombits(value.StaleNaN), d.rng.NormFloat64(), math.Inf(-1)}[d.rng.IntN(5)]
	n := d.shape.buckets[0]
	if k == chunkenc.KindHistogram {
		ints := slices.Clone(d.counts)
		x.h = &histogram.Histogram{
			CounterResetHint: hint, Schema: d.shape.schema, ZeroThreshold: d.shape.zeroThreshold,
			ZeroCount: d.rng.Uint64() >> d.rng.IntN(64), Count: d.rng.Uint64() >> d.rng.IntN(64), Sum: sum,
			PositiveSpans: d.shape.positive, NegativeSpans: d.shape.negative, CustomValues: d.shape.custom,
			PositiveBuckets: someOf(ints[:n]), NegativeBuckets: someOf(ints[n:]),
		}
		return x
	}
	floats := make([]float64, len(d.counts))
	for i, c := range d.counts {
		floats[i] = math.Float64frombits(uint64(c))
		if d.rng.IntN(2) == 0 {
			floats[i] = float64(c)
		}
	}
	x.fh = &histogram.FloatHistogram{
		CounterResetHint: hint, Schema: d.shape.schema, ZeroThreshold: d.shape.zeroThreshold,
		ZeroCount: d.rng.NormFloat64(), Count: float64(d.rng.IntN(1000)), Sum: sum,
		PositiveSpans: d.shape.positive, NegativeSpans: d.shape.negative, CustomValues: d.shape.custom,
		PositiveBuckets: someOf(floats[:n]), NegativeBuckets: someOf(floats[n:]),
	}
	return x
}

// same says whether two histograms have the same bits throughout.
func same(a, b sample) bool {
	if a.t != b.t || a.st != b.st || (a.h == nil) != (b.h == nil) {
		return false
	}
	as, bs := a.shape(), b.shape()
	if !as.equal(&bs) {
		return false
	}
	if a.h != nil {
		return a.h.CounterResetHint == b.h.CounterResetHint && a.h.ZeroCount == b.h.ZeroCount && a.h.Count == b.h.Count &&
			sameBits(a.h.Sum, b.h.Sum) && slices.Equal(a.h.PositiveBuckets, b.h.PositiveBuckets) && slices.Equal(a.h.NegativeBuckets, b.h.NegativeBuckets)
	}
	return a.fh.CounterResetHint == b.fh.CounterResetHint && sameBits(a.fh.ZeroCount, b.fh.ZeroCount) && sameBits(a.fh.Count, b.fh.Count) &&
		sameBits(a.fh.Sum, b.fh.Sum) && slices.EqualFunc(a.fh.PositiveBuckets, b.fh.PositiveBuckets, sameBits) &&
		slices.EqualFunc(a.fh.NegativeBuckets, b.fh.NegativeBuckets, sameBits)
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// What a stream of histograms is given it gives back, every bit, in order of
// arrival; what came in order of time as a run, the rest as late.
func TestHistStream(t *testing.T) {
	for seed := range uint64(300) {
		d := &histDraw{rng: rand.New(rand.NewPCG(seed, 0))}
		d.change()
		k := chunkenc.KindHistogram
		if seed%2 == 1 {
			k = chunkenc.KindFloatHistogram
		}
		var s histStream
		var want, inOrder, late []sample
		newest := int64(math.MinInt64)
		for range 1 + d.rng.IntN(60) {
			x := d.sample(k, d.rng.Int64N(200)-100)
			if len(want) > 0 && d.rng.IntN(2) == 0 {
				x.t = newest + d.rng.Int64N(15)
			}
			s.push(newest, &x)
			want = append(want, x)
			if len(want) == 1 || x.t > newest {
				newest, inOrder = x.t, append(inOrder, x)
			} else if x.t >= -50 && x.t <= 50 {
				late = append(late, x)
			}
			if s.unsorted != (len(want) > len(inOrder)) {
				t.Fatalf("seed %d: unsorted is %v with %d of %d samples in order", seed, s.unsorted, len(inOrder), len(want))
			}
		}
		r := histReader{rest: s.data, kind: k, left: int(s.n)}
		var got []sample
		for range s.n {
			got = append(got, r.next())
		}
		if len(r.rest) != 0 || !slices.EqualFunc(got, want, same) {
			t.Fatalf("seed %d: the stream gives other histograms than it was given", seed)
		}
		checkParted(t, seed, &s, k, inOrder, late)
	}
}

// checkParted checks how a stream is parted by order, what is late within [-50, 50].
func checkParted(t *testing.T, seed uint64, s *histStream, k chunkenc.Kind, inOrder, late []sample) {
	t.Helper()
	var runs runList
	var rest, want ooo.Buffer
	s.appendTo(&runs, &rest, k, -50, 50)
	var got []sample
	for i := range runs.list[0].T {
		got = append(got, sampleOf(runs.list[0], i))
	}
	if !slices.EqualFunc(got, inOrder, same) {
		t.Fatalf("seed %d: the run is not what came in order", seed)
	}
	for i := range late {
		late[i].addTo(&want)
	}
	if rest.Len() != want.Len() {
		t.Fatalf("seed %d: %d late, want %d", seed, rest.Len(), want.Len())
	}
}

// A stream that was copied is read while the one that it was copied from grows.
func TestHistStreamCopied(t *testing.T) {
	d := &histDraw{rng: rand.New(rand.NewPCG(1, 0))}
	d.change()
	var s histStream
	push := func(n int) (list []sample) {
		for range n {
			x := d.sample(chunkenc.KindHistogram, int64(s.n))
			s.push(int64(s.n)-1, &x)
			list = append(list, x)
		}
		return list
	}
	want := push(20)
	early := s
	push(200)
	r := histReader{rest: early.data, kind: chunkenc.KindHistogram, left: int(early.n)}
	for i := range want {
		if got := r.next(); !same(got, want[i]) {
			t.Fatalf("sample %d changed", i)
		}
	}
}
