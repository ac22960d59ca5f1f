package head

import (
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
// of one series and sorts what it finds; a flush does so for every series.
// Rows stand in pages that never move, but for the first, which grows: a range
// with few samples must not take a page.
type coldRun struct {
	last  map[*Series]uint32 // a series' newest row, plus 1
	pages [][]coldRow
	extra []coldExtra
	rows  uint32
	bytes int // of histograms
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
		row := r.row(stack[i])
		x := sample{t: row.t, v: row.v}
		if row.extra != 0 {
			e := &r.extra[row.extra-1]
			x.st, x.h, x.fh = e.st, e.h, e.fh
		}
		x.addTo(dst)
	}
	return stack
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
