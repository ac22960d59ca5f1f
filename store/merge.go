package store

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/ooo"
	"github.com/rwsink/rwsink/store/block"
)

// merger merges blocks series by series:
//
//  1. the series of all blocks are walked in order of labels,
//  2. the chunks of one series, from all blocks, are put in order of time,
//  3. a chunk that overlaps none is copied as it is, unless the sealer would
//     make one chunk of it and its neighbours,
//  4. chunks that overlap are decoded, merged in order of generation, cut and
//     sealed again.
type merger struct {
	blocks  []*block.Block  // by generation
	cursors []*block.Cursor // nil at the end of its block
	stack   ooo.Stack
	dec     chunkenc.Decoder
	seal    *head.Sealer
	out     []chunkenc.Chunk

	// Scratch.
	samples []*chunkenc.Samples // one a layer
	joined  chunkenc.Samples
	all     []source // of a series
	byBlock []source // of what is sealed again
	layers  []ooo.Layer
	spans   []head.Span // see units
	begin   []int

	copied, sealed int
}

// source is one chunk of a series and the block it is from.
type source struct {
	chunkenc.Chunk
	block int
}

func newMerger(o head.Options, group []*block.Block) *merger {
	return &merger{blocks: group, seal: head.NewSealer(o)}
}

// run writes everything to w.
func (m *merger) run(ctx context.Context, w *block.Writer) error {
	m.cursors = make([]*block.Cursor, len(m.blocks))
	at := make([]bool, len(m.blocks)) // whether the block has the series at hand
	for i, b := range m.blocks {
		var err error
		if m.cursors[i], err = b.NewCursor(ctx); err != nil {
			return err
		}
		at[i] = true
	}
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := m.advance(at); err != nil {
			return err
		}
		ls, ok := m.first(at)
		if !ok {
			return nil
		}
		list, err := m.series(at)
		if err != nil {
			return err
		}
		if err := w.AddSeries(ls, list); err != nil {
			return err
		}
	}
}

// advance moves the cursors of those blocks that had the last series.
func (m *merger) advance(at []bool) error {
	for i, c := range m.cursors {
		if c == nil || !at[i] {
			continue
		}
		ok, err := c.Next()
		if err != nil {
			return err
		}
		if !ok {
			m.cursors[i] = nil
		}
	}
	return nil
}

// first returns the first series of all in order of labels, and sets at for
// those blocks that have it; ok is false when all are at their ends.
func (m *merger) first(at []bool) (first labels.Labels, ok bool) {
	for _, c := range m.cursors {
		if c != nil && (!ok || labels.Compare(c.Labels(), first) < 0) {
			first, ok = c.Labels(), true
		}
	}
	for i, c := range m.cursors {
		at[i] = c != nil && labels.Equal(c.Labels(), first)
	}
	return first, ok
}

// series returns the merged chunks of the series at hand; they are valid until the next call.
func (m *merger) series(at []bool) (_ []chunkenc.Chunk, err error) {
	all := m.all[:0]
	for i, c := range m.cursors {
		if !at[i] {
			continue
		}
		list, err := c.Chunks()
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			all = append(all, source{c, i})
		}
	}
	m.all = all
	slices.SortStableFunc(all, func(a, b source) int { return cmp.Compare(a.MinT, b.MinT) })
	m.units(all)
	m.out = m.out[:0]
	m.seal.Plan(m.spans, func(i, j int, length int64, _ bool) {
		if first := m.begin[i]; err == nil && m.begin[j] == first+1 {
			m.out = append(m.out, all[first].Chunk)
			m.copied++
		} else if err == nil {
			err = m.reseal(all[first:m.begin[j]], length)
		}
	})
	return m.out, err
}

// units groups chunks, sorted by their begin, into those that overlap: m.spans,
// of which the i-th is all[m.begin[i]:m.begin[i+1]].
func (m *merger) units(all []source) {
	m.spans, m.begin = m.spans[:0], m.begin[:0]
	for i := range all {
		c, last := &all[i], len(m.spans)-1
		if last >= 0 && c.MinT <= m.spans[last].MaxT {
			m.spans[last].MaxT = max(m.spans[last].MaxT, c.MaxT)
			m.spans[last].N += int(c.N)
			continue
		}
		m.spans = append(m.spans, head.Span{MinT: c.MinT, MaxT: c.MaxT, N: int(c.N), Kind: c.Kind()})
		m.begin = append(m.begin, i)
	}
	m.begin = append(m.begin, len(all))
}

// reseal merges chunks by generation of their blocks and seals them again,
// within ranges of length.
func (m *merger) reseal(list []source, length int64) error {
	m.byBlock = append(m.byBlock[:0], list...)
	slices.SortStableFunc(m.byBlock, func(a, b source) int { return cmp.Compare(a.block, b.block) })
	m.layers = m.layers[:0]
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range m.byBlock {
		c := &m.byBlock[i].Chunk
		lo, hi = min(lo, c.MinT), max(hi, c.MaxT)
		m.layers = append(m.layers, ooo.Layer{Lo: c.MinT, Hi: c.MaxT, Read: m.reader(i, &m.byBlock[i])})
	}
	m.joined.Reset(chunkenc.KindFloat)
	flush := func() {
		if m.joined.Len() > 0 {
			before := len(m.out)
			m.out = m.seal.SealWithin(m.out, &m.joined, length)
			m.sealed += len(m.out) - before
		}
	}
	err := m.stack.Read(m.layers, lo, hi, math.MaxInt64, func(run *chunkenc.Samples) error {
		if run.Kind != m.joined.Kind {
			flush()
			m.joined.Reset(run.Kind)
		}
		m.joined.Append(run)
		return nil
	})
	flush()
	return err
}

// reader returns what reads a chunk, into the i-th scratch batch.
func (m *merger) reader(i int, c *source) func(lo, hi int64, emit func(*chunkenc.Samples) error) error {
	for len(m.samples) <= i {
		m.samples = append(m.samples, &chunkenc.Samples{})
	}
	s := m.samples[i]
	return func(lo, hi int64, emit func(*chunkenc.Samples) error) error {
		s.Reset(c.Kind())
		if err := m.dec.DecodeRange(s, &c.Chunk, lo, hi); err != nil {
			return m.blocks[c.block].Corrupt("chunks", err)
		}
		if s.Len() == 0 {
			return nil
		}
		return emit(s)
	}
}
