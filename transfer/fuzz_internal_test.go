package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/ooo"
)

// FuzzJSONLine parses any line: what is taken is JSON to the standard library
// too, its parts belong together, and written again it reads the same.
func FuzzJSONLine(f *testing.F) {
	gauge := tsdbutil.GenerateTestGaugeHistogram(3)
	runs := []chunkenc.Samples{
		{T: []int64{1, 2, math.MaxInt64}, V: []float64{1, math.Inf(-1), math.NaN()}, ST: []int64{0, 5, -1}},
		{T: []int64{-5, 7, 8}, V: []float64{math.Float64frombits(value.StaleNaN), math.Float64frombits(0xfff8dead0000beef), 1e-300}},
		{Kind: chunkenc.KindHistogram, T: []int64{1, 2}, H: []*histogram.Histogram{gauge, {Sum: math.Float64frombits(value.StaleNaN)}}},
		{Kind: chunkenc.KindFloatHistogram, T: []int64{1}, FH: []*histogram.FloatHistogram{tsdbutil.GenerateTestCustomBucketsFloatHistogram(2)}},
	}
	for i := range runs {
		f.Add(appendLine(nil, labels.FromStrings("__name__", "m", "a\"\n", "\\\x01ü"), &runs[i]))
	}
	f.Add([]byte(`{ "metric" : {"__name__":"up","j\u006fb":"x\/\ud83d\ude00"}, "values":[1e3,-0,"Inf",null], "timestamps":[1,2,3,4], "x":[{"y":[true]}] }`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var p jsonParser
		var got jsonLine
		if bytes.ContainsRune(line, '\n') || p.parse(bytes.TrimSuffix(line, []byte("\n")), &got) != nil {
			return
		}
		if n := len(got.t); len(got.v)+len(got.h) != n || len(got.st) != 0 && len(got.st) != n || len(got.h) != len(got.fh) {
			t.Fatalf("%d times, %d values, %d histograms, %d starts", n, len(got.v), len(got.h), len(got.st))
		}
		if !json.Valid(line) {
			t.Fatalf("%q is taken and is no JSON", line)
		}
		ls, err := head.Canonical(got.labels, limits)
		if err != nil || len(got.t) == 0 {
			return
		}
		for _, run := range runsOf(&got) {
			again := appendLine(nil, ls, &run)
			if !json.Valid(again) {
				t.Fatalf("%q is written and is no JSON", again)
			}
			var back jsonLine
			if err := p.parse(bytes.TrimSuffix(again, []byte("\n")), &back); err != nil {
				t.Fatalf("%q: %v", again, err)
			}
			lines := runsOf(&back)
			if len(lines) != 1 || !sameRun(&run, &lines[0]) {
				t.Fatalf("%q reads as %+v, want %+v", again, lines, run)
			}
			if proper, err := head.Canonical(back.labels, limits); err != nil || !labels.Equal(proper, ls) {
				t.Fatalf("%v reads as %v, %v", ls, proper, err)
			}
		}
	})
}

// runsOf returns the samples of a line as runs of one kind.
func runsOf(l *jsonLine) (out []chunkenc.Samples) {
	start := func(i int) []int64 {
		if len(l.st) == 0 {
			return nil
		}
		return l.st[i : i+1]
	}
	if len(l.v) > 0 {
		return []chunkenc.Samples{{T: l.t, V: l.v, ST: l.st}}
	}
	for i := range l.h {
		if l.h[i] != nil {
			out = append(out, chunkenc.Samples{Kind: chunkenc.KindHistogram, T: l.t[i : i+1], ST: start(i), H: l.h[i : i+1]})
		} else {
			out = append(out, chunkenc.Samples{Kind: chunkenc.KindFloatHistogram, T: l.t[i : i+1], ST: start(i), FH: l.fh[i : i+1]})
		}
	}
	return out
}

func sameRun(a, b *chunkenc.Samples) bool {
	some := func(st []int64) []int64 {
		if slices.ContainsFunc(st, func(t int64) bool { return t != 0 }) {
			return st
		}
		return nil
	}
	if a.Kind != b.Kind || !slices.Equal(a.T, b.T) || !slices.Equal(some(a.ST), some(b.ST)) {
		return false
	}
	for i := range a.T {
		switch a.Kind {
		case chunkenc.KindFloat:
			if math.Float64bits(a.V[i]) != math.Float64bits(b.V[i]) {
				return false
			}
		case chunkenc.KindHistogram:
			if !a.H[i].Equals(b.H[i]) || a.H[i].CounterResetHint != b.H[i].CounterResetHint {
				return false
			}
		default:
			if !a.FH[i].Equals(b.FH[i]) || a.FH[i].CounterResetHint != b.FH[i].CounterResetHint {
				return false
			}
		}
	}
	return true
}

// FuzzOpenMetrics imports any text: it never fails as a whole, and of a text
// that Prometheus's parser takes to its end, every sample is taken.
func FuzzOpenMetrics(f *testing.F) {
	f.Add("# TYPE a counter\na_total{b=\"c\\n\"} 1 2\na_total 1 2.0005 # {x=\"y\"} 1\n# EOF\n")
	f.Add("# TYPE h histogram\nh_bucket{le=\"1\"} 1 2\nbad\nh_bucket{le=\"2\"} 1 2\n{\"a b\",c=\"\"} NaN -1\n# EOF\n")
	f.Add("# HELP a \\n\n# UNIT a_s s\na 1\n\n{\"a\nb\"} 1 1\n# EOF\nmore")
	f.Fuzz(func(t *testing.T, text string) {
		whole := func(int64) (int64, int64) { return math.MinInt64, math.MaxInt64 }
		s, err := newSpill(os.TempDir(), 1<<12, whole) // it leaves nothing there
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		g := gate{oldest: math.MinInt64, newest: math.MaxInt64, from: math.MinInt64, to: math.MaxInt64, say: func(string) {}}
		c := collector{gate: &g, adder: newAdder(labels.EmptyLabels()), spill: s, known: map[string]uint32{}}
		if err := c.openMetrics(context.Background(), bufio.NewReaderSize(strings.NewReader(text), 16), "text"); err != nil {
			t.Fatal(err)
		}
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		read := uint64(0)
		err = walk(s.cursors(math.MinInt64), func(ls labels.Labels, layers []ooo.Layer) error {
			var stack ooo.Stack
			return stack.Read(layers, math.MinInt64, math.MaxInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
				read += uint64(run.Len())
				return nil
			})
		})
		if err != nil || read > g.read || g.read > 0 && read == 0 {
			t.Fatalf("%d samples of %d, %v", read, g.read, err)
		}
		want, clean := promSamples(text)
		if clean && (g.bad > 0 || g.read != want) {
			t.Fatalf("%d samples, %d refused, want %d", g.read, g.bad, want)
		}
	})
}

// promSamples counts the samples that Prometheus's parser finds; clean is false
// when it ends early, or finds one that rwsink refuses for another reason.
func promSamples(text string) (n uint64, clean bool) {
	p := textparse.NewOpenMetricsParser([]byte(text), labels.NewSymbolTable())
	for {
		entry, err := p.Next()
		if err == io.EOF {
			// To the parser a NUL byte behind the last line is the end of the text.
			return n, !strings.Contains(text, "\r") && !strings.Contains(text, "# EOF\x00")
		}
		if err != nil {
			return n, false
		}
		if entry != textparse.EntrySeries {
			continue
		}
		series, ts, _ := p.Series()
		var ls labels.Labels
		p.Labels(&ls)
		if ts == nil || bytes.ContainsRune(series, '\n') || ls.IsEmpty() {
			return n, false
		}
		if _, twice := ls.HasDuplicateLabelNames(); twice {
			return n, false
		}
		if math.Abs(float64(*ts)) > 1e17 {
			return n, false
		}
		empty := false
		ls.Range(func(l labels.Label) { empty = empty || l.Name == "" || l.Name == labels.MetricName && l.Value == "" })
		if empty {
			return n, false
		}
		n++
	}
}

// TestNoResetIsNotWritten: that a counter was not reset is not said of a sample that
// another one may have come to stand before; it is read all the same.
func TestNoResetIsNotWritten(t *testing.T) {
	for hint, want := range map[histogram.CounterResetHint]string{
		histogram.UnknownCounterReset: "", histogram.NotCounterReset: "", histogram.CounterReset: `"reset"`, histogram.GaugeType: `"gauge"`,
	} {
		for _, run := range []chunkenc.Samples{
			{Kind: chunkenc.KindHistogram, T: []int64{1}, H: []*histogram.Histogram{{CounterResetHint: hint}}},
			{Kind: chunkenc.KindFloatHistogram, T: []int64{1}, FH: []*histogram.FloatHistogram{{CounterResetHint: hint}}},
		} {
			text := string(appendHistogram(nil, &run, 0))
			if got := strings.Contains(text, "reset_hint"); got != (want != "") || !strings.Contains(text, want) {
				t.Errorf("hint %d is written as %s, want %s", hint, text, want)
			}
		}
	}
}
