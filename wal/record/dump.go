package record

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/prometheus/prometheus/model/histogram"
)

var kindNames = map[byte]string{
	kindSeries: "series", kindFloats: "floats", kindHistograms: "histograms", kindMetadata: "metadata", kindExemplars: "exemplars",
	kindDeletes: "deletes",
}

// Dump prints a payload record by record, field by field, one item a line. It
// goes on past a record that cannot be decoded, says so in its place, and returns the
// first error of the payload, or that of w.
func Dump(w io.Writer, src []byte) error {
	var first error
	var b Batch
	note := func(err error) error {
		if first == nil {
			first = err
		}
		_, werr := fmt.Fprintf(w, "    damage: %v\n", err)
		return werr
	}
	var werr error
	err := each(src, func(kind byte, off int, body []byte) error {
		packed := ""
		if kind == kindSeries && len(body) > 0 && body[0]&flagSnappy != 0 {
			packed = ", one snappy block"
		}
		at := off - recordHeaderSize
		if _, werr = fmt.Fprintf(w, "  record at %d: kind %d (%s), len %d%s\n", at, kind, kindNames[kind], len(body), packed); werr != nil {
			return werr
		}
		b.Reset()
		if err := decodeInto(&b, kind, off, body); err != nil {
			werr = note(err)
			return werr
		}
		werr = b.dump(w)
		return werr
	})
	if werr == nil && err != nil {
		werr = note(err)
	}
	if werr != nil {
		return werr
	}
	return first
}

// dump prints what b holds.
func (b *Batch) dump(w io.Writer) error {
	var err error
	print := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, "    "+format+"\n", args...)
		}
	}
	for _, s := range b.Series {
		print("ref %d labels %s", s.Ref, s.Labels)
	}
	f := &b.Floats
	for i := range f.Ref {
		st := int64(0)
		if len(f.ST) > 0 {
			st = f.ST[i]
		}
		print("ref %d t %d st %d v %s", f.Ref[i], f.T[i], st, number(f.V[i]))
	}
	for _, h := range b.Histograms {
		if h.FH != nil {
			print("ref %d t %d st %d float %s", h.Ref, h.T, h.ST, floatHistogramText(h.FH))
		} else {
			print("ref %d t %d st %d int %s", h.Ref, h.T, h.ST, histogramText(h.H))
		}
	}
	for _, m := range b.Metadata {
		print("family %q type %q unit %q help %q", m.Family, m.Type, m.Unit, m.Help)
	}
	for _, e := range b.Exemplars {
		print("ref %d t %d v %s labels %s", e.Ref, e.T, number(e.V), e.Labels)
	}
	for _, d := range b.Deletes {
		print("from %d to %d matchers %s", d.MinT, d.MaxT, matchersText(d.Matchers))
	}
	return err
}

func matchersText(ms []Matcher) string {
	parts := make([]string, len(ms))
	for i, m := range ms {
		parts[i] = fmt.Sprintf("%s%s%q", m.Name, m.Type, m.Value)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// number prints a float and its bits, which tell NaNs and zeros apart.
func number(v float64) string { return fmt.Sprintf("%v (0x%016x)", v, math.Float64bits(v)) }

func histogramText(h *histogram.Histogram) string {
	return fmt.Sprintf("hint %d schema %d zero_threshold %s zero_count %d count %d sum %s spans %v %v buckets %v %v custom %v",
		h.CounterResetHint, h.Schema, number(h.ZeroThreshold), h.ZeroCount, h.Count, number(h.Sum),
		h.PositiveSpans, h.NegativeSpans, h.PositiveBuckets, h.NegativeBuckets, h.CustomValues)
}

func floatHistogramText(h *histogram.FloatHistogram) string {
	return fmt.Sprintf("hint %d schema %d zero_threshold %s zero_count %s count %s sum %s spans %v %v buckets %v %v custom %v",
		h.CounterResetHint, h.Schema, number(h.ZeroThreshold), number(h.ZeroCount), number(h.Count), number(h.Sum),
		h.PositiveSpans, h.NegativeSpans, h.PositiveBuckets, h.NegativeBuckets, h.CustomValues)
}
