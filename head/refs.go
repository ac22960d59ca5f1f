package head

import "slices"

// refTable finds what a container holds of its series by their references.
// Those that are written to at one time are mostly neighbours, so that a page is
// seldom empty but for a few: a table takes 9 bytes a series, a map took 22, and
// hashing for each sample. The zero value is an empty table.
type refTable[T any] struct {
	nodes []*refNode[T] // of neighbouring references, from base*refNodePages*refPage on
	base  uint64
	taken int // bytes
}

type refNode[T any] [refNodePages]*[refPage]*T

const (
	// refPage is how many references a page stands for, refNodePages how many pages a node has.
	refPage      = 16
	refNodePages = 64
	refPageBytes = 8 * refPage
	refNodeBytes = 8 * refNodePages
)

// of returns what there is of s, or nil.
func (t *refTable[T]) of(s *Series) *T {
	if page := t.page(s.ref); page != nil {
		return page[s.ref%refPage]
	}
	return nil
}

// page returns the page of a reference, or nil.
func (t *refTable[T]) page(ref uint64) *[refPage]*T {
	i := ref/(refNodePages*refPage) - t.base
	if i >= uint64(len(t.nodes)) || t.nodes[i] == nil {
		return nil
	}
	return t.nodes[i][ref/refPage%refNodePages]
}

// put adds what is of s, of which there was nothing.
func (t *refTable[T]) put(s *Series, x *T) {
	page := t.page(s.ref)
	if page == nil {
		page = t.add(s.ref)
	}
	page[s.ref%refPage] = x
}

// add adds the page of a reference.
func (t *refTable[T]) add(ref uint64) *[refPage]*T {
	number := ref / (refNodePages * refPage)
	if len(t.nodes) == 0 {
		t.base = number
	}
	before := cap(t.nodes)
	if number < t.base {
		t.nodes = slices.Insert(t.nodes, 0, make([]*refNode[T], t.base-number)...)
		t.base = number
	} else if n := int(number-t.base) + 1; n > len(t.nodes) {
		t.nodes = append(t.nodes, make([]*refNode[T], n-len(t.nodes))...)
	}
	t.taken += 8 * (cap(t.nodes) - before)
	at := &t.nodes[number-t.base]
	if *at == nil {
		*at = new(refNode[T])
		t.taken += refNodeBytes
	}
	page := new([refPage]*T)
	t.taken += refPageBytes
	(*at)[ref/refPage%refNodePages] = page
	return page
}

// remove takes out what is of s, of which there is something.
func (t *refTable[T]) remove(s *Series) {
	page := t.page(s.ref)
	if page[s.ref%refPage] = nil; *page == [refPage]*T{} {
		t.nodes[s.ref/(refNodePages*refPage)-t.base][s.ref/refPage%refNodePages] = nil
		t.taken -= refPageBytes
	}
}

// each calls f for everything, in order of references.
func (t *refTable[T]) each(f func(*T)) {
	for _, node := range t.nodes {
		if node == nil {
			continue
		}
		for _, page := range node {
			if page == nil {
				continue
			}
			for _, x := range page {
				if x != nil {
					f(x)
				}
			}
		}
	}
}

// bytes is what the table takes.
func (t *refTable[T]) bytes() int { return t.taken }
