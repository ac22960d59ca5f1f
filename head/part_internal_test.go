package head

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
)

// oracle is the rule for equal timestamps, kept naively: the last number if
// there is one, else the last stale marker.
type oracle map[int64]sample

func (o oracle) add(s sample) {
	if have, ok := o[s.t]; ok && stale(s) && !stale(have) {
		return
	}
	o[s.t] = s
}

func stale(s sample) bool {
	switch {
	case s.h != nil:
		return value.IsStaleNaN(s.h.Sum)
	case s.fh != nil:
		return value.IsStaleNaN(s.fh.Sum)
	}
	return value.IsStaleNaN(s.v)
}

func (o oracle) in(mint, maxt int64) []string {
	var ts []int64
	for t := range o {
		if t >= mint && t <= maxt {
			ts = append(ts, t)
		}
	}
	slices.Sort(ts)
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = describe(o[t])
	}
	return out
}

// describe writes all that must survive of a sample.
func describe(s sample) string {
	switch {
	case s.h != nil:
		return fmt.Sprintf("%d st %d h %d %x %v", s.t, s.st, s.h.Count, math.Float64bits(s.h.Sum), s.h.Copy().Compact(0).PositiveBuckets)
	case s.fh != nil:
		return fmt.Sprintf("%d st %d fh %g %x %v", s.t, s.st, s.fh.Count, math.Float64bits(s.fh.Sum), s.fh.Copy().Compact(0).PositiveBuckets)
	}
	return fmt.Sprintf("%d st %d v %x", s.t, s.st, math.Float64bits(s.v))
}

func readAll(t interface{ Fatalf(string, ...any) }, h *Head, s *Series, mint, maxt int64) []string {
	var out []string
	last := int64(math.MinInt64)
	err := h.View().NewReader().Read(s, mint, maxt, func(run *chunkenc.Samples) error {
		for _, ts := range run.T {
			if len(out) > 0 && ts <= last {
				t.Fatalf("timestamp %d after %d", ts, last)
			}
			last = ts
		}
		out = append(out, describeRun(run)...)
		return nil
	})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return out
}

func describeRun(run *chunkenc.Samples) []string {
	out := make([]string, len(run.T))
	for i := range run.T {
		out[i] = describe(sampleOf(run, i))
	}
	return out
}

func testHead(t interface{ Fatalf(string, ...any) }, o Options) (*Head, *committer) {
	o.Exemplars = 100
	h, err := New(o)
	if err != nil {
		t.Fatalf("new head: %v", err)
	}
	c := newCommitter(h)
	c.nowMs = math.MinInt64 / 2 // nothing is long over: every container is near
	return h, c
}

func testSeries(h *Head, name string) *Series {
	s, _, err := h.Resolve(Key{Lo: uint64(len(name)), Hi: uint64(name[0])}, []Label{{[]byte(labels.MetricName), []byte(name)}})
	if err != nil {
		panic(err)
	}
	return s
}

func drawSample(t *rapid.T, times *rapid.Generator[int64], kinds int) sample {
	s := sample{t: times.Draw(t, "t")}
	if rapid.IntRange(0, 9).Draw(t, "start") == 0 {
		s.st = s.t - 1000
	}
	count := rapid.Uint64Range(0, 3).Draw(t, "count")
	sum := float64(count)
	staleMarker := rapid.IntRange(0, 5).Draw(t, "stale") == 0
	if staleMarker {
		sum, count = math.Float64frombits(value.StaleNaN), 0
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 1:
		s.h = &histogram.Histogram{Count: count, Sum: sum, Schema: 1}
		if !staleMarker && count > 0 {
			s.h.PositiveSpans = []histogram.Span{{Offset: 0, Length: 1}}
			s.h.PositiveBuckets = []int64{int64(count)}
		}
	case 2:
		s.fh = &histogram.FloatHistogram{Count: float64(count), Sum: sum, Schema: 1}
		if !staleMarker && count > 0 {
			s.fh.PositiveSpans = []histogram.Span{{Offset: 0, Length: 1}}
			s.fh.PositiveBuckets = []float64{float64(count)}
		}
	default:
		s.v = sum
	}
	return s
}

// TestReadsWhatTheRuleSays applies random samples in random order and compares
// every read with the naive rule.
func TestReadsWhatTheRuleSays(t *testing.T) {
	for _, kinds := range []int{0, 2} {
		t.Run(fmt.Sprint("kinds ", kinds+1), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				h, c := testHead(t, Options{ChunkSamples: rapid.SampledFrom([]int{4, 16, 240}).Draw(t, "chunk")})
				s := testSeries(h, "m")
				want := oracle{}
				step := rapid.SampledFrom([]int64{1, 1000, 15_000}).Draw(t, "step")
				base := rapid.SampledFrom([]int64{0, -90_000, 1_700_000_000_000, math.MaxInt64 - 400*15_000, math.MinInt64}).Draw(t, "base")
				times := rapid.Custom(func(t *rapid.T) int64 {
					return base + step*rapid.Int64Range(0, 300).Draw(t, "i")
				})
				n := rapid.IntRange(1, 400).Draw(t, "n")
				cursor := base
				for range n {
					x := drawSample(t, times, kinds)
					if rapid.IntRange(0, 3).Draw(t, "order") > 0 && cursor <= math.MaxInt64-step {
						x.t, cursor = cursor, cursor+step
					}
					c.place(s, 1, &x)
					want.add(x)
				}
				mint, maxt := times.Draw(t, "mint"), times.Draw(t, "maxt")
				for _, r := range [][2]int64{{math.MinInt64, math.MaxInt64}, {mint, maxt}, {mint, mint}} {
					got := readAll(t, h, s, r[0], r[1])
					if !slices.Equal(got, want.in(r[0], r[1])) {
						t.Fatalf("[%d, %d]:\n got %v\nwant %v", r[0], r[1], got, want.in(r[0], r[1]))
					}
				}
			})
		})
	}
}

// TestChunksOfOneTarget cuts alike: series with the same times share boundaries,
// and a full slot holds one chunk of about the target.
func TestChunksOfOneTarget(t *testing.T) {
	h, c := testHead(t, Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	series := []*Series{testSeries(h, "a"), testSeries(h, "bb"), testSeries(h, "ccc")}
	start := int64(1_700_006_400_000)
	for i := range int64(5 * 480) {
		for _, s := range series {
			c.place(s, 1, &sample{t: start + i*15_000 + int64(i%5), v: rng.Float64()})
		}
	}
	for _, box := range h.containers.Load().open {
		first := box.parts.of(series[0]).chunks
		for _, s := range series {
			chunks := box.parts.of(s).chunks
			if len(chunks) != len(first) {
				t.Fatalf("%d chunks beside %d", len(chunks), len(first))
			}
			for i := range chunks {
				if chunks[i].MinT != first[i].MinT || chunks[i].MaxT != first[i].MaxT {
					t.Fatalf("chunk %d of another range", i)
				}
			}
		}
		if full := len(first) >= 2; full && first[0].N != 240 {
			t.Errorf("a full slot has a chunk of %d samples", first[0].N)
		}
	}
}

// TestSlotsCloseByTurns scrapes many series together over the end of a slot: no
// scrape closes the slot of more than a few of them, and all are closed soon.
func TestSlotsCloseByTurns(t *testing.T) {
	t.Run("floats", func(t *testing.T) {
		testSlotsCloseByTurns(t, func(at int64) sample { return sample{t: at, v: float64(at % 7)} })
	})
	t.Run("histograms", func(t *testing.T) {
		testSlotsCloseByTurns(t, func(at int64) sample {
			return sample{t: at, h: &histogram.Histogram{ZeroCount: uint64(at), Count: uint64(at)}}
		})
	})
}

func testSlotsCloseByTurns(t *testing.T, draw func(at int64) sample) {
	const step, slot = 15_000, 3600_000
	h, c := testHead(t, Options{})
	var series []*Series
	for i := range 512 {
		s, _, err := h.Resolve(Key{Lo: uint64(i), Hi: 1}, []Label{{[]byte(labels.MetricName), fmt.Append(nil, "m", i)}})
		if err != nil {
			t.Fatal(err)
		}
		series = append(series, s)
	}
	start := int64(1_700_006_400_000)
	closed, most := 0, 0
	for at := start; at < start+slot+slot/closeSpread+step; at += step {
		before := c.applier.stats.chunks
		for _, s := range series {
			x := draw(at)
			c.place(s, 1, &x)
		}
		n := c.applier.stats.chunks - before
		if closed += n; n > 0 && at < start+slot {
			t.Fatalf("%d slots are closed %d ms before their end", n, start+slot-at)
		}
		most = max(most, n)
	}
	if closed != len(series) || most > 2*len(series)*step*closeSpread/slot {
		t.Errorf("%d of %d slots are closed, %d in one scrape", closed, len(series), most)
	}
	for _, s := range series {
		if ch := s.live.chunks[0]; ch.MinT != start || ch.MaxT != start+slot-step {
			t.Fatalf("a chunk of [%d, %d], want [%d, %d]", ch.MinT, ch.MaxT, start, start+slot-step)
		}
	}
}

// TestShortSlotIsClosedWithTheNext begins series anywhere in a slot: one that has
// seen less than half of it makes no chunk when time leaves it, and two when time
// leaves the next, cut where the slots meet; a late sample of the first goes to the
// stream as long.
func TestShortSlotIsClosedWithTheNext(t *testing.T) {
	const step, slot = 15_000, 3600_000
	start := int64(1_700_006_400_000)
	for _, before := range []int64{1, 40, 100, 120, 200} {
		h, c := testHead(t, Options{})
		s, want := testSeries(h, "m"), oracle{}
		place := func(at int64) {
			x := sample{t: at, v: float64(at % 7)}
			c.place(s, 1, &x)
			want.add(x)
		}
		at := start + slot - before*step
		for ; at < start+2*slot-step; at += step {
			place(at)
		}
		place(start + slot - before*step/2 - 1) // late
		closed, late := 0, 0
		if before >= 120 {
			closed, late = 1, 1
		}
		if n := len(s.live.chunks); n != closed || s.live.lateLen() != late {
			t.Errorf("%d samples before the border: %d chunks, %d late samples wait, want %d and %d", before, n, s.live.lateLen(), closed, late)
		}
		lo, hi := s.live.box.lo, s.live.box.hi
		c.applier.closeSlot(s.live.box, s.live)
		for _, ch := range s.live.chunks {
			if ch.MinT < lo+slot != (ch.MaxT < lo+slot) || ch.MaxT > hi {
				t.Errorf("%d samples before the border: a chunk of [%d, %d] across it", before, ch.MinT-lo, ch.MaxT-lo)
			}
		}
		if got := readAll(t, h, s, math.MinInt64, math.MaxInt64); !slices.Equal(got, want.in(math.MinInt64, math.MaxInt64)) {
			t.Errorf("%d samples before the border: %d samples read, %d expected", before, len(got), len(want))
		}
	}
}

// TestChunkNeverPastHardCut feeds a series far denser than its slots.
func TestChunkNeverPastHardCut(t *testing.T) {
	h, c := testHead(t, Options{ChunkSamples: 10})
	s := testSeries(h, "m")
	want := oracle{}
	for i := range int64(5000) {
		x := sample{t: i, v: float64(i)}
		c.place(s, 1, &x)
		want.add(x)
	}
	for i := int64(4999); i > 0; i -= 3 {
		x := sample{t: i, v: -1}
		c.place(s, 1, &x)
		want.add(x)
	}
	for _, box := range h.containers.Load().open {
		for _, ch := range box.parts.of(s).chunks {
			if ch.N > 10*hardFactor {
				t.Fatalf("a chunk of %d samples", ch.N)
			}
		}
	}
	if got := readAll(t, h, s, 0, 5000); !slices.Equal(got, want.in(0, 5000)) {
		t.Fatalf("%d samples read, %d expected", len(got), len(want))
	}
}

// TestLateIsBounded sends late samples into the time of a tail that waits for
// a newer one: what waits beside it stays bounded, whether it is of the tail's
// kind or not, new or sent again.
func TestLateIsBounded(t *testing.T) {
	for name, x := range map[string]sample{"floats": {v: 1}, "histograms": {h: &histogram.Histogram{Sum: 1}}} {
		t.Run(name, func(t *testing.T) {
			h, c := testHead(t, Options{})
			s := testSeries(h, "m")
			want := oracle{}
			for _, step := range []int64{7, 0, 13} { // 0 sends the same again
				for i := range int64(5000) {
					y := x
					y.t = 1 + step*i
					if i < 2 {
						y.t = i * 100_000
					}
					c.place(s, 1, &y)
					want.add(y)
					if n := s.live.lateLen(); n > maxLate {
						t.Fatalf("%d samples wait", n)
					}
				}
			}
			if got := readAll(t, h, s, 0, 200_000); !slices.Equal(got, want.in(0, 200_000)) {
				t.Fatalf("%d samples read, %d expected", len(got), len(want))
			}
		})
	}
}
