package ooo_test

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// event is one sample as the model sees it.
type event struct {
	t, st int64
	v     float64
	h     *histogram.Histogram
	fh    *histogram.FloatHistogram
}

func (e event) kind() chunkenc.Kind {
	switch {
	case e.h != nil:
		return chunkenc.KindHistogram
	case e.fh != nil:
		return chunkenc.KindFloatHistogram
	default:
		return chunkenc.KindFloat
	}
}

func (e event) stale() bool {
	v := e.v
	if e.h != nil {
		v = e.h.Sum
	} else if e.fh != nil {
		v = e.fh.Sum
	}
	return math.Float64bits(v) == value.StaleNaN
}

func (e event) hint() histogram.CounterResetHint {
	switch {
	case e.h != nil:
		return e.h.CounterResetHint
	case e.fh != nil:
		return e.fh.CounterResetHint
	default:
		return histogram.UnknownCounterReset
	}
}

func (e event) add(b *ooo.Buffer) {
	if e.h != nil || e.fh != nil {
		b.Histogram(e.t, e.st, e.h, e.fh)
	} else {
		b.Float(e.t, e.st, e.v)
	}
}

// val names the value of e; two events are equal when their names are. It knows
// nothing of how the package compares.
func (e event) val() string {
	switch {
	case e.stale():
		return fmt.Sprintf("stale %d", e.kind())
	case e.h != nil:
		return name("int", e.h.ToFloat(nil), fmt.Sprint(e.h.Count, e.h.ZeroCount))
	case e.fh != nil:
		return name("float", e.fh, fmt.Sprint(math.Float64bits(e.fh.Count), math.Float64bits(e.fh.ZeroCount)))
	default:
		return fmt.Sprintf("%#x", math.Float64bits(e.v))
	}
}

// name writes down a histogram bucket by bucket, empty ones left out.
func name(kind string, h *histogram.FloatHistogram, counts string) string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s %d %v %s %#x", kind, h.Schema, h.ZeroThreshold, counts, math.Float64bits(h.Sum))
	if h.Schema == histogram.CustomBucketsSchema {
		fmt.Fprint(&sb, h.CustomValues)
	}
	side := func(spans []histogram.Span, counts []float64) {
		at, k := int32(0), 0
		for _, s := range spans {
			at += s.Offset
			for range s.Length {
				if counts[k] != 0 {
					fmt.Fprintf(&sb, " %d:%#x", at, math.Float64bits(counts[k]))
				}
				at, k = at+1, k+1
			}
		}
		sb.WriteString(" |")
	}
	side(h.PositiveSpans, h.PositiveBuckets)
	side(h.NegativeSpans, h.NegativeBuckets)
	return sb.String()
}

func (e event) String() string { return fmt.Sprintf("%d/%d:%s hint %d", e.t, e.st, e.val(), e.hint()) }

// model is the naive store: all arrivals of a timestamp in their order.
type model map[int64][]event

func (m model) arrive(events ...event) {
	for _, e := range events {
		m[e.t] = append(m[e.t], e)
	}
}

// winner is the last number, without one the last stale marker.
func winner(arrivals []event) event {
	for _, e := range slices.Backward(arrivals) {
		if !e.stale() {
			return e
		}
	}
	return arrivals[len(arrivals)-1]
}

// standing is the arrival that stands in the end: the winner, or of those that are
// equal to it and came one after the other the first.
func standing(arrivals []event) event {
	now := arrivals[0]
	for i := range arrivals {
		if w := winner(arrivals[:i+1]); w.val() != now.val() || w.st != now.st {
			now = w
		}
	}
	return now
}

// answer returns what stands in order of time and the counts.
func (m model) answer() ([]event, ooo.Stats) {
	var out []event
	var st ooo.Stats
	for _, arrivals := range m {
		out = append(out, standing(arrivals))
		for i := 1; i < len(arrivals); i++ {
			before, now := winner(arrivals[:i]), arrivals[i]
			if before.val() == now.val() && before.st == now.st {
				st.Duplicates++
			} else {
				st.Overwritten++
			}
		}
	}
	slices.SortFunc(out, func(a, b event) int {
		if a.t < b.t {
			return -1
		}
		return 1
	})
	return out, st
}

// runsOf cuts ascending events into runs of one kind, also where cut says so.
func runsOf(events []event, cut func(event) bool) []*chunkenc.Samples {
	var runs []*chunkenc.Samples
	var r *chunkenc.Samples
	for _, e := range events {
		if r == nil || r.Kind != e.kind() || cut(e) {
			r = &chunkenc.Samples{Kind: e.kind()}
			runs = append(runs, r)
		}
		if e.st != 0 || len(r.ST) > 0 {
			for len(r.ST) < len(r.T) {
				r.ST = append(r.ST, 0)
			}
			r.ST = append(r.ST, e.st)
		}
		r.T = append(r.T, e.t)
		switch r.Kind {
		case chunkenc.KindFloat:
			r.V = append(r.V, e.v)
		case chunkenc.KindHistogram:
			r.H = append(r.H, e.h)
		case chunkenc.KindFloatHistogram:
			r.FH = append(r.FH, e.fh)
		}
	}
	return runs
}

// eventsOf reads runs back.
func eventsOf(runs []*chunkenc.Samples) []event {
	var out []event
	for _, r := range runs {
		for i, t := range r.T {
			e := event{t: t}
			if len(r.ST) > 0 {
				e.st = r.ST[i]
			}
			switch r.Kind {
			case chunkenc.KindFloat:
				e.v = r.V[i]
			case chunkenc.KindHistogram:
				e.h = r.H[i]
			case chunkenc.KindFloatHistogram:
				e.fh = r.FH[i]
			}
			out = append(out, e)
		}
	}
	return out
}

// wellFormed says what is wrong with the shape of runs.
func wellFormed(runs []*chunkenc.Samples) error {
	for k, r := range runs {
		n := r.Len()
		if n == 0 {
			return fmt.Errorf("run %d is empty", k)
		}
		lens := map[chunkenc.Kind]int{chunkenc.KindFloat: len(r.V), chunkenc.KindHistogram: len(r.H), chunkenc.KindFloatHistogram: len(r.FH)}
		for kind, got := range lens {
			if want := n; kind == r.Kind && got != want || kind != r.Kind && got != 0 {
				return fmt.Errorf("run %d of kind %d: column %d has %d cells, %d times", k, r.Kind, kind, got, n)
			}
		}
		if len(r.ST) != 0 && (len(r.ST) != n || !slices.ContainsFunc(r.ST, func(st int64) bool { return st != 0 })) {
			return fmt.Errorf("run %d: start column %v of %d samples", k, r.ST, n)
		}
		for i := 1; i < n; i++ {
			if r.T[i] <= r.T[i-1] {
				return fmt.Errorf("run %d: time %d after %d", k, r.T[i], r.T[i-1])
			}
		}
		if k > 0 && runs[k-1].Kind == r.Kind {
			return fmt.Errorf("runs %d and %d are both of kind %d", k-1, k, r.Kind)
		}
		if k > 0 && runs[k-1].T[runs[k-1].Len()-1] >= r.T[0] {
			return fmt.Errorf("run %d begins before run %d ends", k, k-1)
		}
	}
	return nil
}

var stale = math.Float64frombits(value.StaleNaN)

// floats are the values that tell the rule's cases apart.
var floats = []float64{0, math.Copysign(0, -1), 1, 2, math.Inf(1), math.Float64frombits(value.NormalNaN),
	math.Float64frombits(0x7ff8000000000abc), math.Float64frombits(value.StaleNaN | 1<<63), stale, stale}

var hints = []histogram.CounterResetHint{histogram.UnknownCounterReset, histogram.CounterReset, histogram.NotCounterReset, histogram.GaugeType}

// drawEvent draws a sample at t of one of kinds; few values, so that equal ones are frequent.
func drawEvent(t *rapid.T, at int64, kinds []chunkenc.Kind, starts bool) event {
	e := event{t: at}
	if starts {
		e.st = rapid.SampledFrom([]int64{0, 0, 5, -7}).Draw(t, "st")
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	if kind == chunkenc.KindFloat {
		e.v = rapid.SampledFrom(floats).Draw(t, "v")
		return e
	}
	h := drawHistogram(t)
	if kind == chunkenc.KindHistogram {
		e.h = h
	} else {
		e.fh = h.ToFloat(nil)
		if rapid.Bool().Draw(t, "broken") {
			e.fh.Count += 0.5
		}
	}
	return e
}

func drawHistogram(t *rapid.T) *histogram.Histogram {
	n := rapid.Int64Range(0, 2).Draw(t, "n")
	h := &histogram.Histogram{
		CounterResetHint: rapid.SampledFrom(hints).Draw(t, "hint"),
		Count:            uint64(2*n + 4), Sum: float64(n),
		PositiveSpans:   []histogram.Span{{Offset: -1, Length: 2}},
		PositiveBuckets: []int64{n + 1, 0},
	}
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0: // an empty bucket behind, an empty span before
		h.PositiveSpans = []histogram.Span{{Offset: -3, Length: 0}, {Offset: 2, Length: 3}}
		h.PositiveBuckets = []int64{n + 1, 0, -n - 1}
	case 1: // the same counts elsewhere
		h.PositiveSpans = []histogram.Span{{Offset: -1, Length: 1}, {Offset: 1, Length: 1}}
	case 2: // the negative side
		h.NegativeSpans, h.PositiveSpans = h.PositiveSpans, nil
		h.NegativeBuckets, h.PositiveBuckets = h.PositiveBuckets, nil
	case 3:
		h.Schema, h.CustomValues = histogram.CustomBucketsSchema, []float64{1, rapid.SampledFrom([]float64{2, 2, 3}).Draw(t, "bound")}
		h.PositiveSpans[0].Offset = 0
	case 4:
		h.Sum = stale
	}
	return h
}

// drawTime draws from few times, the ends of int64 among them.
func drawTime(t *rapid.T) int64 {
	if rapid.IntRange(0, 30).Draw(t, "end") == 30 {
		return rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}).Draw(t, "t")
	}
	return rapid.Int64Range(-20, 60).Draw(t, "t")
}

// drawBase draws ascending events.
func drawBase(t *rapid.T, kinds []chunkenc.Kind, starts bool) []event {
	times := rapid.SliceOfNDistinct(rapid.Custom(drawTime), 0, 40, rapid.ID[int64]).Draw(t, "base")
	slices.Sort(times)
	out := make([]event, len(times))
	for i, at := range times {
		out[i] = drawEvent(t, at, kinds, starts)
	}
	return out
}

// drawLate draws events in any order.
func drawLate(t *rapid.T, kinds []chunkenc.Kind, starts bool) []event {
	out := make([]event, rapid.IntRange(0, 60).Draw(t, "late"))
	for i := range out {
		out[i] = drawEvent(t, drawTime(t), kinds, starts)
	}
	return out
}

// drawShape draws what a series holds: most are floats, some anything.
func drawShape(t *rapid.T) (kinds []chunkenc.Kind, starts bool) {
	kinds = rapid.SampledFrom([][]chunkenc.Kind{
		{chunkenc.KindFloat},
		{chunkenc.KindHistogram},
		{chunkenc.KindFloatHistogram},
		{chunkenc.KindFloat, chunkenc.KindFloat, chunkenc.KindHistogram, chunkenc.KindFloatHistogram},
	}).Draw(t, "kinds")
	return kinds, rapid.IntRange(0, 3).Draw(t, "starts") == 0
}

func bufferOf(events []event) *ooo.Buffer {
	b := new(ooo.Buffer)
	for _, e := range events {
		e.add(b)
	}
	return b
}
