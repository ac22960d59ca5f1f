package head

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// collect lets go of the series that no container holds samples of. One that
// was not seen idle by the collection before stays once more: a request may
// have resolved it a moment ago. Called by the committer with Head.mu held; a
// batch that still names a collected series finds it gone and resolves it anew.
func (id *identity) collect() int {
	id.mu.Lock()
	defer id.mu.Unlock()
	var dead []*Series
	for _, first := range id.byHash {
		for s := first; s != nil; s = s.next {
			switch {
			case s.containers > 0:
				s.idle = false
			case s.idle:
				dead = append(dead, s)
			default:
				s.idle = true
			}
		}
	}
	if len(dead) == 0 {
		return 0
	}
	refs, pairs := map[storage.SeriesRef]struct{}{}, map[labels.Label]struct{}{}
	for _, s := range dead {
		s.gone = true
		id.unlink(s)
		refs[storage.SeriesRef(s.ref)] = struct{}{}
		s.labels.Range(func(l labels.Label) { pairs[l] = struct{}{} })
	}
	id.postings.Delete(refs, pairs)
	id.count.Add(-int64(len(dead)))
	return len(dead)
}

// unlink takes s out of every table.
func (id *identity) unlink(s *Series) {
	hash := id.hash(s.labels)
	if first := id.byHash[hash]; first == s {
		if s.next == nil {
			delete(id.byHash, hash)
		} else {
			id.byHash[hash] = s.next
		}
	} else {
		for ; first != nil; first = first.next {
			if first.next == s {
				first.next = s.next
				break
			}
		}
	}
	for _, ref := range s.refs() {
		if page := id.pages[ref/pageSize]; page != nil {
			page[ref%pageSize] = nil
			if *page == [pageSize]*Series{} {
				delete(id.pages, ref/pageSize)
			}
		}
	}
	for _, k := range s.keys {
		sh := &id.shards[k.Lo%numShards]
		sh.mu.Lock()
		delete(sh.byKey, k)
		sh.mu.Unlock()
	}
}

// withLabels returns the series with these labels, creating it when there is none.
func (id *identity) withLabels(ls labels.Labels) *Series {
	hash := id.hash(ls)
	id.mu.Lock()
	defer id.mu.Unlock()
	s := id.find(hash, ls)
	if s == nil {
		s = id.create(hash, ls, id.lastRef+1)
	}
	return s
}
