package acceptance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
)

// spans returns spans given as offset, length, …
func spans(pairs ...int64) (out []histogram.Span) {
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, histogram.Span{Offset: int32(pairs[i]), Length: uint32(pairs[i+1])})
	}
	return out
}

// badHistograms are integer histograms that no one may store.
func badHistograms() map[string]*histogram.Histogram {
	inf, nan := math.Inf(1), math.NaN()
	return map[string]*histogram.Histogram{
		"fewer buckets than spans":  {Count: 4, PositiveSpans: spans(0, 5), PositiveBuckets: []int64{1, 0, 0, 0}},
		"more buckets than spans":   {Count: 5, PositiveSpans: spans(0, 4), PositiveBuckets: []int64{1, 0, 0, 0, 0}},
		"buckets without spans":     {Count: 1, PositiveBuckets: []int64{1}},
		"spans without buckets":     {NegativeSpans: spans(0, 1)},
		"offset goes back":          {Count: 5, PositiveSpans: spans(0, 2, -3, 3), PositiveBuckets: []int64{1, 0, 0, 0, 0}},
		"offset goes back, empty":   {PositiveSpans: spans(0, 0, -3, 0)},
		"negative offset goes back": {Count: 2, NegativeSpans: spans(5, 1, -1, 1), NegativeBuckets: []int64{1, 0}},
		"span of 2^32-1":            {PositiveSpans: spans(0, math.MaxUint32)},
		"spans sum past 2^32":       {Count: 1, PositiveSpans: spans(0, math.MaxUint32, 0, 2), PositiveBuckets: []int64{1}},
		"index past int32":          {Count: 2, PositiveSpans: spans(math.MaxInt32, 2), PositiveBuckets: []int64{1, 0}},
		"index past int32 in two":   {Count: 2, PositiveSpans: spans(math.MaxInt32, 1, math.MaxInt32, 1), PositiveBuckets: []int64{1, 0}},
		"bucket becomes negative":   {Count: 1, PositiveSpans: spans(0, 2), PositiveBuckets: []int64{1, -2}},
		"bucket sum overflows":      {Count: 5, PositiveSpans: spans(0, 2), PositiveBuckets: []int64{math.MaxInt64, math.MaxInt64}},
		"count below buckets":       {Count: 2, PositiveSpans: spans(0, 3), PositiveBuckets: []int64{1, 0, 0}},
		"count above buckets":       {Count: 4, PositiveSpans: spans(0, 3), PositiveBuckets: []int64{1, 0, 0}},
		"count without zero bucket": {Count: 3, ZeroCount: 1, PositiveSpans: spans(0, 3), PositiveBuckets: []int64{1, 0, 0}},
		"zero count over all":       {Count: 1, ZeroCount: math.MaxUint64},
		"NaN sum, count too low":    {Count: 1, Sum: nan, PositiveSpans: spans(0, 3), PositiveBuckets: []int64{1, 0, 0}},
		"schema 53":                 {Schema: 53}, "schema 127": {Schema: 127}, "schema -10": {Schema: -10}, "schema -52": {Schema: -52},
		"schema -54": {Schema: -54}, "first schema": {Schema: math.MinInt32}, "last schema": {Schema: math.MaxInt32},
		"zero threshold NaN": {ZeroThreshold: nan}, "zero threshold -1": {ZeroThreshold: -1}, "zero threshold Inf": {ZeroThreshold: inf},
		"bounds of an exponential": {CustomValues: []float64{1}},
		"custom without bounds":    {Schema: -53, Count: 2, PositiveSpans: spans(0, 2), PositiveBuckets: []int64{1, 0}},
		"custom negative":          {Schema: -53, Count: 1, CustomValues: []float64{1}, NegativeSpans: spans(0, 1), NegativeBuckets: []int64{1}},
		"custom zero count":        {Schema: -53, Count: 1, ZeroCount: 1, CustomValues: []float64{1}},
		"custom zero threshold":    {Schema: -53, ZeroThreshold: 1, CustomValues: []float64{1}},
		"custom unsorted":          {Schema: -53, CustomValues: []float64{2, 1}}, "custom equal": {Schema: -53, CustomValues: []float64{1, 1}},
		"custom NaN bound": {Schema: -53, CustomValues: []float64{nan}}, "custom NaN in between": {Schema: -53, CustomValues: []float64{1, nan, 2}},
		"custom +Inf":                     {Schema: -53, CustomValues: []float64{1, inf}},
		"custom more buckets than bounds": {Schema: -53, Count: 3, CustomValues: []float64{1}, PositiveSpans: spans(0, 3), PositiveBuckets: []int64{1, 0, 0}},
		"custom index past bounds":        {Schema: -53, Count: 1, CustomValues: []float64{1, 2}, PositiveSpans: spans(3, 1), PositiveBuckets: []int64{1}},
		"custom negative index":           {Schema: -53, Count: 1, CustomValues: []float64{1, 2}, PositiveSpans: spans(-1, 1), PositiveBuckets: []int64{1}},
	}
}

// A histogram that contradicts itself is refused by name and its neighbours are stored.
func TestBrokenHistogramsAreRefused(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	floats := map[string]*histogram.FloatHistogram{
		"float negative bucket":  {Count: 1, PositiveSpans: spans(0, 2), PositiveBuckets: []float64{2, -1}},
		"float negative zero":    {Count: -1, ZeroCount: -1},
		"float too many buckets": {Count: 3, PositiveSpans: spans(0, 2), PositiveBuckets: []float64{1, 1, 1}},
		"float schema":           {Schema: 60},
	}
	both(t, func(t *testing.T, v version) {
		try := func(name string, bad entry) {
			t.Run(name, func(t *testing.T) {
				before := series("good", "case", name, "v", v.String()).at(n, 1).hist(n+1, intHistogram(3))
				after := series("good", "case", name, "v", v.String()).fhist(n+2, floatHistogram(3))
				a := s.survives(t, m, packed(v, encode(v, before, bad, after)))
				a.is(t, http.StatusBadRequest).wrote(t, v, 1, 3, 0).names(t, "broken_hist")
				m.write(before, after, series("broken_hist").hist(n-second, intHistogram(1)))
			})
		}
		for name, h := range badHistograms() {
			// One good histogram in the bad one's entry.
			try(name, series("broken_hist").hist(n-second, intHistogram(1)).hist(n, h))
		}
		for name, fh := range floats {
			try(name, series("broken_hist").hist(n-second, intHistogram(1)).fhist(n, fh))
		}
	})
	s.readBack(t, m)
}

// Odd but valid histograms are kept.
func TestOddHistogramsAreKept(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	inf, nan := math.Inf(1), math.NaN()
	odd := map[string]*histogram.Histogram{
		"empty":                   {},
		"zero spans":              {PositiveSpans: spans(0, 0, 0, 0, 0, 0)},
		"zero spans in between":   {Count: 2, PositiveSpans: spans(1, 1, 2, 0, 3, 1), PositiveBuckets: []int64{1, 0}},
		"empty buckets":           {Count: 1, PositiveSpans: spans(0, 5), PositiveBuckets: []int64{0, 0, 1, -1, 0}},
		"stale":                   {Sum: staleNaN},
		"stale with buckets":      {Sum: staleNaN, Count: 2, ZeroCount: 2},
		"NaN sum":                 {Sum: nan, Count: 3, ZeroCount: 2},
		"NaN sum of other bits":   {Sum: math.Float64frombits(0x7ff8000000000099), Count: 2, ZeroCount: 2},
		"Inf sum":                 {Sum: inf, Count: 2, ZeroCount: 2},
		"far buckets":             {Count: 2, Schema: -4, PositiveSpans: spans(-1000, 1, 2000, 1), PositiveBuckets: []int64{1, 0}},
		"schema 8":                {Schema: 8, Count: 1, NegativeSpans: spans(-7, 1), NegativeBuckets: []int64{1}},
		"schema -4":               {Schema: -4, ZeroThreshold: 1e-128, ZeroCount: 7, Count: 7, Sum: 1},
		"count 2^63":              {Count: 1 << 63, ZeroCount: 1 << 63},
		"count 2^64-1":            {Count: math.MaxUint64, ZeroCount: math.MaxUint64},
		"gauge":                   {CounterResetHint: histogram.GaugeType, Count: 2, ZeroCount: 2},
		"reset":                   {CounterResetHint: histogram.CounterReset, Count: 2, ZeroCount: 2},
		"last index":              {Count: 1, PositiveSpans: spans(math.MaxInt32-1, 1), PositiveBuckets: []int64{1}},
		"first index":             {Count: 1, PositiveSpans: spans(math.MinInt32+1, 1), PositiveBuckets: []int64{1}},
		"custom":                  customHistogram(3, 1, 2, 3),
		"custom without buckets":  {Schema: -53, CustomValues: []float64{1, 2}},
		"custom negative bounds":  customHistogram(2, -5, 0, 1e300),
		"custom -Inf":             customHistogram(2, math.Inf(-1), 0),
		"custom odd bounds":       customHistogram(1, 0.1, 0.30000000000000004, math.MaxFloat64),
		"custom all in the +Inf":  {Schema: -53, Count: 4, CustomValues: []float64{1, 2}, PositiveSpans: spans(2, 1), PositiveBuckets: []int64{4}},
		"many buckets":            manyBuckets(2000),
		"many spans, one a piece": manySpans(1000),
	}
	both(t, func(t *testing.T, v version) {
		i := int64(0)
		for name, h := range odd {
			i++
			s.store(t, m, v, series("odd_hist", "v", v.String(), "n", name).hist(n, h))
			s.store(t, m, v, series("odd_float", "v", v.String(), "n", name).fhist(n, h.ToFloat(nil)))
			s.store(t, m, v, series("all_odd", "v", v.String()).hist(n+i*second, h), series("all_odd_float", "v", v.String()).fhist(n+i*second, h.ToFloat(nil)))
		}
		// Totals of floats need not add up to the last bit.
		s.store(t, m, v, series("tolerance", "v", v.String()).fhist(n, &histogram.FloatHistogram{Count: 0.6889399999, Sum: 1, PositiveSpans: spans(0, 1), PositiveBuckets: []float64{0.68894}}))
		if v == v2 { // what a scraped histogram with the bucket +Inf alone becomes; 1.0 may have lost the bounds
			one := customHistogram(3)
			s.store(t, m, v, series("one_bucket").hist(n, one), series("one_bucket_float").fhist(n, one.ToFloat(nil)))
		}
		// A zero bucket's bits.
		s.store(t, m, v, series("minus_zero", "v", v.String()).fhist(n, &histogram.FloatHistogram{Sum: math.SmallestNonzeroFloat64, ZeroThreshold: math.SmallestNonzeroFloat64}))
	})
	s.readBack(t, m)
}

func manyBuckets(n int) *histogram.Histogram {
	h := &histogram.Histogram{Count: uint64(n), PositiveSpans: spans(-5, int64(n)), PositiveBuckets: make([]int64, n)}
	h.PositiveBuckets[0] = 1
	return h
}

func manySpans(n int) *histogram.Histogram {
	h := &histogram.Histogram{Count: uint64(n), PositiveBuckets: make([]int64, n)}
	h.PositiveBuckets[0] = 1
	for range n {
		h.PositiveSpans = append(h.PositiveSpans, histogram.Span{Offset: 2, Length: 1})
	}
	return h
}

// Valid histograms whose bucket layout changes from sample to sample come back
// equal, also those put between others late.
func TestBucketLayoutsThatChange(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - 2*hour
	rnd := seeded(t, 22)
	both(t, func(t *testing.T, v version) {
		alternating, random := series("alternating", "v", v.String()), series("random_layout", "v", v.String())
		for i := range 50 {
			k := int64(i)
			h := &histogram.Histogram{Count: uint64(2 * (i + 1)), PositiveSpans: spans(0, 1, 3, 1), PositiveBuckets: []int64{k + 1, 0}}
			if i%2 == 1 {
				h.PositiveSpans, h.PositiveBuckets = spans(0, 2, 1, 3), []int64{k + 1, -k - 1, 0, k + 1, -k - 1}
			}
			alternating = alternating.hist(n+k*10*second, h)
		}
		s.store(t, m, v, alternating)
		for i := range 49 {
			h := alternating.hists[i].h.Copy()
			h.PositiveSpans, h.PositiveBuckets = append(spans(-4, 2, 2, 0), h.PositiveSpans...), append([]int64{0, 1}, h.PositiveBuckets...)
			h.PositiveBuckets[2]--
			h.Count++
			s.store(t, m, v, entry{labels: alternating.labels}.hist(n+int64(i)*10*second+5*second, h))
		}
		for i := range 300 {
			h := randomHistogram(rnd)
			if i%3 == 0 {
				random = random.fhist(n+int64(i)*second, h.ToFloat(nil))
			} else {
				random = random.hist(n+int64(i)*second, h)
			}
		}
		rnd.Shuffle(len(random.hists), func(i, j int) { random.hists[i], random.hists[j] = random.hists[j], random.hists[i] })
		for part := range slices.Chunk(random.hists, 25) {
			s.store(t, m, v, entry{labels: random.labels, hists: part})
		}
	})
	s.readBack(t, m)
}

// randomHistogram returns a valid histogram of a random layout with many empty buckets.
func randomHistogram(rnd *rand.Rand) *histogram.Histogram {
	h := &histogram.Histogram{Schema: int32(rnd.IntN(3)), ZeroThreshold: 0.5, ZeroCount: uint64(rnd.IntN(3)), Sum: rnd.NormFloat64()}
	h.Count = h.ZeroCount
	side := func() (spans []histogram.Span, deltas []int64) {
		last := int64(0)
		for i := range rnd.IntN(5) {
			sp := histogram.Span{Offset: int32(rnd.IntN(4)), Length: uint32(rnd.IntN(4))}
			if i == 0 {
				sp.Offset -= 6
			}
			spans = append(spans, sp)
			for range sp.Length {
				b := max(0, int64(rnd.IntN(8)-4))
				deltas = append(deltas, b-last)
				last, h.Count = b, h.Count+uint64(b)
			}
		}
		return spans, deltas
	}
	h.PositiveSpans, h.PositiveBuckets = side()
	h.NegativeSpans, h.NegativeBuckets = side()
	return h
}

// Bounds of custom buckets come through both versions and both modes, also where
// they change from one sample to the next.
func TestCustomBucketsKeepTheirBounds(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		e := series("custom", "v", v.String())
		for i := range 40 {
			h := customHistogram(i+1, 1, 2, float64(3+i/10))
			if i%4 == 3 {
				e = e.fhist(n+int64(i)*second, h.ToFloat(nil))
			} else {
				e = e.hist(n+int64(i)*second, h)
			}
		}
		s.store(t, m, v, e)
		for i := range 39 {
			s.store(t, m, v, entry{labels: e.labels}.hist(n+int64(i)*second+500, customHistogram(i+1, 7, 8, float64(9+i))))
		}
	})
	s.readBack(t, m)
	for _, mode := range modes {
		for _, rs := range s.readAll(t, mode) {
			for _, p := range rs.points {
				if p.h != nil && len(p.h.CustomValues) != 3 || p.fh != nil && len(p.fh.CustomValues) != 3 {
					t.Fatalf("%v: bounds are missing in %v", mode, p)
				}
			}
		}
	}
}

// A finer resolution than can be stored is made coarser or refused, and never kept wrongly.
func TestFinerSchemasAreReducedOrRefused(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		for _, schema := range []int32{9, 10, 20, 52, -5, -9} {
			h := &histogram.Histogram{Schema: schema, Count: 4, ZeroCount: 1, Sum: 3, PositiveSpans: spans(1, 3), PositiveBuckets: []int64{1, 0, 0}}
			e := series("fine", "v", v.String(), "schema", fmt.Sprint(schema)).hist(n, h)
			a := s.survives(t, m, packed(v, encode(v, e)))
			if a.status != http.StatusNoContent {
				a.is(t, http.StatusBadRequest).wrote(t, v, 0, 0, 0)
				continue
			}
			a.wrote(t, v, 0, 1, 0)
			if schema > 8 {
				h = h.Copy()
				if err := h.ReduceResolution(8); err != nil {
					t.Fatal(err)
				}
			}
			m.write(series("fine", "v", v.String(), "schema", fmt.Sprint(schema)).hist(n, h))
		}
	})
	s.readBack(t, m)
}

// Between two samples that a reader takes for one counter, no bucket falls.
func TestNoResetIsHidden(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	rnd := seeded(t, 58)
	plain := func(count int) *histogram.Histogram {
		return &histogram.Histogram{Count: uint64(count), ZeroCount: uint64(count) / 2, ZeroThreshold: 0.1, Sum: float64(count),
			PositiveSpans: spans(0, 2), PositiveBuckets: []int64{int64(count - count/2), -int64(count - count/2)}}
	}
	hinted := func(count int, hint histogram.CounterResetHint) *histogram.Histogram {
		h := plain(count)
		h.CounterResetHint = hint
		return h
	}
	both(t, func(t *testing.T, v version) {
		name := func(n string) entry { return series("resets", "v", v.String(), "n", n) }
		s.store(t, m, v, name("late").hist(n+1, plain(40)).hist(n+4, plain(30)))
		s.store(t, m, v, name("late").hist(n+2, plain(40)))
		s.store(t, m, v, name("late").hist(n+3, plain(10)))

		s.store(t, m, v, name("explicit").hist(n+1, plain(10)).hist(n+8, hinted(5, histogram.CounterReset)))
		s.store(t, m, v, name("explicit").hist(n+5, plain(3)))

		// A reset that no bucket shows.
		s.store(t, m, v, name("grown").hist(n+1, plain(10)).hist(n+2, hinted(50, histogram.CounterReset)).hist(n+3, plain(60)))

		// So it is long ago, and with a late one before it.
		old := n - 3*day
		s.store(t, m, v, name("filled").hist(old+1, plain(10)).hist(old+4, hinted(50, histogram.CounterReset)).hist(old+5, plain(60)))
		s.store(t, m, v, name("filled").hist(old+3, plain(11)))

		for i, c := range []int{10, 5, 7, 3, 20, 1} {
			s.store(t, m, v, name("gauge").hist(n+int64(i*7%6), hinted(c, histogram.GaugeType)))
		}
		wrong := hinted(5, histogram.NotCounterReset)
		s.store(t, m, v, name("false hint").hist(n+1, plain(10)).hist(n+2, wrong).hist(n+3, hinted(6, histogram.NotCounterReset)))
		s.store(t, m, v, name("schema").hist(n+1, intHistogram(5)).hist(n+2, &histogram.Histogram{Schema: 3, Count: 100, ZeroCount: 100}))
		var all []hist
		for i := range 400 {
			h := plain(rnd.IntN(20))
			if i%5 == 0 {
				h = plain(1000 + i)
			}
			all = append(all, hist{t: n + minute + int64(i)*second, h: h})
		}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for part := range slices.Chunk(all, 40) {
			s.store(t, m, v, entry{labels: name("random").labels, hists: part})
		}
	})
	for _, again := range []func(testing.TB){func(testing.TB) {}, s.restart, s.flush, s.crash} {
		again(t)
		for _, mode := range modes {
			for _, rs := range s.readAll(t, mode) {
				checkHints(t, mode, rs)
			}
		}
	}
	s.readBack(t, m)
}

// checkHints expects that no sample says "no reset" where one fell, that gauges
// stay gauges and that an explicit reset is kept, whatever came before it. (A chunk
// has it in its header, where Prometheus's library does not look for it.)
func checkHints(t *testing.T, mode mode, rs readSeries) {
	t.Helper()
	for i, p := range rs.points {
		if p.h == nil {
			continue
		}
		gauge := rs.labels.Get("n") == "gauge"
		if gauge != (p.h.CounterResetHint == histogram.GaugeType) {
			t.Errorf("%v: %s: hint %d at %v", mode, short(rs.labels), p.h.CounterResetHint, p)
		}
		explicit := map[string]uint64{"grown": 50, "explicit": 5, "filled": 50} // their counts
		if n, ok := explicit[rs.labels.Get("n")]; ok && mode == samplesMode && n == p.h.Count && p.h.CounterResetHint != histogram.CounterReset {
			t.Errorf("%v: %s: hint %d at %v", mode, short(rs.labels), p.h.CounterResetHint, p)
		}
		if i == 0 || gauge || p.h.CounterResetHint != histogram.NotCounterReset {
			continue
		}
		last := rs.points[i-1]
		if fell(last.h, p.h) {
			t.Errorf("%v: %s: a reset between %v and %v is denied", mode, short(rs.labels), last, p)
		}
	}
}

// fell says whether any bucket of b is below that of a.
func fell(a, b *histogram.Histogram) bool {
	fb := b.ToFloat(nil)
	fb.CounterResetHint = histogram.UnknownCounterReset // or the hint would be believed
	return fb.DetectReset(a.ToFloat(nil))
}

// Floats and histograms of one series come back in the order of their time,
// whatever order and entries they came in.
func TestFloatsAndHistogramsInOneSeries(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		name := func(n string) entry { return series("mixed", "v", v.String(), "n", n) }
		s.store(t, m, v, name("one entry").at(n+1, 1).hist(n+2, intHistogram(2)).at(n+3, 3).fhist(n+4, floatHistogram(4)))
		s.store(t, m, v, name("entries").at(n+1, 1), name("entries").hist(n+2, intHistogram(2)), name("entries").at(n+3, 3), name("entries").fhist(n+4, floatHistogram(4)))
		s.store(t, m, v, name("one time").at(n, 1).hist(n, intHistogram(2)).at(n+1, 1).fhist(n+1, floatHistogram(2)))
		s.store(t, m, v, name("one time, entries").hist(n, intHistogram(2)), name("one time, entries").at(n, 1))
		s.store(t, m, v, name("one time, requests").hist(n, intHistogram(2)))
		s.store(t, m, v, name("one time, requests").at(n, 1))
		s.store(t, m, v, name("one time, requests").at(n+1, 1))
		s.store(t, m, v, name("one time, requests").hist(n+1, intHistogram(2)))
		s.store(t, m, v, name("int and float").hist(n, intHistogram(2)).fhist(n, floatHistogram(3)))
		s.store(t, m, v, name("int and float").fhist(n+1, floatHistogram(3)))
		s.store(t, m, v, name("int and float").hist(n+1, intHistogram(2)))
		s.store(t, m, v, name("int and float").fhist(n+1, intHistogram(2).ToFloat(nil)))
		// Kinds that take turns at one time, the last one stays: alone, before others, behind others.
		for i, turns := range []string{"fhf", "hfh", "fgf", "gfg", "hgh", "fghf", "ghfg", "fhfh", "hfhf", "ffhhff"} {
			for _, where := range []int64{0, -1000, 1000} {
				e := name(fmt.Sprintf("turns %s at %d", turns, where))
				if where != 0 {
					s.store(t, m, v, e.at(n, 9).at(n+500, 8))
				}
				for k, kind := range turns {
					at := n + where
					switch kind {
					case 'f':
						s.store(t, m, v, e.at(at, float64(k)))
					case 'h':
						s.store(t, m, v, e.hist(at, intHistogram(i+k)))
					case 'g':
						s.store(t, m, v, e.fhist(at, floatHistogram(i+k)))
					}
				}
			}
		}
		for i := range int64(20) { // late, of the other kind, between
			s.store(t, m, v, name("late").at(n+i*2*second, 1))
		}
		for i := range int64(20) {
			s.store(t, m, v, name("late").hist(n+i*2*second+second, intHistogram(int(i))))
			s.store(t, m, v, name("late").fhist(n+(i*7%20)*2*second+second/2, floatHistogram(int(i))))
		}
		long := name("long")
		for i := range 600 {
			switch {
			case i%7 == 3:
				long = long.hist(n+int64(i)*second, intHistogram(i))
			case i%150 > 100:
				long = long.fhist(n+int64(i)*second, floatHistogram(i))
			default:
				long = long.at(n+int64(i)*second, float64(i))
			}
		}
		s.store(t, m, v, long)
	})
	s.readBack(t, m)
}
