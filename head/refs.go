package head

// refTable finds what a container holds of its series by their references.
// Those that are written to at one time are mostly neighbours, so that a page is
// seldom empty but for a few: a table takes 10 bytes a series, a map took 22.
type refTable[T any] map[uint64]*[refPage]*T

const (
	// refPage is how many references a page stands for.
	refPage = 16
	// refPageBytes is about what a page takes.
	refPageBytes = refPage*8 + 32
)

// of returns what there is of s, or nil.
func (t refTable[T]) of(s *Series) *T {
	if page := t[s.ref/refPage]; page != nil {
		return page[s.ref%refPage]
	}
	return nil
}

// put adds what is of s, of which there was nothing.
func (t refTable[T]) put(s *Series, x *T) {
	page := t[s.ref/refPage]
	if page == nil {
		page = new([refPage]*T)
		t[s.ref/refPage] = page
	}
	page[s.ref%refPage] = x
}

// remove takes out what is of s.
func (t refTable[T]) remove(s *Series) {
	page := t[s.ref/refPage]
	page[s.ref%refPage] = nil
	if *page == [refPage]*T{} {
		delete(t, s.ref/refPage)
	}
}

// each calls f for everything, in no order.
func (t refTable[T]) each(f func(*T)) {
	for _, page := range t {
		for _, x := range page {
			if x != nil {
				f(x)
			}
		}
	}
}

// bytes is about what the table takes.
func (t refTable[T]) bytes() int { return len(t) * refPageBytes }
