package postings

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/index"
)

// Index says which series have a label.
type Index struct {
	mu    sync.RWMutex
	names map[string]*label
	all   *list    // nil while there is none
	order []*label // of the labels of the series added last
}

// label is a label name and its values.
type label struct {
	name   string
	values []string       // appended to, or replaced
	lists  []list         // of the values
	at     map[string]int // where a value stands; one that is gone may still stand in values, not here
	last   int            // of the value found last, -1 when it may be gone
}

// New returns an empty index.
func New() *Index { return &Index{names: map[string]*label{}} }

// Clear forgets everything.
func (x *Index) Clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.names, x.all, x.order = map[string]*label{}, nil, nil
}

// Add notes a series whose reference is above all that were added.
func (x *Index) Add(ref uint64, ls labels.Labels) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = &list{first: ref}
	} else {
		x.all.add(ref)
	}
	i := 0
	ls.Range(func(l labels.Label) {
		if i == len(x.order) {
			x.order = append(x.order, x.label(l.Name))
		} else if x.order[i].name != l.Name {
			x.order[i] = x.label(l.Name)
		}
		x.order[i].add(l.Value, ref)
		i++
	})
}

// label returns the label of that name, a new one when there is none.
func (x *Index) label(name string) *label {
	l := x.names[name]
	if l == nil {
		l = &label{name: name, at: map[string]int{}, last: -1}
		x.names[name] = l
	}
	return l
}

// add notes that the series ref has the value.
func (l *label) add(value string, ref uint64) {
	if l.last >= 0 && l.values[l.last] == value {
		l.lists[l.last].add(ref)
		return
	}
	if i, ok := l.at[value]; ok {
		l.lists[i].add(ref)
		l.last = i
		return
	}
	l.last = len(l.values)
	l.at[value] = l.last
	l.values, l.lists = append(l.values, value), append(l.lists, list{first: ref})
}

// removeStep is how many lists are gone through under one lock.
const removeStep = 256

// Remove forgets series, given by their references and by all the labels that they
// have. It takes long where these are many; others get their turn meanwhile, and
// may find some of it gone before the rest.
func (x *Index) Remove(refs map[uint64]struct{}, pairs map[labels.Label]struct{}) {
	touched := map[string]bool{}
	for step := range slices.Chunk(slices.Collect(maps.Keys(pairs)), removeStep) {
		x.mu.Lock()
		for _, pair := range step {
			if l := x.names[pair.Name]; l != nil && l.remove(pair.Value, refs) {
				touched[pair.Name] = true
			}
		}
		x.mu.Unlock()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all != nil {
		if rest, ok := x.all.without(refs); ok {
			x.all = &rest
		} else {
			x.all = nil
		}
	}
	for name := range touched {
		switch l := x.names[name]; {
		case l == nil: // another removal came first
		case len(l.at) > 0:
			l.sweep()
		default:
			delete(x.names, name)
			x.order = nil
		}
	}
}

// remove takes series out of the list of a value, and says whether the value is gone with them.
func (l *label) remove(value string, refs map[uint64]struct{}) bool {
	i, ok := l.at[value]
	if !ok {
		return false
	}
	rest, ok := l.lists[i].without(refs)
	l.lists[i] = rest
	if ok {
		return false
	}
	delete(l.at, value)
	l.last = -1
	return true
}

// sweep lets go of the values that are gone.
func (l *label) sweep() {
	values, lists := make([]string, 0, len(l.at)), make([]list, 0, len(l.at))
	for i, value := range l.values {
		if at, ok := l.at[value]; ok && at == i {
			l.at[value] = len(values)
			values, lists = append(values, value), append(lists, l.lists[i])
		}
	}
	l.values, l.lists, l.last = values, lists, -1
}

// Select returns the references of the series that all matchers match, ascending.
// A matcher on a label that a series does not have sees an empty value.
func (x *Index) Select(ctx context.Context, ms ...*labels.Matcher) (index.Postings, error) {
	return tsdb.PostingsForMatchers(ctx, reader{index: x}, ms...)
}

// reader is what Prometheus resolves matchers with; it calls none of the methods
// that are not here.
type reader struct {
	tsdb.IndexReader
	index *Index
}

// Postings returns the references of some values of a label, or all there are.
func (r reader) Postings(ctx context.Context, name string, values ...string) (index.Postings, error) {
	x := r.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	if all, _ := index.AllPostingsKey(); name == all {
		if x.all == nil {
			return index.EmptyPostings(), nil
		}
		it := x.all.iterator()
		return &it, nil
	}
	return x.names[name].union(ctx, values), nil
}

// matchStep is after how many values it is asked whether anybody still wants to know.
const matchStep = 1024

// PostingsForLabelMatching returns the references of the values that match, which
// may take long for each: no lock is held.
func (r reader) PostingsForLabelMatching(ctx context.Context, name string, match func(string) bool) index.Postings {
	x := r.index
	x.mu.RLock()
	var values []string
	if l := x.names[name]; l != nil {
		values = l.values
	}
	x.mu.RUnlock()
	var matching []string
	for i, v := range values {
		if i%matchStep == 0 && ctx.Err() != nil {
			return index.ErrPostings(ctx.Err())
		}
		if match(v) {
			matching = append(matching, v)
		}
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.names[name].union(ctx, matching)
}

// PostingsForAllLabelValues returns the references of the series that have the label.
func (r reader) PostingsForAllLabelValues(ctx context.Context, name string) index.Postings {
	x := r.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	if l := x.names[name]; l != nil {
		return l.union(ctx, slices.Collect(maps.Keys(l.at)))
	}
	return index.EmptyPostings()
}

// union returns the references of the values that are there. Index.mu is held; l may be nil.
func (l *label) union(ctx context.Context, values []string) index.Postings {
	if l == nil {
		return index.EmptyPostings()
	}
	its := make([]iterator, 0, len(values))
	for _, v := range values {
		if i, ok := l.at[v]; ok {
			its = append(its, l.lists[i].iterator())
		}
	}
	pointers := make([]*iterator, len(its))
	for i := range its {
		pointers[i] = &its[i]
	}
	return index.Merge(ctx, pointers...)
}
