package head

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
)

// What a sound histogram is, for every road into a directory: a request, a line,
// a block. The rules are those of Prometheus's Validate, and in addition:
//
//   - schemas 9 to 52, which stand for finer buckets than Prometheus keeps, are reduced to 8;
//   - a zero threshold that is NaN, negative or infinite is refused;
//   - of a stale marker only the sum and the hint are kept, as in Prometheus's chunks;
//   - spans of length zero are folded into the offset of the next.

// CheckHistogram says why h cannot be stored, or brings it into the form that is
// stored. Its slices may be shared with others: they are replaced, never changed.
func CheckHistogram(h *histogram.Histogram) error {
	stale := histogram.Histogram{Sum: h.Sum, CounterResetHint: h.CounterResetHint}
	return bring(h, &stale, h.Sum, h.ZeroThreshold, &h.Schema, &h.PositiveSpans, &h.NegativeSpans)
}

// CheckFloatHistogram is CheckHistogram for a float histogram.
func CheckFloatHistogram(h *histogram.FloatHistogram) error {
	stale := histogram.FloatHistogram{Sum: h.Sum, CounterResetHint: h.CounterResetHint}
	return bring(h, &stale, h.Sum, h.ZeroThreshold, &h.Schema, &h.PositiveSpans, &h.NegativeSpans)
}

// either is a histogram of either kind.
type either[H any] interface {
	*H
	Validate() error
	Copy() *H
	ReduceResolution(schema int32) error
}

// bring is the check of a histogram of either kind; stale is what is kept of a stale
// marker, the rest are its fields.
func bring[H any, P either[H]](h, stale P, sum, zeroThreshold float64, schema *int32, positive, negative *[]histogram.Span) error {
	if err := checkHistogram(h, schema, zeroThreshold); err != nil {
		return err
	}
	if value.IsStaleNaN(sum) {
		*h = *stale
		return nil
	}
	if *schema > histogram.ExponentialSchemaMax {
		*h = *h.Copy()
		if err := h.ReduceResolution(histogram.ExponentialSchemaMax); err != nil {
			return err
		}
	}
	*positive, *negative = joinSpans(*positive), joinSpans(*negative)
	return nil
}

// checkHistogram judges h, whose schema and zero threshold are given, and leaves it as it is.
func checkHistogram(h interface{ Validate() error }, schema *int32, zeroThreshold float64) error {
	given := *schema
	switch {
	case given != histogram.CustomBucketsSchema && (given < histogram.ExponentialSchemaMin || given > histogram.ExponentialSchemaMaxReserved):
		return fmt.Errorf("schema %d, want %d to %d, or %d for custom buckets", given,
			histogram.ExponentialSchemaMin, histogram.ExponentialSchemaMaxReserved, histogram.CustomBucketsSchema)
	case math.IsNaN(zeroThreshold) || math.IsInf(zeroThreshold, 0) || zeroThreshold < 0:
		return fmt.Errorf("zero threshold %v, want a finite number that is not negative", zeroThreshold)
	}
	// Validate knows no schema above 8; the rules for buckets are the same there.
	*schema = min(given, histogram.ExponentialSchemaMax)
	err := h.Validate()
	*schema = given
	return err
}

// joinSpans folds spans of length zero into the offset of the next, so that every
// span left has buckets; one whose offset would not fit is left alone.
func joinSpans(spans []histogram.Span) []histogram.Span {
	if !slices.ContainsFunc(spans, func(s histogram.Span) bool { return s.Length == 0 }) {
		return spans
	}
	var out []histogram.Span
	offset := int64(0)
	for i, s := range spans {
		sum := offset + int64(s.Offset)
		if s.Length == 0 && i < len(spans)-1 && fitsWith(sum, spans[i+1].Offset) {
			offset = sum
			continue
		}
		offset = 0
		if s.Length == 0 && i == len(spans)-1 {
			break
		}
		out = append(out, histogram.Span{Offset: int32(sum), Length: s.Length})
	}
	return out
}

func fitsWith(sum int64, offset int32) bool {
	sum += int64(offset)
	return sum == int64(int32(sum))
}
