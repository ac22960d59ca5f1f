package head

import "slices"

// refTable finds what a container holds of its series by their references.
// Those that are written to at one time are mostly neighbours, so that a page is
// seldom empty but for a few: a table takes 9 bytes a series, a map took 22, and
// hashing for each sample. Series that began long after one another are far apart:
// where near would be mostly gaps, nodes are in far. The zero value is an empty table.
type refTable[T any] struct {
	near  []*refNode[T] // by number less base; nil where there is none, or it is in far
	base  uint64
	far   map[uint64]*refNode[T] // by number
	nodes int                    // how many there are
	taken int                    // bytes
}

// refNode has the pages of neighbouring references, from its number times refNodePages*refPage on.
type refNode[T any] [refNodePages]*[refPage]*T

const (
	// refPage is how many references a page stands for, refNodePages how many pages a node has.
	refPage      = 16
	refNodePages = 64
	refPageBytes = 8 * refPage
	refNodeBytes = 8 * refNodePages
	// refGaps bounds the length of near for each node that there is, refNear is what it may have anyway.
	refGaps, refNear = 8, 64
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
	if i := ref/(refNodePages*refPage) - t.base; i < uint64(len(t.near)) && t.near[i] != nil {
		return t.near[i][ref/refPage%refNodePages]
	}
	return t.pageSlow(ref)
}

func (t *refTable[T]) pageSlow(ref uint64) *[refPage]*T {
	if node := t.far[ref/(refNodePages*refPage)]; node != nil {
		return node[ref/refPage%refNodePages]
	}
	return nil
}

// node returns a node by its number, or nil.
func (t *refTable[T]) node(number uint64) *refNode[T] {
	if i := number - t.base; i < uint64(len(t.near)) && t.near[i] != nil {
		return t.near[i]
	}
	return t.far[number]
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
	node := t.node(number)
	if node == nil {
		node = t.addNode(number)
	}
	page := new([refPage]*T)
	t.taken += refPageBytes
	node[ref/refPage%refNodePages] = page
	return page
}

// addNode adds a node, of which there is none.
func (t *refTable[T]) addNode(number uint64) *refNode[T] {
	node := new(refNode[T])
	t.nodes++
	t.taken += refNodeBytes
	if len(t.near) == 0 {
		t.base = number
	}
	first, last := min(t.base, number), max(t.base+uint64(max(len(t.near), 1))-1, number)
	if last-first >= uint64(max(refNear, refGaps*t.nodes, len(t.near))) {
		if t.far == nil {
			t.far = map[uint64]*refNode[T]{}
		}
		t.far[number] = node
		return node
	}
	before := cap(t.near)
	t.near = slices.Insert(t.near, 0, make([]*refNode[T], t.base-first)...)
	t.near = append(t.near, make([]*refNode[T], int(last-first)+1-len(t.near))...)
	t.base = first
	t.taken += 8 * (cap(t.near) - before)
	t.near[number-first] = node
	return node
}

// remove takes out what is of s, of which there is something.
func (t *refTable[T]) remove(s *Series) {
	number := s.ref / (refNodePages * refPage)
	node := t.node(number)
	page := node[s.ref/refPage%refNodePages]
	if page[s.ref%refPage] = nil; *page != [refPage]*T{} {
		return
	}
	node[s.ref/refPage%refNodePages] = nil
	t.taken -= refPageBytes
	if *node != (refNode[T]{}) {
		return
	}
	if i := number - t.base; i < uint64(len(t.near)) && t.near[i] == node {
		t.near[i] = nil
	}
	delete(t.far, number)
	t.nodes--
	t.taken -= refNodeBytes
}

// each calls f for everything, in no order.
func (t *refTable[T]) each(f func(*T)) {
	for _, node := range t.near {
		node.each(f)
	}
	for _, node := range t.far {
		node.each(f)
	}
}

// each calls f for everything in a node, if there is one.
func (n *refNode[T]) each(f func(*T)) {
	if n == nil {
		return
	}
	for _, page := range n {
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

// bytes is about what the table takes.
func (t *refTable[T]) bytes() int { return t.taken }
