package transfer

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// A spill takes samples of any series in any order and gives them back range by
// range, series sorted by labels, in bounded memory:
//
//  1. samples are rows, as they come, in one slice of fixed size;
//  2. when it is full the rows are sorted by (range, labels, time, arrival) and
//     written behind each other into one file, each range's part a run: for each
//     series its number, and its samples as chunks;
//  3. a range is read back by walking all of its runs side by side in order of
//     labels; the chunks of one series, in order of the runs, are its layers.
//
// The file has no name from the moment that it is open, so that whatever ends
// the process, nothing of it stays. In memory are the labels of all series, and
// 16 bytes a run.
type spill struct {
	file   *os.File
	size   int64
	series catalog
	spans  spans
	runs   map[int64][]run // by begin of the range

	rows   []row
	extras []extra
	more   int // bytes of extras
	memory int // bytes that rows may take, and extras as many again

	// Scratch of flush.
	merger ooo.Merger
	late   ooo.Buffer
	enc    chunkenc.Encoder
	sealed []chunkenc.Chunk
	record []byte
	out    *bufio.Writer
}

// catalog numbers series.
type catalog struct {
	list   []labels.Labels
	byHash map[uint64][]uint32
	ranks  []uint32 // by number: places in order of labels
	ranked int      // ranks are of all series while there were this many; else of some only
}

// spans numbers the ranges met since the last spill.
type spans struct {
	of      func(t int64) (lo, hi int64)
	begins  []int64
	numbers map[int64]uint32 // by begin
	lo, hi  int64            // the range met last
	number  uint32
}

// row is a sample that waits. 32 bytes.
type row struct {
	t      int64
	bits   uint64
	series uint32
	extra  uint32 // its place in extras, plus 1; 0: a float without a start timestamp
	span   uint32 // its range, by number
	seq    uint32
}

// extra is what few samples have.
type extra struct {
	st int64
	h  *histogram.Histogram
	fh *histogram.FloatHistogram
}

// What a row and an extra take, in bytes; histograms come on top.
const (
	rowBytes   = 32
	extraBytes = 24
)

// run is a part of the file.
type run struct{ offset, size int64 }

// spillPattern is the name of the file, while it has one.
const spillPattern = "import-*.tmp"

// newSpill makes a spill in the directory dir that holds about memory bytes of samples.
func newSpill(dir string, memory int, rangeOf func(t int64) (lo, hi int64)) (*spill, error) {
	f, err := os.CreateTemp(dir, spillPattern)
	if err != nil {
		return nil, fmt.Errorf("make a file to sort samples in: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("make a file to sort samples in: %w", err), f.Close())
	}
	return &spill{
		file: f, series: catalog{byHash: map[uint64][]uint32{}}, spans: spans{of: rangeOf, numbers: map[int64]uint32{}, lo: 1},
		rows: make([]row, 0, max(1, memory/rowBytes)), memory: memory, runs: map[int64][]run{}, out: bufio.NewWriterSize(nil, outBuffer),
	}, nil
}

func (s *spill) close() error { return s.file.Close() }

// number returns the number of a series.
func (c *catalog) number(ls labels.Labels) uint32 {
	h := ls.Hash()
	for _, n := range c.byHash[h] {
		if labels.Equal(c.list[n], ls) {
			return n
		}
	}
	n := uint32(len(c.list))
	c.list = append(c.list, ls)
	c.byHash[h] = append(c.byHash[h], n)
	return n
}

// add takes a sample: of floats bits, of histograms one of the two in e.
func (s *spill) add(series uint32, t int64, bits uint64, e extra) error {
	r := row{t: t, bits: bits, series: series, span: s.spans.enter(t), seq: uint32(len(s.rows))}
	if e != (extra{}) {
		s.extras = append(s.extras, e)
		r.extra = uint32(len(s.extras))
		s.more += extraBytes + ooo.HistogramBytes(e.h, e.fh)
	}
	s.rows = append(s.rows, r)
	if len(s.rows) == cap(s.rows) || s.more > s.memory {
		return s.flush()
	}
	return nil
}

// enter goes to the range of t and returns its number.
func (s *spans) enter(t int64) uint32 {
	if t >= s.lo && t <= s.hi {
		return s.number
	}
	s.lo, s.hi = s.of(t)
	n, ok := s.numbers[s.lo]
	if !ok {
		n = uint32(len(s.begins))
		s.numbers[s.lo] = n
		s.begins = append(s.begins, s.lo)
	}
	s.number = n
	return n
}

func (s *spans) reset() {
	clear(s.numbers)
	s.begins, s.lo, s.hi = s.begins[:0], 1, 0
}

// rank puts the series in order of labels: all of them, or those of the rows only.
func (c *catalog) rank(rows []row) {
	if c.ranked == len(c.list) {
		return
	}
	touched := map[uint32]struct{}{}
	for i := range rows {
		touched[rows[i].series] = struct{}{}
	}
	list := slices.AppendSeq(make([]uint32, 0, len(touched)), maps.Keys(touched))
	slices.SortFunc(list, func(a, b uint32) int { return labels.Compare(c.list[a], c.list[b]) })
	c.ranks = append(c.ranks, make([]uint32, len(c.list)-len(c.ranks))...)
	for i, n := range list {
		c.ranks[n] = uint32(i)
	}
	c.ranked = 0
	if len(list) == len(c.list) {
		c.ranked = len(list)
	}
}

// flush sorts and writes the rows that wait.
func (s *spill) flush() error {
	if len(s.rows) == 0 {
		return nil
	}
	s.series.rank(s.rows)
	ranks := s.series.ranks
	order := func(a, b row) int {
		if a.span != b.span {
			return cmp.Compare(a.span, b.span)
		}
		if a.series != b.series {
			return cmp.Compare(ranks[a.series], ranks[b.series])
		}
		if a.t != b.t {
			return cmp.Compare(a.t, b.t)
		}
		return cmp.Compare(a.seq, b.seq)
	}
	if !slices.IsSortedFunc(s.rows, order) {
		slices.SortFunc(s.rows, order)
	}
	s.out.Reset(s.file)
	for i := 0; i < len(s.rows); {
		j, begin := i, s.size
		for j < len(s.rows) && s.rows[j].span == s.rows[i].span {
			k := j
			for k < len(s.rows) && s.rows[k].series == s.rows[j].series && s.rows[k].span == s.rows[j].span {
				k++
			}
			if err := s.write(s.rows[j:k]); err != nil {
				return err
			}
			j = k
		}
		lo := s.spans.begins[s.rows[i].span]
		s.runs[lo] = append(s.runs[lo], run{begin, s.size - begin})
		i = j
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("sort samples: %w", err)
	}
	clear(s.extras)
	s.rows, s.extras, s.more = s.rows[:0], s.extras[:0], 0
	s.spans.reset()
	return nil
}

// write writes the samples of one series and range:
//
//	series <uvarint> | chunks <uvarint> | chunks times: first <varint> | last - first <uvarint> | len <uvarint> | bytes
func (s *spill) write(rows []row) error {
	s.late.Reset()
	for i := range rows {
		r := &rows[i]
		var e extra
		if r.extra > 0 {
			e = s.extras[r.extra-1]
		}
		if e.h != nil || e.fh != nil {
			s.late.Histogram(r.t, e.st, e.h, e.fh)
		} else {
			s.late.Float(r.t, e.st, math.Float64frombits(r.bits))
		}
	}
	runs, _ := s.merger.Merge(nil, &s.late)
	s.sealed = s.sealed[:0]
	for _, r := range runs {
		s.sealed = s.enc.Seal(s.sealed, r)
	}
	b := binary.AppendUvarint(s.record[:0], uint64(rows[0].series))
	b = binary.AppendUvarint(b, uint64(len(s.sealed)))
	for i := range s.sealed {
		c := &s.sealed[i]
		b = binary.AppendVarint(b, c.MinT)
		b = binary.AppendUvarint(b, uint64(c.MaxT-c.MinT))
		b = binary.AppendUvarint(b, uint64(len(c.Data)))
		b = append(b, c.Data...)
	}
	s.record = b
	s.size += int64(len(b))
	if _, err := s.out.Write(b); err != nil {
		return fmt.Errorf("sort samples: %w", err)
	}
	return nil
}

// begins returns the begins of the ranges that have samples.
func (s *spill) begins() []int64 { return slices.Sorted(maps.Keys(s.runs)) }

const (
	// readBytes is the memory that reading a range takes for its runs together, and
	readBytes = 32 << 20
	// leastRead, mostRead bound what each has of it.
	leastRead, mostRead = 4 << 10, 256 << 10
)

// cursors returns a cursor for each run of the range that begins at lo, in order of arrival.
func (s *spill) cursors(lo int64) (out []cursor) {
	runs := s.runs[lo]
	size := min(max(leastRead, readBytes/max(1, len(runs))), mostRead)
	for _, r := range runs {
		out = append(out, &runCursor{
			spill: s, end: r.size, r: bufio.NewReaderSize(io.NewSectionReader(s.file, r.offset, r.size), size),
		})
	}
	return out
}

// runCursor walks a run.
type runCursor struct {
	spill   *spill
	r       *bufio.Reader
	end     int64 // bytes of the run
	at      int64 // read of them
	number  uint32
	chunks  []chunkenc.Chunk
	dec     chunkenc.Decoder
	samples chunkenc.Samples
}

// ReadByte is for package binary.
func (c *runCursor) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	c.at++
	return b, err
}

func (c *runCursor) labels() labels.Labels { return c.spill.series.list[c.number] }

func (c *runCursor) next() (bool, error) {
	if c.at == c.end {
		return false, nil
	}
	begin := c.at
	if err := c.record(); err != nil {
		return false, fmt.Errorf("read sorted samples: at %d of a run of %d bytes: %w", begin, c.end, err)
	}
	return true, nil
}

// record reads the samples of one series. Nobody else writes the file, but a disk may fail.
func (c *runCursor) record() error {
	number, err := binary.ReadUvarint(c)
	if err != nil {
		return err
	}
	n, err := binary.ReadUvarint(c)
	if err != nil {
		return err
	}
	if number >= uint64(len(c.spill.series.list)) || n == 0 {
		return fmt.Errorf("series %d of %d with %d chunks", number, len(c.spill.series.list), n)
	}
	c.number, c.chunks = uint32(number), c.chunks[:0]
	for range n {
		if err := c.chunk(); err != nil {
			return err
		}
	}
	return nil
}

func (c *runCursor) chunk() error {
	first, err := binary.ReadVarint(c)
	if err != nil {
		return err
	}
	span, err := binary.ReadUvarint(c)
	if err != nil {
		return err
	}
	size, err := binary.ReadUvarint(c)
	if err != nil {
		return err
	}
	if left := c.end - c.at; size > uint64(left) {
		return fmt.Errorf("a chunk of %d bytes, got %d", size, left)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(c.r, data); err != nil {
		return err
	}
	c.at += int64(size)
	chunk, err := chunkenc.Open(data)
	chunk.MinT, chunk.MaxT = first, first+int64(span)
	c.chunks = append(c.chunks, chunk)
	return err
}

func (c *runCursor) layer() ooo.Layer {
	return ooo.Layer{Lo: c.chunks[0].MinT, Hi: c.chunks[len(c.chunks)-1].MaxT, Read: c.read}
}

func (c *runCursor) read(lo, hi int64, emit func(*chunkenc.Samples) error) error {
	for i := range c.chunks {
		chunk := &c.chunks[i]
		if chunk.MaxT < lo || chunk.MinT > hi {
			continue
		}
		c.samples.Reset(chunk.Kind())
		if err := c.dec.DecodeRange(&c.samples, chunk, lo, hi); err != nil {
			return fmt.Errorf("read sorted samples: %w", err)
		}
		if c.samples.Len() == 0 {
			continue
		}
		if err := emit(&c.samples); err != nil {
			return err
		}
	}
	return nil
}
