package receiver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/head"
)

// rawHistogram is a Histogram message of either version as it stands on the
// wire, in memory that the next one reuses.
type rawHistogram struct {
	count, zeroCount rawCount
	sum              float64
	schema           int64
	zeroThreshold    float64
	negative         rawSide
	positive         rawSide
	customValues     []float64
	hint             uint64
	t, st            int64
	v2               bool   // of protocol 2.0
	bad              string // why the numbers are out of their type's range, or ""
}

// rawCount is a oneof: the alternative that stands last counts.
type rawCount struct {
	isFloat bool
	i       uint64
	f       float64
}

// rawSide are the buckets of one sign: deltas of integer, counts of float histograms.
type rawSide struct {
	spans  []histogram.Span
	deltas []int64
	counts []float64
}

func (s *rawSide) reset() {
	s.spans, s.deltas, s.counts = s.spans[:0], s.deltas[:0], s.counts[:0]
}

// decode reads the message from p to the end of b; v2 says that it is of 2.0, where
// field 17 is a start timestamp.
func (r *rawHistogram) decode(b []byte, p int, v2 bool) error {
	r.negative.reset()
	r.positive.reset()
	*r = rawHistogram{negative: r.negative, positive: r.positive, customValues: r.customValues[:0], v2: v2}
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		var err error
		switch {
		case num >= 8 && num <= 13 || num == 16:
			q, err = r.repeated(b, q, wt, num)
		case num == 17 && !v2:
			q = skip(b, q, wt)
		default:
			q = r.scalar(b, q, wt, num)
		}
		if err != nil {
			return err
		}
		if q < 0 {
			return fault(q, msgHistogram, num, at)
		}
		p = q
	}
	return nil
}

// scalar reads field num if it is a scalar, and skips it otherwise.
func (r *rawHistogram) scalar(b []byte, p, wt int, num uint32) int {
	var u uint64
	switch num {
	case 2, 3, 5, 7:
		u, p = fixed64Field(b, p, wt)
	case 1, 4, 6, 14, 15, 17:
		u, p = varintField(b, p, wt)
	default:
		return skip(b, p, wt)
	}
	if p < 0 {
		return p
	}
	switch num {
	case 1:
		r.count = rawCount{i: u}
	case 2:
		r.count = rawCount{isFloat: true, f: math.Float64frombits(u)}
	case 3:
		r.sum = math.Float64frombits(u)
	case 4:
		r.schema = unzigzag(u)
	case 5:
		r.zeroThreshold = math.Float64frombits(u)
	case 6:
		r.zeroCount = rawCount{i: u}
	case 7:
		r.zeroCount = rawCount{isFloat: true, f: math.Float64frombits(u)}
	case 14:
		r.hint = u
	case 15:
		r.t = int64(u)
	case 17:
		r.st = int64(u)
	}
	return p
}

// repeated reads one of the repeated fields. A fault is returned in next.
func (r *rawHistogram) repeated(b []byte, p, wt int, num uint32) (next int, err error) {
	side := &r.positive
	if num <= 10 {
		side = &r.negative
	}
	switch num {
	case 8, 11:
		from, end := bytesField(b, p, wt)
		if end < 0 {
			return end, nil
		}
		return end, r.span(side, b[:end], from)
	case 9, 12:
		side.deltas, p = r.packedZigzag(side.deltas, b, p, wt)
	case 10, 13:
		side.counts, p = r.packedDoubles(side.counts, b, p, wt)
	default:
		r.customValues, p = r.packedDoubles(r.customValues, b, p, wt)
	}
	return p, nil
}

// tooManyBuckets notes that a list reached its bound; what follows is not kept.
func (r *rawHistogram) tooManyBuckets(n int) bool {
	if n < maxBuckets {
		return false
	}
	r.bad = "more than " + strconv.Itoa(maxBuckets) + " spans, buckets or bounds"
	return true
}

// span reads a BucketSpan from p to the end of b.
func (r *rawHistogram) span(side *rawSide, b []byte, p int) error {
	var offset int64
	var length uint64
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		switch num {
		case 1:
			var u uint64
			u, q = varintField(b, q, wt)
			offset = unzigzag(u)
		case 2:
			length, q = varintField(b, q, wt)
		default:
			q = skip(b, q, wt)
		}
		if q < 0 {
			return fault(q, msgSpan, num, at)
		}
		p = q
	}
	if r.tooManyBuckets(len(side.spans)) {
		return nil
	}
	if offset != int64(int32(offset)) || length > math.MaxUint32 {
		r.bad = fmt.Sprintf("span with offset %d and length %d, beyond 32 bits", offset, length)
		return nil
	}
	side.spans = append(side.spans, histogram.Span{Offset: int32(offset), Length: uint32(length)})
	return nil
}

// packedZigzag reads sint64 values, packed or single.
func (r *rawHistogram) packedZigzag(dst []int64, b []byte, p, wt int) ([]int64, int) {
	if wt == wtVarint {
		u, next := uvarint(b, p)
		if next >= 0 && !r.tooManyBuckets(len(dst)) {
			dst = append(dst, unzigzag(u))
		}
		return dst, next
	}
	from, end := bytesField(b, p, wt)
	for p = from; p < end; {
		var u uint64
		if u, p = uvarint(b[:end], p); p < 0 {
			if p == faultTruncated {
				p = faultPacked
			}
			return dst, p
		}
		if !r.tooManyBuckets(len(dst)) {
			dst = append(dst, unzigzag(u))
		}
	}
	return dst, end
}

// packedDoubles reads double values, packed or single.
func (r *rawHistogram) packedDoubles(dst []float64, b []byte, p, wt int) ([]float64, int) {
	from, end := p, p
	if wt == wtFixed64 {
		end = advance(b, p, 8)
	} else if from, end = bytesField(b, p, wt); end >= 0 && (end-from)%8 != 0 {
		return dst, faultPacked
	}
	for p = from; p < end; p += 8 {
		if !r.tooManyBuckets(len(dst)) {
			dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(b[p:])))
		}
	}
	return dst, end
}

// build returns the histogram as an object of its own, exactly one of the two: an
// integer histogram unless count_float is set. The rules are those of package head,
// and one more: custom buckets without bounds are refused in 1.0, where older
// senders leave the field out: nothing says what their counts mean. In 2.0 there
// is one bucket then, up to +Inf, which is what Prometheus makes of a classic
// histogram of that bucket alone.
func (r *rawHistogram) build() (*histogram.Histogram, *histogram.FloatHistogram, error) {
	if err := r.check(); err != nil {
		return nil, nil, err
	}
	if r.count.isFloat {
		fh := &histogram.FloatHistogram{
			CounterResetHint: r.resetHint(), Schema: int32(r.schema),
			ZeroThreshold: r.zeroThreshold, ZeroCount: r.zeroCount.f, Count: r.count.f, Sum: r.sum,
			PositiveSpans: clone(r.positive.spans), PositiveBuckets: clone(r.positive.counts),
			NegativeSpans: clone(r.negative.spans), NegativeBuckets: clone(r.negative.counts),
			CustomValues: clone(r.customValues),
		}
		if err := head.CheckFloatHistogram(fh); err != nil {
			return nil, nil, err
		}
		return nil, fh, nil
	}
	h := &histogram.Histogram{
		CounterResetHint: r.resetHint(), Schema: int32(r.schema),
		ZeroThreshold: r.zeroThreshold, ZeroCount: r.zeroCount.i, Count: r.count.i, Sum: r.sum,
		PositiveSpans: clone(r.positive.spans), PositiveBuckets: clone(r.positive.deltas),
		NegativeSpans: clone(r.negative.spans), NegativeBuckets: clone(r.negative.deltas),
		CustomValues: clone(r.customValues),
	}
	if err := head.CheckHistogram(h); err != nil {
		return nil, nil, err
	}
	return h, nil, nil
}

// check judges what must be known before the numbers are narrowed to their types,
// and what only the protocol says.
func (r *rawHistogram) check() error {
	switch {
	case r.bad != "":
		return errors.New(r.bad)
	case r.schema != int64(int32(r.schema)):
		return fmt.Errorf("schema %d, beyond 32 bits", r.schema)
	case r.schema == int64(histogram.CustomBucketsSchema) && len(r.customValues) == 0 && !r.v2:
		return errors.New("custom buckets without bounds (custom_values)")
	}
	return nil
}

// resetHint returns the hint; numbers that the enum does not have say nothing.
func (r *rawHistogram) resetHint() histogram.CounterResetHint {
	if r.hint > uint64(histogram.GaugeType) {
		return histogram.UnknownCounterReset
	}
	return histogram.CounterResetHint(r.hint)
}

// value describes the histogram for an answer.
func (r *rawHistogram) value() string {
	count := strconv.FormatUint(r.count.i, 10)
	if r.count.isFloat {
		count = strconv.FormatFloat(r.count.f, 'g', -1, 64)
	}
	return fmt.Sprintf("histogram{count:%s sum:%v schema:%d}", count, r.sum, r.schema)
}

// clone returns a copy without spare capacity, nil for nothing.
func clone[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	out := make([]T, len(s))
	copy(out, s)
	return out
}
