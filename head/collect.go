package head

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
)

// collect lets go of the series that no container holds samples of. One that
// was not seen idle by the collection before stays once more: a request may
// have resolved it a moment ago. Called by the committer with Head.mu held; a
// batch that still names a collected series finds it gone and resolves it anew.
//
// What it returns is still to be unlisted: references are never given again, so
// the postings may name collected ones for a while.
func (id *identity) collect() (dead []*Series) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.byLabels.each(func(s *Series) {
		switch {
		case s.containers > 0: // hold has seen to it
		case s.idle:
			dead = append(dead, s)
		default:
			s.idle = true
		}
	})
	for _, s := range dead {
		s.gone = true
		for _, ref := range append(id.also[s], s.ref) {
			id.unsetRef(ref)
		}
		delete(id.also, s)
	}
	if len(dead) > 0 {
		id.byLabels.sweep()
		id.byKey.sweep()
	}
	id.count.Add(-int64(len(dead)))
	return dead
}

// unlist takes collected series out of the postings. It takes long where they
// are many, and needs no lock.
func (id *identity) unlist(dead []*Series) {
	if len(dead) == 0 {
		return
	}
	refs, pairs := map[uint64]struct{}{}, map[labels.Label]struct{}{}
	for _, s := range dead {
		refs[s.ref] = struct{}{}
		s.labels.Range(func(l labels.Label) { pairs[l] = struct{}{} })
	}
	id.postings.Remove(refs, pairs)
}

// maxIdle is how many series without samples wait for the next Collect at most,
// about 100 MB; and they do not wait where the limit of series is near. A backfill of
// ever new series must not fill memory, nor the limit, with those that are flushed already.
const maxIdle = 1 << 17

// crowded says that series without samples cannot wait.
func (h *Head) crowded() bool {
	n, limit := h.identity.count.Load(), int64(h.options.Limits.Series)
	idle := n - int64(h.holding)
	return idle > maxIdle || idle > 0 && limit > 0 && n >= limit-limit/4
}

// Collect lets go of the series that no container has held samples of since the
// Collect before. A minute between two is long enough for senders to come again:
// a flush of everything then makes none of their series anew.
func (h *Head) Collect(ctx context.Context) error {
	var dead []*Series
	err := h.between(ctx, func(c *committer) {
		if int64(h.holding) < h.identity.count.Load() {
			dead = c.collect()
		}
	})
	h.identity.unlist(dead)
	return err
}

// collect is identity.collect under Head.mu.
func (c *committer) collect() []*Series {
	h := c.head
	h.mu.Lock()
	defer h.mu.Unlock()
	dead := h.identity.collect()
	if len(dead) > 0 {
		h.collections.Add(1)
	}
	return dead
}

// hold notes that one more container holds samples of s: it is not idle.
func (h *Head) hold(s *Series) {
	if s.containers++; s.containers == 1 {
		h.holding++
		s.idle = false
	}
}

// release notes that one container less holds samples of s.
func (h *Head) release(s *Series) {
	if s.containers--; s.containers == 0 {
		h.holding--
	}
}

// unsetRef forgets which series has the reference ref.
func (id *identity) unsetRef(ref uint64) {
	page := id.pages[ref/pageSize]
	if page == nil {
		return
	}
	page[ref%pageSize] = nil
	if *page == [pageSize]*Series{} {
		delete(id.pages, ref/pageSize)
	}
}

// withLabels returns the series with these labels, creating it when there is none.
func (id *identity) withLabels(ls labels.Labels) *Series {
	hash := id.hash(ls)
	id.mu.Lock()
	defer id.mu.Unlock()
	s := id.byLabels.find(hash, ls)
	if s == nil {
		s = id.create(hash, ls, id.lastRef+1)
	}
	return s
}
