package chunkenc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/model/histogram"
)

// Prometheus's histogram chunks state bucket counts that its iterator trusts. What
// they claim is checked here against the bytes that are there before it sees them:
// every bucket of every sample takes at least one bit (integers) or, in the first
// sample, 64 (floats).

// bitReader reads bits, most significant first. Past the end it reads zeros and fails.
type bitReader struct {
	b    []byte
	pos  int // bits read
	fail bool
}

func (r *bitReader) left() int { return 8*len(r.b) - r.pos }

func (r *bitReader) read(n int) (u uint64) {
	if n > r.left() {
		r.fail, r.pos = true, 8*len(r.b)
		return 0
	}
	for n > 0 {
		free := 8 - r.pos&7
		take := min(free, n)
		part := r.b[r.pos>>3] >> (free - take) & (1<<take - 1)
		u = u<<take | uint64(part)
		r.pos += take
		n -= take
	}
	return u
}

// varbit reads the payload of Prometheus's variable width integers and its width.
func (r *bitReader) varbit() (u uint64, width int) {
	ones := 0
	for ones < 8 && r.read(1) == 1 {
		ones++
	}
	width = [...]int{0, 3, 6, 9, 12, 18, 25, 56, 64}[ones]
	return r.read(width), width
}

func (r *bitReader) varint() int64 {
	u, width := r.varbit()
	if width > 0 && width < 64 && u > 1<<(width-1) {
		u -= 1 << width
	}
	return int64(u)
}

// spans reads one side's spans and returns how many they are and their buckets.
func (r *bitReader) spans() (spans, buckets int, err error) {
	num, _ := r.varbit()
	if num > uint64(r.left()) {
		return 0, 0, fmt.Errorf("%d spans in %d bits", num, r.left())
	}
	for range num {
		length, _ := r.varbit()
		offset := r.varint()
		if length > uint64(r.left()) || offset < math.MinInt32 || offset > math.MaxInt32 {
			return 0, 0, fmt.Errorf("span of offset %d and length %d", offset, length)
		}
		buckets += int(length)
	}
	return int(num), buckets, nil
}

// emptySpanSlack is how many spans without a bucket each of MaxSamples histograms
// may have; Seal writes none.
const emptySpanSlack = 16

// checkLayout reads the chunk up to its first bucket and checks that n samples of
// that layout can be there. The size is where the fault shows, in bytes.
func checkLayout(b []byte, n int, float bool) (size int, err error) {
	if len(b) < promHeaderSize {
		return len(b), errors.New("histogram chunk cut short")
	}
	if got := int(binary.BigEndian.Uint16(b)); got != n {
		return 0, fmt.Errorf("histogram chunk of %d samples, want %d", got, n)
	}
	r := &bitReader{b: b, pos: 8 * promHeaderSize}
	if r.read(8) == 0xff { // zero threshold: one byte, or 255 and a float
		r.read(64)
	}
	schema := r.varint()
	if !histogram.IsExponentialSchema(int32(schema)) && !histogram.IsCustomBucketsSchema(int32(schema)) || int64(int32(schema)) != schema {
		return r.pos / 8, fmt.Errorf("unknown histogram schema %d", schema)
	}
	pSpans, pBuckets, err := r.spans()
	if err != nil {
		return r.pos / 8, err
	}
	nSpans, nBuckets, err := r.spans()
	if err != nil {
		return r.pos / 8, err
	}
	if histogram.IsCustomBucketsSchema(int32(schema)) {
		r.bounds()
	}
	r.varint() // t
	fixed, perBucket := 64, 1
	if float {
		fixed, perBucket = 3*64, 64
	}
	if hi, need := bits.Mul64(uint64(pBuckets+nBuckets), uint64(perBucket)); r.fail || hi != 0 || need+uint64(fixed) > uint64(r.left()) {
		return r.pos / 8, fmt.Errorf("%d buckets in %d bits", pBuckets+nBuckets, r.left())
	}
	if (pSpans+nSpans)*n > 8*len(b)+emptySpanSlack*MaxSamples {
		return r.pos / 8, fmt.Errorf("%d spans in each of %d samples", pSpans+nSpans, n)
	}
	return 0, nil
}

// bounds skips the custom bounds; a bound is a varbit, or 0 and a float.
func (r *bitReader) bounds() {
	num, _ := r.varbit()
	for i := uint64(0); i < num && !r.fail; i++ {
		if u, _ := r.varbit(); u == 0 {
			r.read(64)
		}
	}
}
