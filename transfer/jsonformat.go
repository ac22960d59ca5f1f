package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
)

// JSON lines, docs/format/jsonlines.md. A line is an object:
//
//	metric      {name: value}, __name__ among them
//	timestamps  Unix milliseconds
//	values      numbers, as many; "Infinity", "-Infinity", "NaN" (the ordinary one);
//	            null is the stale marker, or the NaN that bits says
//	histograms  instead of values: objects, see jsonHistogram
//	starts      start timestamps, 0 where a sample has none; absent when none has
//	bits        {index: 16 hexadecimal digits}: values that are any other NaN
//
// The first three are VictoriaMetrics's export form.

// ordinaryNaN are the bits of the NaN that arithmetic gives in Prometheus.
const ordinaryNaN = value.NormalNaN

// appendLine appends the line of a run of samples, its newline included.
func appendLine(dst []byte, ls labels.Labels, run *chunkenc.Samples) []byte {
	dst = append(dst, `{"metric":{`...)
	first := true
	ls.Range(func(l labels.Label) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendString(dst, l.Name)
		dst = append(dst, ':')
		dst = appendString(dst, l.Value)
	})
	dst = append(dst, '}')
	if run.Kind == chunkenc.KindFloat {
		dst = appendValues(dst, run.V)
	} else {
		dst = append(dst, `,"histograms":[`...)
		for i := range run.T {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendHistogram(dst, run, i)
		}
		dst = append(dst, ']')
	}
	dst = appendTimes(append(dst, `,"timestamps":`...), run.T)
	for _, st := range run.ST {
		if st != 0 {
			dst = appendTimes(append(dst, `,"starts":`...), run.ST)
			break
		}
	}
	return append(dst, "}\n"...)
}

func appendValues(dst []byte, values []float64) []byte {
	dst = append(dst, `,"values":[`...)
	odd := 0
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		if b := math.Float64bits(v); v != v && b != ordinaryNaN {
			dst = append(dst, "null"...)
			if b != value.StaleNaN {
				odd++
			}
			continue
		}
		dst = appendFloat(dst, v)
	}
	dst = append(dst, ']')
	if odd == 0 {
		return dst
	}
	dst = append(dst, `,"bits":{`...)
	for i, v := range values {
		if b := math.Float64bits(v); v != v && b != ordinaryNaN && b != value.StaleNaN {
			dst = fmt.Appendf(dst, `"%d":"%016x"`, i, b)
			if odd--; odd > 0 {
				dst = append(dst, ',')
			}
		}
	}
	return append(dst, '}')
}

// appendFloat appends a float that reads back to the same bits, NaNs but the ordinary one excepted.
func appendFloat(dst []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	case v != v:
		return append(dst, `"NaN"`...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

func appendTimes(dst []byte, times []int64) []byte {
	dst = append(dst, '[')
	for i, t := range times {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, t, 10)
	}
	return append(dst, ']')
}

// appendString appends a JSON string. s is valid UTF-8, as all labels are.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// jsonHistogram is a histogram as it stands in a line: an integer one has the
// deltas of its buckets, a float one their counts, under the names of the
// remote-write protocol. Spans are pairs: offset, length.
type jsonHistogram struct {
	ResetHint      string      `json:"reset_hint,omitempty"` // see resetHints
	Schema         int32       `json:"schema"`
	ZeroThreshold  jsonFloat   `json:"zero_threshold"`
	Sum            jsonFloat   `json:"sum"`
	Count          *uint64     `json:"count_int,omitempty"`
	ZeroCount      uint64      `json:"zero_count_int,omitempty"`
	FloatCount     *jsonFloat  `json:"count_float,omitempty"`
	FloatZeroCount *jsonFloat  `json:"zero_count_float,omitempty"`
	PositiveSpans  [][2]int64  `json:"positive_spans,omitempty"`
	PositiveDeltas []int64     `json:"positive_deltas,omitempty"`
	PositiveCounts []jsonFloat `json:"positive_counts,omitempty"`
	NegativeSpans  [][2]int64  `json:"negative_spans,omitempty"`
	NegativeDeltas []int64     `json:"negative_deltas,omitempty"`
	NegativeCounts []jsonFloat `json:"negative_counts,omitempty"`
	CustomValues   []jsonFloat `json:"custom_values,omitempty"`
}

// resetHints are the words of hints. Unknown has none, nor has that there was no reset,
// which spoke of the sample that was before for the sender: noReset is read as unknown.
var resetHints = map[histogram.CounterResetHint]string{histogram.CounterReset: "reset", histogram.GaugeType: "gauge"}

const noReset = "no_reset"

// jsonFloat is a float inside a histogram: as in values, but a NaN that is not
// the ordinary one is "NaN:" and 16 hexadecimal digits.
type jsonFloat float64

// MarshalJSON writes the float.
func (f jsonFloat) MarshalJSON() ([]byte, error) {
	v := float64(f)
	if b := math.Float64bits(v); v != v && b != ordinaryNaN {
		return fmt.Appendf(nil, `"NaN:%016x"`, b), nil
	}
	return appendFloat(nil, v), nil
}

// UnmarshalJSON reads the float.
func (f *jsonFloat) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] != '"' {
		v, err := strconv.ParseFloat(string(data), 64)
		if err != nil {
			return fmt.Errorf("%.32q is not a number", data)
		}
		*f = jsonFloat(v)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	const odd = "NaN:"
	if len(text) == len(odd)+16 && text[:len(odd)] == odd {
		b, err := strconv.ParseUint(text[len(odd):], 16, 64)
		if v := math.Float64frombits(b); err != nil || v == v {
			return fmt.Errorf("%q is not a NaN", text)
		}
		*f = jsonFloat(math.Float64frombits(b))
		return nil
	}
	v, ok := specialFloat(text)
	if !ok {
		return fmt.Errorf("%q is not a number", text)
	}
	*f = jsonFloat(v)
	return nil
}

// specialFloat reads what is written as a string, in the spellings that VictoriaMetrics reads.
func specialFloat(s string) (v float64, ok bool) {
	switch s {
	case "infinity", "Infinity", "Inf", "inf":
		return math.Inf(1), true
	case "-infinity", "-Infinity", "-Inf", "-inf":
		return math.Inf(-1), true
	case "nan", "NaN":
		return math.Float64frombits(ordinaryNaN), true
	}
	return 0, false
}

func appendHistogram(dst []byte, run *chunkenc.Samples, i int) []byte {
	var j jsonHistogram
	if run.Kind == chunkenc.KindHistogram {
		h := run.H[i]
		j = jsonHistogram{
			ResetHint: resetHints[h.CounterResetHint], Schema: h.Schema, ZeroThreshold: jsonFloat(h.ZeroThreshold), Sum: jsonFloat(h.Sum),
			Count: &h.Count, ZeroCount: h.ZeroCount, CustomValues: floatsOut(h.CustomValues),
			PositiveSpans: spansOut(h.PositiveSpans), PositiveDeltas: h.PositiveBuckets,
			NegativeSpans: spansOut(h.NegativeSpans), NegativeDeltas: h.NegativeBuckets,
		}
	} else {
		h := run.FH[i]
		count, zero := jsonFloat(h.Count), jsonFloat(h.ZeroCount)
		j = jsonHistogram{
			ResetHint: resetHints[h.CounterResetHint], Schema: h.Schema, ZeroThreshold: jsonFloat(h.ZeroThreshold), Sum: jsonFloat(h.Sum),
			FloatCount: &count, FloatZeroCount: &zero, CustomValues: floatsOut(h.CustomValues),
			PositiveSpans: spansOut(h.PositiveSpans), PositiveCounts: floatsOut(h.PositiveBuckets),
			NegativeSpans: spansOut(h.NegativeSpans), NegativeCounts: floatsOut(h.NegativeBuckets),
		}
	}
	text, err := json.Marshal(j)
	if err != nil {
		panic("BUG: a histogram has no JSON: " + err.Error())
	}
	return append(dst, text...)
}

// build checks the histogram and returns it, exactly one of the two.
func (j *jsonHistogram) build() (*histogram.Histogram, *histogram.FloatHistogram, error) {
	hint, known := histogram.UnknownCounterReset, j.ResetHint == "" || j.ResetHint == noReset
	for k, word := range resetHints {
		if word == j.ResetHint {
			hint, known = k, true
		}
	}
	positive, errP := spansIn(j.PositiveSpans)
	negative, errN := spansIn(j.NegativeSpans)
	switch {
	case !known:
		return nil, nil, fmt.Errorf("reset_hint %q, want reset, no_reset or gauge", j.ResetHint)
	case errP != nil || errN != nil:
		return nil, nil, errors.Join(errP, errN)
	case (j.Count == nil) == (j.FloatCount == nil):
		return nil, nil, errors.New("want one of count_int and count_float")
	}
	if j.Count != nil {
		h := &histogram.Histogram{
			CounterResetHint: hint, Schema: j.Schema, ZeroThreshold: float64(j.ZeroThreshold), Sum: float64(j.Sum),
			Count: *j.Count, ZeroCount: j.ZeroCount, CustomValues: floatsIn(j.CustomValues),
			PositiveSpans: positive, PositiveBuckets: j.PositiveDeltas, NegativeSpans: negative, NegativeBuckets: j.NegativeDeltas,
		}
		return h, nil, head.CheckHistogram(h)
	}
	fh := &histogram.FloatHistogram{
		CounterResetHint: hint, Schema: j.Schema, ZeroThreshold: float64(j.ZeroThreshold), Sum: float64(j.Sum),
		Count: float64(*j.FloatCount), CustomValues: floatsIn(j.CustomValues),
		PositiveSpans: positive, PositiveBuckets: floatsIn(j.PositiveCounts), NegativeSpans: negative, NegativeBuckets: floatsIn(j.NegativeCounts),
	}
	if j.FloatZeroCount != nil {
		fh.ZeroCount = float64(*j.FloatZeroCount)
	}
	return nil, fh, head.CheckFloatHistogram(fh)
}

func floatsOut(list []float64) (out []jsonFloat) {
	for _, v := range list {
		out = append(out, jsonFloat(v))
	}
	return out
}

func floatsIn(list []jsonFloat) (out []float64) {
	for _, v := range list {
		out = append(out, float64(v))
	}
	return out
}

func spansOut(list []histogram.Span) (out [][2]int64) {
	for _, s := range list {
		out = append(out, [2]int64{int64(s.Offset), int64(s.Length)})
	}
	return out
}

func spansIn(list [][2]int64) (out []histogram.Span, err error) {
	for _, s := range list {
		if s[0] != int64(int32(s[0])) || s[1] != int64(uint32(s[1])) {
			return nil, fmt.Errorf("span %v: offset and length of 32 bits wanted", s)
		}
		out = append(out, histogram.Span{Offset: int32(s[0]), Length: uint32(s[1])})
	}
	return out, nil
}
