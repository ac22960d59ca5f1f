package postings

import (
	"encoding/binary"
	"sort"

	"github.com/prometheus/prometheus/storage"
)

// list is references in ascending order, at least one. One alone takes no memory
// beside: labels whose values are many, an id or an address, have such lists.
type list struct {
	first uint64
	rest  *rest // nil while there is one
}

// rest is what follows the first reference. It is replaced or appended to.
type rest struct {
	steps []byte // from each reference to the next, uvarint
	last  uint64
	count int    // of steps
	marks []mark // every markEvery steps, for Seek
}

// mark is a reference and where in steps the way on from it begins.
type mark struct {
	ref uint64
	at  int
}

// markEvery is how many steps Seek goes at most, one by one: a quarter of a
// microsecond, for an eighth of a byte a reference.
const markEvery = 128

// add appends a reference above all that are there.
func (l *list) add(ref uint64) {
	if l.rest == nil {
		l.rest = &rest{last: l.first}
	}
	r := l.rest
	if r.count++; r.count%markEvery == 0 {
		r.marks = append(r.marks, mark{r.last, len(r.steps)})
	}
	r.steps = binary.AppendUvarint(r.steps, ref-r.last)
	r.last = ref
}

// without returns the list without what drop says; ok is false when nothing is left.
func (l *list) without(drop map[uint64]struct{}) (out list, ok bool) {
	for it := l.iterator(); it.Next(); {
		if _, dropped := drop[it.ref]; dropped {
			continue
		}
		if ok {
			out.add(it.ref)
		} else {
			out, ok = list{first: it.ref}, true
		}
	}
	return out, ok
}

// iterator goes over what a list held when it was made. It is an index.Postings.
type iterator struct {
	steps []byte
	marks []mark
	at    int    // of the step to the next reference
	ref   uint64 // the current one; before the first Next the first
	state iteratorState
}

type iteratorState uint8

const (
	before iteratorState = iota // of an iterator at the beginning
	within
	behind
)

func (l *list) iterator() iterator {
	it := iterator{ref: l.first}
	if l.rest != nil {
		it.steps, it.marks = l.rest.steps, l.rest.marks
	}
	return it
}

// Next goes to the next reference, the first at the beginning; false when there is none.
func (it *iterator) Next() bool {
	if it.state != within {
		if it.state == before {
			it.state = within
			return true
		}
		return false
	}
	if it.at == len(it.steps) {
		it.state = behind
		return false
	}
	if step := it.steps[it.at]; step < 0x80 {
		it.ref += uint64(step)
		it.at++
		return true
	}
	step, n := binary.Uvarint(it.steps[it.at:])
	it.ref += step
	it.at += n
	return true
}

// Seek goes to the first reference from the current one on that is not below ref;
// false when there is none.
func (it *iterator) Seek(to storage.SeriesRef) bool {
	ref := uint64(to)
	if it.state == before {
		it.state = within
	}
	if it.state == within && it.ref < ref {
		// The last mark that is not above: all before it is too low.
		if i := sort.Search(len(it.marks), func(i int) bool { return it.marks[i].ref > ref }); i > 0 && it.marks[i-1].at > it.at {
			it.ref, it.at = it.marks[i-1].ref, it.marks[i-1].at
		}
	}
	for it.state == within && it.ref < ref {
		it.Next()
	}
	return it.state == within
}

// At returns the current reference.
func (it *iterator) At() storage.SeriesRef { return storage.SeriesRef(it.ref) }

// Err returns nil: memory is read.
func (it *iterator) Err() error { return nil }
