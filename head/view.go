package head

import (
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// View is an immutable list of the head's containers. It holds every batch
// whose Commit returned before the view was taken, and may show later ones.
type View struct {
	head *Head
	list *containerList
}

// View returns a view of what is there now.
func (h *Head) View() *View { return &View{head: h, list: h.containers.Load()} }

// Select returns, in no order, the series that match all matchers and have a
// container with samples of theirs that overlaps [mint, maxt]. A matcher on a
// label that a series does not have sees an empty value. No matchers: none.
func (v *View) Select(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) ([]*Series, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	p, err := v.head.identity.postings.Select(ctx, ms...)
	if err != nil {
		return nil, err
	}
	all, err := v.head.identity.all(ctx, p)
	if err != nil {
		return nil, err
	}
	dropped := v.dropped(mint, maxt, ms)
	v.head.mu.RLock()
	defer v.head.mu.RUnlock()
	all = slices.DeleteFunc(all, func(s *Series) bool { return !v.has(s, mint, maxt) })
	return withCollected(all, dropped), nil
}

// dropped returns the series of containers that were dropped since the view was
// taken: of these the view still has to give the samples, be the series
// collected or not.
func (v *View) dropped(mint, maxt int64, ms []*labels.Matcher) map[*Series]bool {
	v.head.mu.RLock()
	list := slices.DeleteFunc(v.list.overlapping(mint, maxt), func(c *Container) bool { return !c.dropped })
	v.head.mu.RUnlock()
	var out map[*Series]bool
	for _, c := range list { // immutable
		c.each(func(s *Series) {
			if matches(s.labels, ms) {
				if out == nil {
					out = map[*Series]bool{}
				}
				out[s] = true
			}
		})
	}
	return out
}

// withCollected adds to all those that were collected. A series with the same
// labels that was created since has later samples only, which a view need not
// show. Head.mu is held.
func withCollected(all []*Series, dropped map[*Series]bool) []*Series {
	maps.DeleteFunc(dropped, func(s *Series, _ bool) bool { return !s.gone })
	if len(dropped) == 0 {
		return all
	}
	gone := map[string]bool{}
	for s := range dropped {
		gone[string(s.labels.Bytes(nil))] = true
	}
	all = slices.DeleteFunc(all, func(s *Series) bool { return gone[string(s.labels.Bytes(nil))] })
	return slices.AppendSeq(all, maps.Keys(dropped))
}

func matches(ls labels.Labels, ms []*labels.Matcher) bool {
	return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name)) })
}

func (v *View) has(s *Series, mint, maxt int64) bool {
	for _, c := range v.list.overlapping(mint, maxt) {
		if c.has(s) && !c.gone(s) {
			return true
		}
	}
	return false
}

// Size returns how many samples of s the containers that overlap [mint, maxt]
// hold at most, and the bytes of those that are sealed.
func (v *View) Size(s *Series, mint, maxt int64) (samples, bytes int) {
	v.head.mu.RLock()
	defer v.head.mu.RUnlock()
	for _, c := range v.list.overlapping(mint, maxt) {
		if c.cold != nil {
			n, size := c.cold.size(s)
			samples, bytes = samples+n, bytes+size
			continue
		}
		p := c.parts.of(s)
		if p == nil {
			continue
		}
		for i := range p.chunks {
			samples += int(p.chunks[i].N)
			bytes += len(p.chunks[i].Data)
		}
		samples += p.tailLen() + p.lateLen()
	}
	return samples, bytes
}

// Reader reads series of a view. It holds scratch memory and serves one goroutine.
type Reader struct {
	view   *View
	dec    chunkenc.Decoder
	merger ooo.Merger
	stack  ooo.Stack
	layers []ooo.Layer
	base   runList
	tail   runList
	stream streamReader
	hists  histStream // the tail, when it is of histograms
	kind   chunkenc.Kind
	chunks []chunkenc.Chunk
	late   ooo.Buffer
	piece  ooo.Buffer
	out    chunkenc.Samples // what emit is given
	cold   coldReader
	erased tombstones.Intervals // of the snapshot
}

// NewReader returns a reader of the view.
func (v *View) NewReader() *Reader { return &Reader{view: v} }

// Read calls emit with the samples of s in [mint, maxt] (both ends included)
// in order of time as runs of one kind, no timestamp twice. A run and its
// columns are borrowed until emit returns; histogram objects are the caller's.
func (r *Reader) Read(s *Series, mint, maxt int64, emit func(*chunkenc.Samples) error) error {
	if mint > maxt {
		return nil
	}
	r.layers = r.AppendLayers(r.layers[:0], s, mint, maxt)
	return r.stack.Read(r.layers, mint, maxt, r.view.head.options.BlockDuration.Milliseconds(), emit)
}

// AppendLayers appends the containers of the view that hold samples of s and
// overlap [mint, maxt], oldest first where they overlap each other. What they
// read uses r's memory: one at a time.
func (r *Reader) AppendLayers(dst []ooo.Layer, s *Series, mint, maxt int64) []ooo.Layer {
	mu := &r.view.head.mu
	mu.RLock()
	defer mu.RUnlock()
	for _, c := range r.view.list.overlapping(mint, maxt) {
		if c.has(s) {
			dst = append(dst, ooo.Layer{Lo: c.lo, Hi: c.hi, Last: c.rank(), Read: func(lo, hi int64, emit func(*chunkenc.Samples) error) error {
				r.snapshot(c, s, lo, hi)
				return r.emitSnapshot(lo, hi, emitWithout(r.erased, emit))
			}})
		}
	}
	return dst
}

// snapshot copies what c holds of s in [mint, maxt]. Chunks are immutable, so
// of them only the list is copied.
func (r *Reader) snapshot(c *Container, s *Series, mint, maxt int64) {
	r.tail.reset()
	r.late.Reset()
	r.chunks, r.hists = r.chunks[:0], histStream{}
	mu := &r.view.head.mu
	mu.RLock()
	defer mu.RUnlock()
	r.erased = c.erased[s]
	if c.cold != nil {
		r.cold.copy(&r.tail, &r.late, c.cold, s, mint, maxt)
		return
	}
	p := c.parts.of(s)
	if p == nil { // deleted since the layers were listed
		return
	}
	i := sort.Search(len(p.chunks), func(i int) bool { return p.chunks[i].MaxT >= mint })
	j := i + sort.Search(len(p.chunks)-i, func(k int) bool { return p.chunks[i+k].MinT > maxt })
	r.chunks = append(r.chunks, p.chunks[i:j]...)
	if p.from(len(p.chunks)) <= maxt && p.maxT >= mint {
		if p.kind == chunkenc.KindFloat {
			p.tail(&r.tail, &r.late, &r.stream, mint, maxt)
		} else {
			r.hists, r.kind = p.ext.hists, p.kind // it only grows, and is long to read
		}
	}
	if p.ext != nil {
		p.ext.late.CopyRange(&r.late, mint, maxt)
	}
}

// emitSnapshot merges the snapshot chunk by chunk, so that memory is bounded by one chunk.
func (r *Reader) emitSnapshot(mint, maxt int64, emit func(*chunkenc.Samples) error) error {
	if r.hists.n > 0 { // all of it came before what waits in late
		r.piece.Reset()
		r.hists.appendTo(&r.tail, &r.piece, r.kind, mint, maxt)
		r.late.CopyRange(&r.piece, mint, maxt)
		r.late, r.piece = r.piece, r.late
	}
	if r.late.Len() > 0 {
		r.merger.Sort(&r.late)
	}
	pieces := len(r.chunks) + len(r.tail.list)
	for i := range r.chunks {
		base := r.base.reset()
		if err := r.dec.Decode(base.next(r.chunks[i].Kind()), &r.chunks[i]); err != nil {
			return err
		}
		until := maxt
		if i+1 < pieces {
			until = r.pieceStart(i+1) - 1
		}
		if err := r.emitPiece(base.list, until, mint, maxt, emit); err != nil {
			return err
		}
	}
	shareNothing(r.tail.list)
	return r.emitPiece(r.tail.list, maxt, mint, maxt, emit)
}

// pieceStart returns the first timestamp of a chunk, or of the tail behind them.
func (r *Reader) pieceStart(i int) int64 {
	if i < len(r.chunks) {
		return r.chunks[i].MinT
	}
	return r.tail.list[0].T[0]
}

// emitPiece emits base and the late samples up to until as one.
func (r *Reader) emitPiece(base []*chunkenc.Samples, until, mint, maxt int64, emit func(*chunkenc.Samples) error) error {
	if r.late.Len() > 0 {
		r.piece.Reset()
		r.late.Take(&r.piece, mint, until)
		if r.piece.Len() > 0 {
			base, _ = r.merger.Merge(base, &r.piece)
			shareNothing(base)
		}
	}
	for _, run := range base {
		i := sort.Search(len(run.T), func(i int) bool { return run.T[i] >= mint })
		j := sort.Search(len(run.T), func(j int) bool { return run.T[j] > maxt })
		if i == j {
			continue
		}
		r.out = run.Slice(i, j)
		if err := emit(&r.out); err != nil {
			return err
		}
	}
	return nil
}

// shareNothing replaces the histograms of runs, which the head still holds, by copies.
func shareNothing(runs []*chunkenc.Samples) {
	for _, r := range runs {
		for i, h := range r.H {
			r.H[i] = h.Copy()
		}
		for i, h := range r.FH {
			r.FH[i] = h.Copy()
		}
	}
}
