// Package postings says which series have a label: what resolves the matchers of a read or a delete.
//
// In come references with their labels, ascending (Add), and what is to be
// forgotten (Remove). Out come ascending references, of a matcher or of several
// (Select); Prometheus's tsdb combines the matchers.
//
//	index.go   labels by name, lists by value
//	list.go    the references of one value: the first, and a uvarint for each step
//	           to the next; most steps take a byte
//
// Series that come one after the other are mostly of one scrape, with the same
// names and many of the same values. So a label is first looked for where that of
// the series before was found, and seldom in a map.
//
// What holds at any moment:
//
//   - A list is ascending, no reference twice. Whoever has references in no order
//     sorts them first.
//   - What a list holds is only appended to, or replaced: an iterator goes on over
//     what there was when it was made, without a lock.
//   - A value without references is gone, a name without values too.
//
// An Index may be used by any goroutine; an iterator serves one.
package postings
