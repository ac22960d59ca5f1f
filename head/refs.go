package head

import "slices"

// refTable finds what a container holds of its series by their references.
// Those that are written to at one time are mostly neighbours, so that a page is
// seldom empty but for a few: a table takes 9 bytes a series, a map took 22, and
// hashing for each sample. The zero value is an empty table.
type refTable[T any] struct {
	numbers []uint64 // of the nodes, ascending
	nodes   []*refNode[T]
	pages   int
}

// refNode has the pages of neighbouring references, from its number times refNodeSpan on.
type refNode[T any] [refNodePages]*[refPage]*T

const (
	// refPage is how many references a page stands for, refNodePages how many pages a node has.
	refPage      = 16
	refNodePages = 64
	refNodeSpan  = refNodePages * refPage
	// What a page and a node take, in bytes.
	refPageBytes = 8 * refPage
	refNodeBytes = 8*refNodePages + 16
)

// find returns where the node of a number is, or would be. Series that began long after one
// another leave gaps, but among the first, or the last, there are mostly none.
func (t *refTable[T]) find(number uint64) (i int, ok bool) {
	n := len(t.numbers)
	if n == 0 {
		return 0, false
	}
	if i := number - t.numbers[0]; i < uint64(n) && t.numbers[i] == number {
		return int(i), true
	}
	if i := uint64(n-1) - (t.numbers[n-1] - number); i < uint64(n) && t.numbers[i] == number {
		return int(i), true
	}
	return slices.BinarySearch(t.numbers, number)
}

// of returns what there is of s, or nil.
func (t *refTable[T]) of(s *Series) *T {
	i, ok := t.find(s.ref / refNodeSpan)
	if !ok {
		return nil
	}
	page := t.nodes[i][s.ref/refPage%refNodePages]
	if page == nil {
		return nil
	}
	return page[s.ref%refPage]
}

// put adds what is of s, of which there was nothing.
func (t *refTable[T]) put(s *Series, x *T) {
	number := s.ref / refNodeSpan
	i, ok := t.find(number)
	if !ok {
		t.numbers = slices.Insert(t.numbers, i, number)
		t.nodes = slices.Insert(t.nodes, i, new(refNode[T]))
	}
	page := &t.nodes[i][s.ref/refPage%refNodePages]
	if *page == nil {
		*page = new([refPage]*T)
		t.pages++
	}
	(*page)[s.ref%refPage] = x
}

// remove takes out what is of s, of which there is something.
func (t *refTable[T]) remove(s *Series) {
	i, _ := t.find(s.ref / refNodeSpan)
	page := &t.nodes[i][s.ref/refPage%refNodePages]
	if (*page)[s.ref%refPage] = nil; **page != [refPage]*T{} {
		return
	}
	*page = nil
	t.pages--
	if *t.nodes[i] == (refNode[T]{}) {
		t.numbers = slices.Delete(t.numbers, i, i+1)
		t.nodes = slices.Delete(t.nodes, i, i+1)
	}
}

// each calls f for everything, in order of references.
func (t *refTable[T]) each(f func(*T)) {
	for _, node := range t.nodes {
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

// bytes is about what the table takes.
func (t *refTable[T]) bytes() int { return t.pages*refPageBytes + len(t.nodes)*refNodeBytes }
