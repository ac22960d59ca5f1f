package record_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/wal/record"
)

// odd are the bit patterns that a careless codec loses.
var odd = []uint64{
	0, 1, 1 << 63, 0x7ff0000000000002, 0x7ff8000000000001, 0x7ff0000000000000, 0xfff0000000000000,
	0x7ff0000000000001, 0xffffffffffffffff, 0x000fffffffffffff, 0x3ff0000000000000, 0x4059000000000000, 0x00000000000000ff, 0xff00000000000000,
}

func genBits() *rapid.Generator[float64] {
	return rapid.Map(rapid.OneOf(rapid.Uint64(), rapid.SampledFrom(odd)), math.Float64frombits)
}

func genRef() *rapid.Generator[uint64] {
	return rapid.OneOf(rapid.Uint64Range(0, 300), rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, math.MaxUint64, 1 << 63, 1 << 24}))
}

func genTime() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(1e12, 1e12+1e6), rapid.Int64(), rapid.SampledFrom([]int64{0, math.MinInt64, math.MaxInt64, -1}))
}

func genLabels() *rapid.Generator[labels.Labels] {
	return rapid.Custom(func(t *rapid.T) labels.Labels {
		var b labels.ScratchBuilder
		for range rapid.IntRange(0, 5).Draw(t, "labels") {
			b.Add(rapid.StringN(0, 8, 20).Draw(t, "name"), rapid.StringN(0, 300, 400).Draw(t, "value"))
		}
		return b.Labels()
	})
}

func genSpans(t *rapid.T) []histogram.Span {
	var out []histogram.Span
	for range rapid.IntRange(0, 3).Draw(t, "spans") {
		out = append(out, histogram.Span{Offset: rapid.Int32().Draw(t, "offset"), Length: rapid.Uint32().Draw(t, "length")})
	}
	return out
}

func genFloats(t *rapid.T) []float64 {
	out := rapid.SliceOfN(genBits(), 0, 4).Draw(t, "floats")
	if len(out) == 0 {
		return nil
	}
	return out
}

func genInts(t *rapid.T) []int64 {
	out := rapid.SliceOfN(rapid.Int64(), 0, 4).Draw(t, "ints")
	if len(out) == 0 {
		return nil
	}
	return out
}

func genHistogram(t *rapid.T) record.Histogram {
	h := record.Histogram{Ref: genRef().Draw(t, "ref"), T: genTime().Draw(t, "t"), ST: rapid.OneOf(rapid.Just(int64(0)), genTime()).Draw(t, "st")}
	hint := histogram.CounterResetHint(rapid.Byte().Draw(t, "hint"))
	schema := rapid.Int32().Draw(t, "schema")
	if rapid.Bool().Draw(t, "float") {
		h.FH = &histogram.FloatHistogram{
			CounterResetHint: hint, Schema: schema,
			ZeroThreshold: genBits().Draw(t, "zt"), ZeroCount: genBits().Draw(t, "zc"), Count: genBits().Draw(t, "c"), Sum: genBits().Draw(t, "sum"),
			PositiveSpans: genSpans(t), NegativeSpans: genSpans(t), PositiveBuckets: genFloats(t), NegativeBuckets: genFloats(t), CustomValues: genFloats(t),
		}
		return h
	}
	h.H = &histogram.Histogram{
		CounterResetHint: hint, Schema: schema,
		ZeroThreshold: genBits().Draw(t, "zt"), ZeroCount: rapid.Uint64().Draw(t, "zc"), Count: rapid.Uint64().Draw(t, "c"), Sum: genBits().Draw(t, "sum"),
		PositiveSpans: genSpans(t), NegativeSpans: genSpans(t), PositiveBuckets: genInts(t), NegativeBuckets: genInts(t), CustomValues: genFloats(t),
	}
	return h
}

func genBatch(t *rapid.T) *record.Batch {
	b := &record.Batch{}
	for range rapid.IntRange(0, 8).Draw(t, "series") {
		b.Series = append(b.Series, record.Series{Ref: genRef().Draw(t, "ref"), Labels: genLabels().Draw(t, "labels")})
	}
	withST := rapid.Bool().Draw(t, "withST")
	for range rapid.IntRange(0, 20).Draw(t, "floats") {
		b.Floats.Ref = append(b.Floats.Ref, genRef().Draw(t, "ref"))
		b.Floats.T = append(b.Floats.T, genTime().Draw(t, "t"))
		b.Floats.V = append(b.Floats.V, genBits().Draw(t, "v"))
		if withST {
			b.Floats.ST = append(b.Floats.ST, genTime().Draw(t, "st"))
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "histograms") {
		b.Histograms = append(b.Histograms, genHistogram(t))
	}
	for range rapid.IntRange(0, 3).Draw(t, "metadata") {
		s := rapid.String()
		b.Metadata = append(b.Metadata, record.Metadata{Family: s.Draw(t, "family"), Type: model.MetricType(s.Draw(t, "type")), Unit: s.Draw(t, "unit"), Help: s.Draw(t, "help")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "exemplars") {
		b.Exemplars = append(b.Exemplars, record.Exemplar{Ref: genRef().Draw(t, "ref"), T: genTime().Draw(t, "t"), V: genBits().Draw(t, "v"), Labels: genLabels().Draw(t, "labels")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "deletes") {
		d := record.Delete{MinT: genTime().Draw(t, "from"), MaxT: genTime().Draw(t, "to")}
		for range rapid.IntRange(0, 3).Draw(t, "matchers") {
			d.Matchers = append(d.Matchers, record.Matcher{
				Type: labels.MatchType(rapid.IntRange(0, 3).Draw(t, "type")),
				Name: rapid.String().Draw(t, "name"), Value: string(rapid.SliceOf(rapid.Byte()).Draw(t, "value")),
			})
		}
		b.Deletes = append(b.Deletes, d)
	}
	return b
}

// same compares batches bit by bit.
func same(got, want *record.Batch) error {
	if g, w := text(got), text(want); g != w {
		return fmt.Errorf("got\n%s\nwant\n%s", g, w)
	}
	return nil
}

// text writes every field, floats as bits.
func text(b *record.Batch) string {
	s := ""
	for _, x := range b.Series {
		s += fmt.Sprintf("series %d %q\n", x.Ref, x.Labels.String())
	}
	for i := range b.Floats.Ref {
		s += fmt.Sprintf("float %d %d %x\n", b.Floats.Ref[i], b.Floats.T[i], math.Float64bits(b.Floats.V[i]))
	}
	s += fmt.Sprintln("st", b.Floats.ST)
	for _, x := range b.Histograms {
		s += fmt.Sprintf("histogram %d %d %d", x.Ref, x.T, x.ST)
		if x.H != nil {
			s += bitsOf(reflect.ValueOf(*x.H))
		}
		if x.FH != nil {
			s += bitsOf(reflect.ValueOf(*x.FH))
		}
		s += "\n"
	}
	for _, x := range b.Metadata {
		s += fmt.Sprintf("metadata %q\n", []string{x.Family, string(x.Type), x.Unit, x.Help})
	}
	for _, x := range b.Exemplars {
		s += fmt.Sprintf("exemplar %d %d %x %q\n", x.Ref, x.T, math.Float64bits(x.V), x.Labels.String())
	}
	for _, x := range b.Deletes {
		s += fmt.Sprintf("delete %d %d %q\n", x.MinT, x.MaxT, fmt.Sprint(x.Matchers))
	}
	return s
}

func bitsOf(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Struct:
		s := " {"
		for i := range v.NumField() {
			s += bitsOf(v.Field(i))
		}
		return s + "}"
	case reflect.Slice:
		s := fmt.Sprintf(" %d[", v.Len())
		for i := range v.Len() {
			s += bitsOf(v.Index(i))
		}
		return s + "]"
	case reflect.Float64:
		return fmt.Sprintf(" %x", math.Float64bits(v.Float()))
	}
	return fmt.Sprintf(" %v", v)
}

func TestRoundTrip(t *testing.T) {
	var got record.Batch // reused: nothing of one batch may show in the next
	rapid.Check(t, func(t *rapid.T) {
		want := genBatch(t)
		prefix := []byte("prefix")
		enc := record.Append(prefix, want)
		if string(enc[:len(prefix)]) != "prefix" {
			t.Fatalf("Append changed what stood in dst")
		}
		if err := record.Decode(&got, enc[len(prefix):]); err != nil {
			t.Fatal(err)
		}
		if err := same(&got, want); err != nil {
			t.Fatal(err)
		}
	})
}

// typical is a batch of one scrape interval: n series in the order of their refs,
// targets of 200 series each with a time of their own.
func typical(n int, value func(i int) float64) *record.Batch {
	b := &record.Batch{}
	for i := range n {
		b.Floats.Ref = append(b.Floats.Ref, uint64(70_000+i))
		b.Floats.T = append(b.Floats.T, 1_700_000_000_000+int64(i/200)*137)
		b.Floats.V = append(b.Floats.V, value(i))
	}
	return b
}

func TestSize(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	tests := []struct {
		name  string
		value func(int) float64
		most  float64 // bytes a sample
	}{
		{"random bits", func(int) float64 { return math.Float64frombits(rnd.Uint64()) }, 9.1},
		{"counters below a million", func(i int) float64 { return float64(rnd.IntN(1_000_000)) }, 5.1},
		{"zeros", func(int) float64 { return 0 }, 1.1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := float64(len(record.Append(nil, typical(2000, test.value)))) / 2000
			t.Logf("%.2f bytes a sample", got)
			if got > test.most {
				t.Errorf("got %.2f bytes a sample, want at most %.2f", got, test.most)
			}
		})
	}
}
