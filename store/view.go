package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/ooo"
	"github.com/rwsink/rwsink/store/block"
)

// View is what a read sees: an immutable list of what held samples when it was
// taken. Close it.
type View struct {
	head   *head.View
	blocks []*block.Block // by generation; each is held
	stepMs int64
}

// View returns an immutable view that holds every batch acknowledged before the call.
//
// The head is looked at before the list of blocks: a flush adds the block
// before it drops the container, so that samples are seen once or twice, which
// is the same, but never not at all.
func (s *Store) View() *View {
	v := &View{head: s.head.View(), stepMs: s.blockMs()}
	for {
		list := *s.blocks.Load()
		v.blocks = v.blocks[:0]
		for _, b := range list {
			if !b.Acquire() {
				break // merged or removed a moment ago: the list has changed
			}
			v.blocks = append(v.blocks, b)
		}
		if len(v.blocks) == len(list) {
			return v
		}
		v.Close()
	}
}

// Close lets go of what the view holds.
func (v *View) Close() {
	for _, b := range v.blocks {
		b.Release()
	}
	v.blocks = nil
}

// Series is one series of a view.
type Series struct {
	Labels labels.Labels
	head   *head.Series // nil when the head does not have it
	blocks []blockSeries
}

// blockSeries is a series of a block of a view.
type blockSeries struct {
	block int
	ref   storage.SeriesRef
}

// Select returns the series that match all matchers (Prometheus's semantics for
// absent labels) and may have samples in [mint, maxt], sorted by labels.Compare.
// No matchers: none.
func (v *View) Select(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) ([]Series, error) {
	if mint > maxt || len(ms) == 0 {
		return nil, nil
	}
	found, err := v.head.Select(ctx, mint, maxt, ms...)
	if err != nil {
		return nil, err
	}
	out := make([]Series, len(found))
	for i, s := range found {
		out[i] = Series{Labels: s.Labels(), head: s}
	}
	for i, b := range v.blocks {
		minT, maxT := b.Range()
		if minT > maxt || maxT < mint {
			continue
		}
		list, err := b.Select(ctx, ms...)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			out = append(out, Series{Labels: s.Labels, blocks: []blockSeries{{i, s.Ref}}})
		}
	}
	slices.SortStableFunc(out, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return unite(out), nil
}

// unite makes one of the series with equal labels, which stand together: the
// head's first, then those of the blocks in order of generation.
func unite(list []Series) []Series {
	n := 0
	for i := range list {
		if n > 0 && labels.Equal(list[n-1].Labels, list[i].Labels) {
			list[n-1].blocks = append(list[n-1].blocks, list[i].blocks...)
			continue
		}
		list[n] = list[i]
		n++
	}
	return list[:n]
}

// Reader reads series of a view. It holds scratch memory and serves one goroutine.
type Reader struct {
	view   *View
	head   *head.Reader
	blocks []*block.Reader
	stack  ooo.Stack
	layers []ooo.Layer
}

// NewReader returns a reader of the view.
func (v *View) NewReader() *Reader {
	return &Reader{view: v, head: v.head.NewReader(), blocks: make([]*block.Reader, len(v.blocks))}
}

// Size returns at most how many samples s has in [mint, maxt], and the bytes of
// those that are sealed, without decoding them. A damaged block counts as nothing.
func (r *Reader) Size(s *Series, mint, maxt int64) (samples, bytes int) {
	if s.head != nil {
		samples, bytes = r.view.head.Size(s.head, mint, maxt)
	}
	for _, in := range s.blocks {
		list, err := r.block(in.block).Chunks(in.ref, mint, maxt)
		if err != nil {
			continue
		}
		for i := range list {
			samples += int(list[i].N)
			bytes += len(list[i].Data)
		}
	}
	return samples, bytes
}

// block returns the reader of the i-th block of the view.
func (r *Reader) block(i int) *block.Reader {
	if r.blocks[i] == nil {
		r.blocks[i] = r.view.blocks[i].NewReader()
	}
	return r.blocks[i]
}

// Read calls emit with the samples of s in [mint, maxt] (both ends included) in
// order of time as runs of one kind, no timestamp twice, late samples merged
// in. A run and its columns are borrowed until emit returns; histogram objects
// are the caller's. Neighbouring runs may have the same kind. emit's error ends it.
func (r *Reader) Read(s *Series, mint, maxt int64, emit func(*chunkenc.Samples) error) error {
	r.layers = r.layers[:0]
	for _, in := range s.blocks {
		reader := r.block(in.block)
		lo, hi := r.view.blocks[in.block].Range()
		r.layers = append(r.layers, ooo.Layer{Lo: lo, Hi: hi, Last: r.view.blocks[in.block].Rank(), Read: func(lo, hi int64, emit func(*chunkenc.Samples) error) error {
			return reader.Read(in.ref, lo, hi, emit)
		}})
	}
	if s.head != nil {
		r.layers = r.head.AppendLayers(r.layers, s.head, mint, maxt)
		// A container that came back from the log may be older than a block.
		slices.SortStableFunc(r.layers, func(a, b ooo.Layer) int { return cmp.Compare(a.Last, b.Last) })
	}
	return r.stack.Read(r.layers, mint, maxt, r.view.stepMs, emit)
}
