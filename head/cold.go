package head

import (
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// coldRun holds the samples of a container whose range is long over: rows in
// order of arrival, without tails, chunks or anything else a series would keep
// for it, so that memory follows what is written and not how many series and
// ranges it is spread over.
//
// A series' rows are a chain from its newest row back. A read walks the chain
// of one series and sorts what it finds; a flush groups all rows by series first.
// Rows stand in pages that never move, but for the first, which grows: a range
// with few samples must not take a page.
type coldRun struct {
	last  map[*Series]uint32 // a series' newest row, plus 1
	pages [][]coldRow
	extra []coldExtra
	rows  uint32
	bytes int // of histograms

	counted int // of its memory, in Head.coldBytes
}

// coldRow is one sample: 24 bytes.
type coldRow struct {
	t     int64
	v     float64
	prev  uint32 // the series' row before, plus 1; 0 is none
	extra uint32 // what it has beside, plus 1; 0 is nothing
}

// coldExtra is what most rows do not have: a start timestamp or a histogram.
type coldExtra struct {
	st int64
	h  *histogram.Histogram
	fh *histogram.FloatHistogram
}

// coldPage is how many rows a page holds: 96 KiB.
const coldPage = 4096

// add appends a sample of s; first says that it is the first of s here.
func (r *coldRun) add(s *Series, x *sample) (first bool) {
	prev := r.last[s]
	row := coldRow{t: x.t, v: x.v, prev: prev}
	if x.st != 0 || x.kind() != chunkenc.KindFloat {
		r.extra = append(r.extra, coldExtra{x.st, x.h, x.fh})
		row.extra = uint32(len(r.extra))
		r.bytes += ooo.HistogramBytes(x.h, x.fh)
	}
	switch {
	case r.rows == 0:
		r.pages = append(r.pages, nil)
	case r.rows%coldPage == 0:
		r.pages = append(r.pages, make([]coldRow, 0, coldPage))
	}
	page := &r.pages[len(r.pages)-1]
	*page = append(*page, row)
	r.rows++
	r.last[s] = r.rows
	return prev == 0
}

// copyTo appends to dst the samples of s in [lo, hi] in order of arrival.
func (r *coldRun) copyTo(dst *ooo.Buffer, s *Series, lo, hi int64, stack []uint32) []uint32 {
	stack = stack[:0]
	for at := r.last[s]; at != 0; {
		row := r.row(at)
		if row.t >= lo && row.t <= hi {
			stack = append(stack, at)
		}
		at = row.prev
	}
	for i := len(stack) - 1; i >= 0; i-- {
		r.addRow(dst, r.row(stack[i]))
	}
	return stack
}

// coldOrder is the rows of a run grouped by series: those of the k-th one are
// rows[ends[k-1]:ends[k]], plus 1, in order of arrival. It is used again for other runs.
type coldOrder struct {
	rows []uint32
	ends []uint32
	of   []uint32 // scratch: which series a row is of, plus 1; 0 is none any more
}

// order groups the rows of all series, which are list, in two passes over them:
// chains, walked one after another, would wait for memory at every row. The rows
// stay where they are: their copies would be as large as the run, which may be
// all that a head may hold of them.
func (r *coldRun) order(o *coldOrder, list []*Series) {
	n := int(r.rows) + 1
	o.of = slices.Grow(o.of[:0], n)[:n]
	o.ends = slices.Grow(o.ends[:0], len(list)+1)[:len(list)+1]
	clear(o.of)
	clear(o.ends)
	for k, s := range list {
		o.of[r.last[s]] = uint32(k) + 1
	}
	for at := r.rows; at > 0; at-- { // a row comes before the one that is linked to it
		if k := o.of[at]; k != 0 {
			o.ends[k]++
			o.of[r.row(at).prev] = k // the 0th has no row
		}
	}
	for k := range list {
		o.ends[k+1] += o.ends[k]
	}
	n = int(o.ends[len(list)])
	o.rows = slices.Grow(o.rows[:0], n)[:n]
	for at := uint32(1); at <= r.rows; at++ {
		if k := o.of[at]; k != 0 {
			o.rows[o.ends[k-1]] = at
			o.ends[k-1]++
		}
	}
}

// coldAhead is how many rows are fetched at a time.
const coldAhead = 32

// copyOrdered appends to dst the samples of the k-th series.
func (r *coldRun) copyOrdered(dst *ooo.Buffer, o *coldOrder, k int) {
	from := uint32(0)
	if k > 0 {
		from = o.ends[k-1]
	}
	var near [coldAhead]coldRow
	for list := o.rows[from:o.ends[k]]; len(list) > 0; {
		n := min(len(list), coldAhead)
		for i, at := range list[:n] { // none waits for the one before
			near[i] = *r.row(at)
		}
		for i := range near[:n] {
			r.addRow(dst, &near[i])
		}
		list = list[n:]
	}
}

// addRow appends a row to dst.
func (r *coldRun) addRow(dst *ooo.Buffer, row *coldRow) {
	if row.extra == 0 {
		dst.Float(row.t, 0, row.v)
		return
	}
	e := &r.extra[row.extra-1]
	x := sample{t: row.t, st: e.st, v: row.v, h: e.h, fh: e.fh}
	x.addTo(dst)
}

// count returns how many samples of s the run holds.
func (r *coldRun) count(s *Series) (n int) {
	for at := r.last[s]; at != 0; at = r.row(at).prev {
		n++
	}
	return n
}

func (r *coldRun) row(at uint32) *coldRow { return &r.pages[(at-1)/coldPage][(at-1)%coldPage] }

// memory returns the bytes that the run holds.
func (r *coldRun) memory() int {
	if r.rows == 0 {
		return 0
	}
	rows := cap(r.pages[0]) + (len(r.pages)-1)*coldPage
	return coldRunBytes + rows*int(unsafe.Sizeof(coldRow{})) + cap(r.extra)*int(unsafe.Sizeof(coldExtra{})) +
		r.bytes + len(r.last)*coldSeriesBytes
}

// coldRunBytes is about what a run and its container take beside its samples.
const coldRunBytes = 512

// coldSeriesBytes is about what an entry of the map of chains takes.
const coldSeriesBytes = 32
