package store

import (
	"cmp"
	"slices"

	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// coverage says what of the log the blocks hold, or held before retention
// removed them.
type coverage struct {
	ranges []block.LogRange // newest first: what is asked for is mostly of the ranges flushed last
}

func (s *Store) coverage() *coverage {
	c := &coverage{ranges: slices.Clone(s.removed.Logs)}
	for _, b := range *s.blocks.Load() {
		c.ranges = append(c.ranges, b.Info().Logs...)
	}
	slices.SortFunc(c.ranges, func(a, b block.LogRange) int { return cmp.Compare(b.To, a.To) })
	return c
}

// find says whether a block has what the frame lsn had of timestamp t, and
// after which frame what that block has of t begins.
func (c *coverage) find(t int64, lsn wal.LSN) (from wal.LSN, ok bool) {
	for i := range c.ranges {
		r := &c.ranges[i]
		if r.To < uint64(lsn) {
			break
		}
		if r.MinT <= t && t <= r.MaxT && r.From < uint64(lsn) {
			return wal.LSN(r.From), true
		}
	}
	return 0, false
}

// reached returns the log ranges that the log still reaches back to, each once.
func (s *Store) reached(list []block.LogRange) []block.LogRange {
	var first uint64
	if segments := s.wal.Segments(); len(segments) > 0 {
		first = uint64(segments[0].First)
	}
	var out []block.LogRange
	for _, r := range list {
		if r.To >= first && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}
