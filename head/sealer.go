package head

import (
	"sort"

	"github.com/rwsink/rwsink/chunkenc"
)

// Sealer cuts and seals runs as the head does, for whoever merges its blocks:
// at the ends of aligned ranges, and within them at the ends of slots.
type Sealer struct {
	applier *applier
	blockMs int64
}

// NewSealer returns a sealer for a head with these options.
func NewSealer(o Options) *Sealer {
	o = o.withDefaults()
	return &Sealer{newApplier(o), o.BlockDuration.Milliseconds()}
}

// Seal appends to dst the chunks of a run.
func (s *Sealer) Seal(dst []chunkenc.Chunk, run *chunkenc.Samples) []chunkenc.Chunk {
	a := s.applier
	for i, n := 0, run.Len(); i < n; {
		lo, hi := aligned(run.T[i], s.blockMs)
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
