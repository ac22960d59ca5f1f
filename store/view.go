package store

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
)

// View is what a read sees: an immutable list of what held samples when it was
// taken. Close it.
type View struct {
	head *head.View
}

// View returns an immutable view that holds every batch acknowledged before the call.
func (s *Store) View() *View { return &View{head: s.head.View()} }

// Close lets go of what the view holds.
func (v *View) Close() {}

// Series is one series of a view.
type Series struct {
	Labels labels.Labels
	head   *head.Series
}

// Select returns the series that match all matchers (Prometheus's semantics for
// absent labels) and may have samples in [mint, maxt], sorted by labels.Compare.
// No matchers: none.
func (v *View) Select(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) ([]Series, error) {
	if mint > maxt {
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
	slices.SortFunc(out, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

// Size returns at most how many samples s has in [mint, maxt], and the bytes of
// those that are sealed, without reading them.
func (v *View) Size(s *Series, mint, maxt int64) (samples, bytes int) {
	return v.head.Size(s.head, mint, maxt)
}

// Reader reads series of a view. It holds scratch memory and serves one goroutine.
type Reader struct {
	head *head.Reader
}

// NewReader returns a reader of the view.
func (v *View) NewReader() *Reader { return &Reader{head: v.head.NewReader()} }

// Read calls emit with the samples of s in [mint, maxt] (both ends included) in
// order of time as runs of one kind, no timestamp twice, late samples merged
// in. A run and its columns are borrowed until emit returns; histogram objects
// are the caller's. Neighbouring runs may have the same kind. emit's error ends it.
func (r *Reader) Read(s *Series, mint, maxt int64, emit func(*chunkenc.Samples) error) error {
	return r.head.Read(s.head, mint, maxt, emit)
}
