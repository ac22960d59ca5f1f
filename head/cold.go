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
// The floats of a series wait in a stream, in order of arrival. In order of time, as
// they come from a sender that catches up, they take few bytes there. Once coldPack of
// them came late, or they are coldStream, they become a chunk, which takes half as much:
// so much more of a range is there when it is flushed, and its block is that much denser.
// Chunks are kept in order of arrival, too, and are merged by who reads them: merging
// several times gives what merging once does. What a stream does not hold, start
// timestamps and histograms, waits as rows, and so does all that comes after it. Once
// coldRows wait they become chunks, unless there are histograms among them.
//
// The chunks of all series stand one behind the other in pages, each after a header
// with the place of the series' chunk before, from 1 on, and its own length. Pages never
// move, but for the first, which grows: a range with few samples must not take a page.
type coldRun struct {
	series  refTable[coldSeries]
	arena   arena // of the streams
	pages   [][]byte
	bytes   int // of series, rows and pages
	counted int // of its memory, in Head.coldBytes
}

// coldSeries is what a run holds of a series, all of which came in this order: chunks,
// stream, rows. It is one cache line.
type coldSeries struct {
	series *Series
	last   uint64 // the place of its newest chunk; 0 is none
	floats stream
	newest int64       // of the stream
	rows   *ooo.Buffer // nil while there were only floats without start timestamps
}

const (
	// coldPack is how many late samples of a stream make a chunk of it, unless chunks are to
	// hold fewer. Of random times, ever more of them hardly take less each.
	coldPack = 128
	// coldStream is how many samples a stream holds at most: who reads or erases one of them
	// decodes all, with the head's lock; and chunks of more take little less each.
	coldStream = 1024
	// coldRows is how many rows make a chunk: they take ten times a stream's bytes, and the
	// memory of so many stays with each series and range.
	coldRows = 32
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
		r.bytes += coldSeriesBytes
	}
	if c.waiting() == 0 && x.st == 0 && x.kind() == chunkenc.KindFloat {
		c.push(&r.arena, x.t, x.v)
		return c, first
	}
	if c.rows == nil {
		c.rows = &ooo.Buffer{}
		r.bytes += rowsBytes
	}
	before := c.rows.Bytes()
	x.addTo(c.rows)
	r.bytes += c.rows.Bytes() - before
	return c, first
}

const (
	coldSeriesBytes = int(unsafe.Sizeof(coldSeries{}))
	rowsBytes       = int(unsafe.Sizeof(ooo.Buffer{}))
)

// push appends to the stream.
func (c *coldSeries) push(a *arena, t int64, v float64) {
	c.floats.push(a, c.newest, t, v)
	if t > c.newest || c.floats.n == 1 {
		c.newest = t
	}
}

// waiting returns how many rows there are.
func (c *coldSeries) waiting() int {
	if c.rows == nil {
		return 0
	}
	return c.rows.Len()
}

// pack makes a chunk of a stream that is long or has many late samples, and one of as many
// rows as make one, before which the stream came.
func (a *applier) pack(r *coldRun, c *coldSeries) {
	rows := c.waiting() >= min(coldRows, a.target) && c.rows.Floats()
	if c.floats.n > 0 && (rows || c.floats.n >= coldStream || int(c.floats.late) >= min(coldPack, a.target)) {
		a.late.Reset()
		a.stream.late(&a.late, &c.floats, &r.arena, 0, nil, math.MinInt64, math.MaxInt64)
		c.last = a.packRun(r, a.merge(nil, &a.late)[0], c.last)
		r.arena.clear(&c.floats)
		c.newest = 0
	}
	if rows {
		c.last = a.packRun(r, a.merge(nil, c.rows)[0], c.last)
		c.rows.Reset()
	}
}

// packRun makes a chunk of a run of floats, at most coldStream, which came after the chunk
// at prev, and returns its place.
func (a *applier) packRun(r *coldRun, run *chunkenc.Samples, prev uint64) (at uint64) {
	a.chunk = a.enc.AppendFloats(a.chunk[:0], run, false)
	return r.put(a.chunk, prev)
}

// repack makes a chunk of what is left of the one at a place, there if it fits, and
// returns its place. What it was made of is no longer needed.
func (a *applier) repack(r *coldRun, run *chunkenc.Samples, at uint64) uint64 {
	a.chunk = a.enc.AppendFloats(a.chunk[:0], run, false)
	data := r.from(at)
	header := binary.BigEndian.Uint64(data)
	prev, n := header>>16, uint64(len(a.chunk))
	if n > header&math.MaxUint16 {
		return r.put(a.chunk, prev)
	}
	binary.BigEndian.PutUint64(data, prev<<16|n)
	copy(data[coldHeader:], a.chunk)
	return at
}

// put copies a chunk, which came after the one at prev, and returns its place.
func (r *coldRun) put(chunk []byte, prev uint64) (at uint64) {
	last := len(r.pages) - 1
	if last < 0 {
		r.pages, last = append(r.pages, nil), 0
	} else if len(r.pages[last])+coldHeader+len(chunk) > coldPage {
		r.pages, last = append(r.pages, make([]byte, 0, coldPage)), last+1
		r.bytes += coldPage
	}
	page := r.pages[last]
	at, before := uint64(last)*coldPage+uint64(len(page))+1, cap(page)
	page = binary.BigEndian.AppendUint64(page, prev<<16|uint64(len(chunk)))
	page = append(page, chunk...)
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
	dec    chunkenc.Decoder
	run    chunkenc.Samples
	chain  []chunkenc.Chunk
	stream streamReader
}

// copy puts the samples of s where they are to be merged from, both empty yet. Of chunks
// and stream what is in order of time goes to runs, the stream whole; from the first
// sample on that is not, the others in [lo, hi] go to late in order of arrival, where a
// chunk takes the place of all that it was made of.
func (c *coldReader) copy(runs *runList, late *ooo.Buffer, r *coldRun, s *Series, lo, hi int64) {
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
		if run.Len() > 0 && late.Len() == 0 && runs.endsBefore(run.T[0]) {
			runs.next(run.Kind).Append(run)
		} else {
			late.Run(run)
		}
	}
	switch {
	case of.floats.n == 0:
	case of.floats.late == 0 && late.Len() == 0 && runs.endsBefore(of.floats.firstTime(&r.arena, 0)):
		run := runs.next(chunkenc.KindFloat)
		n := len(run.T)
		c.stream.run(run, &of.floats, &r.arena, 0)
		appendStarts(run, n, nil)
	default:
		c.stream.late(late, &of.floats, &r.arena, 0, nil, lo, hi)
	}
	if of.rows != nil {
		of.rows.CopyRange(late, lo, hi)
	}
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
// is left. What is left of a chunk takes its place, or, where it does not fit, its place
// among those of s; the bytes of the old one stay until the run goes then.
func (a *applier) eraseCold(r *coldRun, s *Series, lo, hi int64) (empty bool) {
	c := r.series.of(s)
	a.eraseStream(r, c, lo, hi)
	if c.rows != nil {
		before := c.rows.Bytes()
		a.late.Reset()
		c.rows.Take(&a.late, lo, hi)
		r.bytes += c.rows.Bytes() - before
	}
	for at, newer := c.last, uint64(0); at != 0; {
		chunk, prev := r.chunk(at)
		left := at // what is left of it, or else the one before
		if a.cold.decode(&chunk, lo, hi).Len() > 0 {
			left = prev
			run := a.cold.decode(&chunk, math.MinInt64, math.MaxInt64)
			if run.Cut(lo, hi); run.Len() > 0 {
				left = a.repack(r, run, at)
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
	if empty = c.last == 0 && c.floats.n == 0 && c.waiting() == 0; empty {
		r.series.remove(s)
		r.bytes -= coldSeriesBytes
		if c.rows != nil {
			r.bytes -= rowsBytes + c.rows.Bytes()
		}
	}
	return empty
}

// eraseStream takes the samples in [lo, hi] out of the stream of c.
func (a *applier) eraseStream(r *coldRun, c *coldSeries, lo, hi int64) {
	if c.floats.n == 0 {
		return
	}
	ts, vs := a.stream.columns(&c.floats, &r.arena, 0)
	if !slices.ContainsFunc(ts, func(t int64) bool { return t >= lo && t <= hi }) {
		return
	}
	r.arena.clear(&c.floats)
	c.newest = 0
	for i, t := range ts {
		if t < lo || t > hi {
			c.push(&r.arena, t, vs[i])
		}
	}
}

// gone says whether all that a run holds of s is erased.
func (r *coldRun) gone(s *Series, erased tombstones.Intervals) bool {
	var c coldReader
	var runs runList
	var late ooo.Buffer
	c.copy(&runs, &late, r, s, math.MinInt64, math.MaxInt64)
	for _, run := range runs.list {
		late.Run(run)
	}
	left := late.Len()
	for _, i := range erased {
		left -= late.Count(i.Mint, i.Maxt) // they do not overlap
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
	return samples + int(c.floats.n) + c.waiting(), bytes
}

// memory returns the bytes that the run holds.
func (r *coldRun) memory() int { return coldRunBytes + r.series.bytes() + r.arena.bytes() + r.bytes }
