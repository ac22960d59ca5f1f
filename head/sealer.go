package head

import (
	"sort"

	"github.com/rwsink/rwsink/chunkenc"
)

// Sealer cuts and seals runs for blocks, whose chunks are longer than the head's.
//
// Ranges are aligned: a block's length times a power of three up, a half of a
// half down. The widest one that holds no more samples than a chunk should
// makes a chunk; any other is cut into the next narrower ones. So series
// that have the same timestamps are cut alike, whatever order and blocks they
// come from, and can share a time column.
type Sealer struct {
	enc     chunkenc.Encoder
	blockMs int64
	target  int
	piece   chunkenc.Samples // scratch: what is sealed
	spans   []Span           // scratch
}

const (
	// blockFactor is how many times longer the chunks of blocks are than those of the
	// head: what a chunk takes beside its samples (reference, frame, place in the
	// index) is 25 bytes, and reading one for a single sample at most some microseconds.
	blockFactor = 4
	// widen is how many times longer the next range is, as the ranges of the
	// blocks that merges make; maxWiden is how often a block's is widened.
	widen, maxWiden = 3, 6
)

// NewSealer returns a sealer for the blocks of a head with these options.
func NewSealer(o Options) *Sealer {
	o = o.WithDefaults()
	return &Sealer{enc: chunkenc.Encoder{Float: o.Encoding}, blockMs: o.BlockDuration.Milliseconds(), target: o.ChunkSamples}
}

// Most returns how many samples a chunk of that kind holds at most. A
// histogram's is cut by what it holds rather, and is not made longer than the head's.
func (s *Sealer) Most(k chunkenc.Kind) int {
	most := s.target
	if k == chunkenc.KindFloat {
		most = min(blockFactor*most, chunkenc.MaxSamples/2)
	}
	return most + most/slack
}

// widest returns the length of the widest ranges.
func (s *Sealer) widest() int64 {
	length := s.blockMs
	for range maxWiden {
		length *= widen
	}
	return length
}

// narrower returns the length of the ranges that those of length are cut into.
func (s *Sealer) narrower(length int64) int64 {
	if length > s.blockMs {
		return length / widen
	}
	return max(1, length/2)
}

// Seal appends to dst the chunks of a run.
func (s *Sealer) Seal(dst []chunkenc.Chunk, run *chunkenc.Samples) []chunkenc.Chunk {
	return s.SealWithin(dst, run, s.widest())
}

// SealWithin is Seal with no range wider than length, which Plan gave.
func (s *Sealer) SealWithin(dst []chunkenc.Chunk, run *chunkenc.Samples, length int64) []chunkenc.Chunk {
	for i, n := 0, run.Len(); i < n; {
		_, hi := aligned(run.T[i], length)
		j := i + sort.Search(n-i, func(k int) bool { return run.T[i+k] > hi })
		piece := run.Slice(i, j)
		if j-i > s.Most(run.Kind) {
			dst = s.SealWithin(dst, &piece, s.narrower(length))
		} else {
			s.piece = piece
			dst = s.enc.Seal(dst, &s.piece)
		}
		i = j
	}
	return dst
}

// Span is what a cut needs to know of one chunk, or of some that overlap.
type Span struct {
	MinT, MaxT int64
	N          int
	Kind       chunkenc.Kind
}

// Plan calls visit with how Seal would cut what is in spans, ascending and
// disjoint: [i, j) would be one chunk, within a range of length, when whole is
// set; otherwise j is i+1, and the span itself would be cut, at the ends of
// ranges of length. (Histograms are cut further by what they hold.)
func (s *Sealer) Plan(list []Span, visit func(i, j int, length int64, whole bool)) {
	s.plan(list, 0, s.widest(), visit)
}

// plan is Plan by ranges of that length, of spans that stand from first on in the list.
func (s *Sealer) plan(list []Span, first int, length int64, visit func(i, j int, length int64, whole bool)) {
	for i := 0; i < len(list); {
		_, hi := aligned(list[i].MinT, length)
		j, n, whole := i, 0, true
		for ; j < len(list) && list[j].MinT <= hi && list[j].Kind == list[i].Kind; j++ {
			n += list[j].N
			whole = whole && list[j].MaxT <= hi
		}
		whole = whole && n <= s.Most(list[i].Kind)
		if whole || j-i == 1 {
			visit(first+i, first+j, length, whole)
		} else {
			s.plan(list[i:j], first+i, s.narrower(length), visit)
		}
		i = j
	}
}

// settled says whether Seal would leave chunks, ascending and disjoint, as they are.
func (s *Sealer) settled(list []chunkenc.Chunk) bool {
	s.spans = s.spans[:0]
	for i := range list {
		s.spans = append(s.spans, Span{list[i].MinT, list[i].MaxT, int(list[i].N), list[i].Kind()})
	}
	settled := true
	s.Plan(s.spans, func(i, j int, _ int64, whole bool) {
		settled = settled && whole && (j == i+1 || list[i].Kind() != chunkenc.KindFloat)
	})
	return settled
}
