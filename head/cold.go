package head

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// coldRun holds the samples of a container whose range is long over. It has
// nothing of what a part has for those to come, tails, slots or a place among the
// parts of its series, so that memory follows what is written and not how many
// series and ranges it is spread over.
//
// The samples of a series wait as rows, in order of arrival. Once they are coldPack
// they become a chunk, in a third of the memory: so much more of a range is
// there when it is flushed, and its block is that much denser. Chunks are kept
// in order of arrival, too, and are merged by who reads them: merging several
// times gives what merging once does.
//
// The chunks of all series stand one behind the other in pages, each after a header
// with the place of the series' chunk before, from 1 on, and its own length. Pages never
// move, but for the first, which grows: a range with few samples must not take a page.
type coldRun struct {
	series  refTable[coldSeries]
	pages   [][]byte
	bytes   int // of series and pages
	counted int // of its memory, in Head.coldBytes
}

// coldSeries is what a run holds of a series: 72 bytes.
type coldSeries struct {
	series *Series
	rows   ooo.Buffer
	last   uint64 // the place of its newest chunk; 0 is none
}

const (
	// coldPack is how many floats become a chunk. Of random times, ever more of them
	// hardly take less each; and so many, 16 bytes each, wait in each series and range.
	coldPack = 32
	// coldPage is how many bytes of chunks a page holds.
	coldPage = 64 << 10
	// coldHeader is what stands before a chunk: 6 bytes of place, 2 of length.
	coldHeader = 8
	// coldRunBytes is about what a run and its container take beside all that.
	coldRunBytes = 512
)

// add appends a sample of s and returns what the run holds of s; first says that
// there was nothing.
func (r *coldRun) add(s *Series, x *sample) (c *coldSeries, first bool) {
	c = r.series.of(s)
	if first = c == nil; first {
		c = &coldSeries{series: s}
		r.series.put(s, c)
		r.bytes += c.bytes()
	}
	before := c.rows.Bytes()
	x.addTo(&c.rows)
	r.bytes += c.rows.Bytes() - before
	return c, first
}

// full says whether the rows are to be packed. Histograms are not.
func (c *coldSeries) full() bool { return c.rows.Len() >= coldPack && c.rows.Floats() }

// bytes returns the memory of a series beside its chunks.
func (c *coldSeries) bytes() int { return int(unsafe.Sizeof(*c)) + c.rows.Bytes() }

// pack makes a chunk of rows that are full.
func (a *applier) pack(r *coldRun, c *coldSeries) {
	c.last = a.packRun(r, a.merge(nil, &c.rows)[0], c.last)
	c.rows.Reset()
}

// packRun makes a chunk of a run of floats, that came after the one at prev, and
// returns its place.
func (a *applier) packRun(r *coldRun, run *chunkenc.Samples, prev uint64) (at uint64) {
	a.chunk = a.enc.AppendFloats(a.chunk[:0], run, false)
	last := len(r.pages) - 1
	if last < 0 {
		r.pages, last = append(r.pages, nil), 0
	} else if len(r.pages[last])+coldHeader+len(a.chunk) > coldPage {
		r.pages, last = append(r.pages, make([]byte, 0, coldPage)), last+1
		r.bytes += coldPage
	}
	page := r.pages[last]
	at, before := uint64(last)*coldPage+uint64(len(page))+1, cap(page)
	page = binary.BigEndian.AppendUint64(page, prev<<16|uint64(len(a.chunk)))
	page = append(page, a.chunk...)
	r.bytes += cap(page) - before
	r.pages[last] = page
	return at
}

// from returns the page of a chunk, from its header on.
func (r *coldRun) from(at uint64) []byte { return r.pages[(at-1)/coldPage][(at-1)%coldPage:] }

// chunk returns the chunk at a place, and the place of the one before.
func (r *coldRun) chunk(at uint64) (chunk chunkenc.Chunk, prev uint64) {
	data := r.from(at)
	header := binary.BigEndian.Uint64(data)
	chunk, err := chunkenc.Open(data[coldHeader : coldHeader+header&math.MaxUint16])
	if err != nil {
		panic(fmt.Sprintf("BUG: a chunk in memory does not open: %v", err))
	}
	return chunk, header >> 16
}

// link has the chunk at a place follow the one at prev.
func (r *coldRun) link(at, prev uint64) {
	data := r.from(at)
	header := binary.BigEndian.Uint64(data)
	binary.BigEndian.PutUint64(data, prev<<16|header&math.MaxUint16)
}

// coldReader holds the scratch memory of reading runs. The caller has the head's
// lock, or the run is of a frozen container.
type coldReader struct {
	dec   chunkenc.Decoder
	run   chunkenc.Samples
	chain []chunkenc.Chunk
}

// copy appends to dst the samples of s in [lo, hi] in order of arrival, where
// a chunk takes the place of all that it was made of.
func (c *coldReader) copy(dst *ooo.Buffer, r *coldRun, s *Series, lo, hi int64) {
	of := r.series.of(s)
	if of == nil {
		return
	}
	c.chain = c.chain[:0]
	for at := of.last; at != 0; {
		chunk, prev := r.chunk(at)
		c.chain = append(c.chain, chunk)
		at = prev
	}
	for i := range slices.Backward(c.chain) {
		run := c.decode(&c.chain[i], lo, hi)
		for k := range run.T {
			x := sampleOf(run, k)
			x.addTo(dst)
		}
	}
	of.rows.CopyRange(dst, lo, hi)
}

// decode returns what of a chunk lies in [lo, hi], valid until the next call.
func (c *coldReader) decode(chunk *chunkenc.Chunk, lo, hi int64) *chunkenc.Samples {
	c.run.Reset(chunkenc.KindFloat)
	if err := c.dec.DecodeRange(&c.run, chunk, lo, hi); err != nil {
		panic(fmt.Sprintf("BUG: a chunk in memory does not decode: %v", err))
	}
	return &c.run
}

// eraseCold takes the samples of s in [lo, hi] out of a run and says whether none
// is left. What is left of a chunk is a new one in its place among those of s; the
// bytes of the old one stay until the run goes.
func (a *applier) eraseCold(r *coldRun, s *Series, lo, hi int64) (empty bool) {
	c := r.series.of(s)
	before := c.bytes()
	a.late.Reset()
	c.rows.Take(&a.late, lo, hi)
	r.bytes += c.bytes() - before
	for at, newer := c.last, uint64(0); at != 0; {
		chunk, prev := r.chunk(at)
		left := at // what is left of it, or else the one before
		if a.cold.decode(&chunk, lo, hi).Len() > 0 {
			left = prev
			run := a.cold.decode(&chunk, math.MinInt64, math.MaxInt64)
			if run.Cut(lo, hi); run.Len() > 0 {
				left = a.packRun(r, run, prev)
			}
			if newer == 0 {
				c.last = left
			} else {
				r.link(newer, left)
			}
		}
		if left != prev {
			newer = left
		}
		at = prev
	}
	if empty = c.rows.Len() == 0 && c.last == 0; empty {
		r.series.remove(s)
		r.bytes -= c.bytes()
	}
	return empty
}

// gone says whether all that a run holds of s is erased.
func (r *coldRun) gone(s *Series, erased tombstones.Intervals) bool {
	var c coldReader
	var all ooo.Buffer
	c.copy(&all, r, s, math.MinInt64, math.MaxInt64)
	left := all.Len()
	for _, i := range erased {
		left -= all.Count(i.Mint, i.Maxt) // they do not overlap
	}
	return left == 0
}

// size returns how many samples of s the run holds, and the bytes of those that are packed.
func (r *coldRun) size(s *Series) (samples, bytes int) {
	c := r.series.of(s)
	if c == nil {
		return 0, 0
	}
	for at := c.last; at != 0; {
		chunk, prev := r.chunk(at)
		samples, bytes = samples+int(chunk.N), bytes+len(chunk.Data)
		at = prev
	}
	return samples + c.rows.Len(), bytes
}

// memory returns the bytes that the run holds.
func (r *coldRun) memory() int { return coldRunBytes + r.series.bytes() + r.bytes }
