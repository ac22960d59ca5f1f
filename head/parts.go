package head

// partTable finds the parts of a container by the references of their series.
// Those that are written to at one time are mostly neighbours, so that a page is
// seldom empty but for a few: a table takes 9 bytes a part, a map took 22.
type partTable map[uint64]*[partPage]*part

// partPage is how many references a page stands for.
const partPage = 64

// of returns the part of s, or nil.
func (t partTable) of(s *Series) *part {
	if page := t[s.ref/partPage]; page != nil {
		return page[s.ref%partPage]
	}
	return nil
}

// put adds a part of a series that has none.
func (t partTable) put(p *part) {
	page := t[p.series.ref/partPage]
	if page == nil {
		page = new([partPage]*part)
		t[p.series.ref/partPage] = page
	}
	page[p.series.ref%partPage] = p
}

// remove takes out the part of s.
func (t partTable) remove(s *Series) {
	page := t[s.ref/partPage]
	page[s.ref%partPage] = nil
	if *page == [partPage]*part{} {
		delete(t, s.ref/partPage)
	}
}

// each calls f for every part, in no order.
func (t partTable) each(f func(*part)) {
	for _, page := range t {
		for _, p := range page {
			if p != nil {
				f(p)
			}
		}
	}
}
