package head

import (
	"sort"

	"github.com/rwsink/rwsink/chunkenc"
)

// Sealer cuts and seals runs as the head does, for whoever merges its blocks:
// at the ends of aligned ranges, those of a block or wider, and within them at the ends of slots.
type Sealer struct {
	applier *applier
	blockMs int64
}

// NewSealer returns a sealer for a head with these options.
func NewSealer(o Options) *Sealer {
	o = o.WithDefaults()
	return &Sealer{newApplier(o), o.BlockDuration.Milliseconds()}
}

// widen is how many times longer the next range is, maxWiden how often it is
// widened: as the ranges of the blocks that merges make.
const widen, maxWiden = 3, 4

// lengthFor returns the range to cut at: a block's, or a wider one where the
// samples are so far apart that a chunk would hold few.
func (s *Sealer) lengthFor(run *chunkenc.Samples) int64 {
	length, n := s.blockMs, int64(run.Len())
	if n < 2 {
		return length
	}
	interval := max(1, (run.T[n-1]-run.T[0])/(n-1))
	for range maxWiden {
		if widen*length/interval > int64(s.applier.target) {
			break
		}
		length *= widen
	}
	return length
}

// Seal appends to dst the chunks of a run.
func (s *Sealer) Seal(dst []chunkenc.Chunk, run *chunkenc.Samples) []chunkenc.Chunk {
	a, length := s.applier, s.lengthFor(run)
	for i, n := 0, run.Len(); i < n; {
		lo, hi := aligned(run.T[i], length)
		j := i + sort.Search(n-i, func(k int) bool { return run.T[i+k] > hi })
		piece := run.Slice(i, j)
		box := &Container{lo: lo, hi: hi}
		shift := uint8(0)
		if j-i > 1 {
			shift = a.shiftFor(box, piece.T[j-i-1]-piece.T[0], j-i)
		}
		a.sealed = a.sealed[:0]
		a.cut(box, &piece, shift)
		dst = append(dst, a.sealed...)
		i = j
	}
	return dst
}
