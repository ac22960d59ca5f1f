package block

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
)

// Prometheus's index in its version 2, byte for byte as its library writes it,
// is given to a packer. In steps:
//
//  1. while series are added their labels get numbers: symbols as they come,
//     pairs of name and value as they come; series are in order of labels, so
//     that most labels are those of the series before,
//  2. symbols are sorted and written; what a series refers to is their rank:
//     len <4b> | count <4b> | symbol: len <uvarint>, bytes ... | crc32c <4b>
//  3. series are written, each at a multiple of 16:
//     len <uvarint> | labels <uvarint> | name, value <uvarint> ...
//     | chunks <uvarint> | minT <varint>, maxT-minT, reference <uvarint>,
//     then minT - last maxT, maxT-minT <uvarint>, reference - last <varint> ...
//     | crc32c <4b>
//  4. postings are written, first those of all series, then those of each pair in
//     order, each at a multiple of 4; the references of some pairs at a time are
//     gathered in one walk over the series:
//     len <4b> | count <4b> | reference <4b> ... | crc32c <4b>
//  5. their table: len <4b> | count <4b> | 2 <1b>, name, value <uvarint, bytes>,
//     offset <uvarint> ... | crc32c <4b>
//  6. the table of contents: <8b> for symbols, series, label indices, their
//     table, postings, the table of postings | crc32c <4b>
//
// There are no label indices: Prometheus reads none any more.

// indexWriter gathers what the index says of a block, and writes it.
type indexWriter struct {
	series  []indexSeries
	chunks  []chunkEntry // of all series, one behind the other
	labels  []uint32     // likewise, numbers of pairs
	symbols map[string]uint32
	texts   []string // of symbols, by number
	pairs   map[labels.Label]uint32
	of      []indexPair // by number

	symbolRank []uint32 // by number
	pairRank   []uint32 // likewise
	order      []uint32 // numbers by rank: of symbols, then of pairs
	offsets    []uint64 // of postings: of all series, then of pairs by rank
	gathered   []uint32 // references of series, grouped by pair
	at         []uint32 // where in gathered the next one of a pair goes, by rank
	buf        []byte   // waits to be put
	sum        uint32   // checksum of what was put of the section at hand; 0 between two
}

// indexSeries is a series; its labels and chunks begin where those of the one before end.
type indexSeries struct {
	labels               labels.Labels
	labelsEnd, chunksEnd int    // in indexWriter.labels and chunks
	ref                  uint32 // where it stands in the plain index, over seriesAlign
}

// indexPair is a name and value, by the numbers of their symbols, and how many series have it.
type indexPair struct{ name, value, count uint32 }

// chunkEntry is what the index says of a chunk.
type chunkEntry struct {
	ref        chunks.ChunkRef
	minT, maxT int64
}

// reset lets go of a block.
func (x *indexWriter) reset() {
	x.series, x.chunks, x.labels = kept(x.series), kept(x.chunks), kept(x.labels)
	x.texts, x.of = kept(x.texts), kept(x.of)
	x.symbolRank, x.pairRank, x.order = kept(x.symbolRank), kept(x.pairRank), kept(x.order)
	x.offsets, x.gathered, x.at, x.buf = kept(x.offsets), kept(x.gathered), kept(x.at), kept(x.buf)
	x.symbols, x.pairs, x.sum = keptMap(x.symbols), keptMap(x.pairs), 0
	x.symbol("") // Prometheus's index has it in any case
}

// last returns the labels of the series that was added last.
func (x *indexWriter) last() (ls labels.Labels, ok bool) {
	if len(x.series) == 0 {
		return ls, false
	}
	return x.series[len(x.series)-1].labels, true
}

// add takes a series whose chunks were put behind the others in x.chunks.
func (x *indexWriter) add(ls labels.Labels) {
	before := x.labels // of the series before
	if n := len(x.series); n > 1 {
		before = before[x.series[n-2].labelsEnd:]
	}
	i := 0
	ls.Range(func(l labels.Label) {
		var n uint32
		if i < len(before) && x.is(before[i], l) {
			n = before[i]
		} else {
			n = x.pair(l)
		}
		i++
		x.of[n].count++
		x.labels = append(x.labels, n)
	})
	x.series = append(x.series, indexSeries{labels: ls, labelsEnd: len(x.labels), chunksEnd: len(x.chunks)})
}

func (x *indexWriter) is(n uint32, l labels.Label) bool {
	return x.texts[x.of[n].name] == l.Name && x.texts[x.of[n].value] == l.Value
}

// pair returns the number of a name and value.
func (x *indexWriter) pair(l labels.Label) uint32 {
	n, ok := x.pairs[l]
	if !ok {
		n = uint32(len(x.of))
		x.pairs[l] = n
		x.of = append(x.of, indexPair{name: x.symbol(l.Name), value: x.symbol(l.Value)})
	}
	return n
}

// symbol returns the number of a symbol.
func (x *indexWriter) symbol(s string) uint32 {
	n, ok := x.symbols[s]
	if !ok {
		n = uint32(len(x.texts))
		x.symbols[s] = n
		x.texts = append(x.texts, s)
	}
	return n
}

// write writes the index of all series that were added to w.
func (x *indexWriter) write(ctx context.Context, w io.Writer, p *packer) error {
	var toc index.TOC
	p.begin(w)
	x.buf = append(binary.BigEndian.AppendUint32(x.buf[:0], index.MagicIndex), index.FormatV2)
	x.put(p)
	toc.Symbols = uint64(p.pos)
	if err := x.writeSymbols(p); err != nil {
		return err
	}
	toc.Series = uint64(p.pos)
	p.next()
	if err := x.writeSeries(ctx, p); err != nil {
		return err
	}
	toc.LabelIndices, toc.Postings = uint64(p.pos), uint64(p.pos)
	p.next()
	if err := x.writePostings(ctx, p); err != nil {
		return err
	}
	toc.LabelIndicesTable, toc.PostingsTable = uint64(p.pos), uint64(p.pos)
	p.next()
	if err := x.writeTable(p); err != nil {
		return err
	}
	for _, at := range []uint64{toc.Symbols, toc.Series, toc.LabelIndices, toc.LabelIndicesTable, toc.Postings, toc.PostingsTable} {
		x.buf = binary.BigEndian.AppendUint64(x.buf, at)
	}
	x.endSection(p)
	return p.finish()
}

// put writes what is in x.buf.
func (x *indexWriter) put(p *packer) {
	p.write(x.buf)
	x.buf = x.buf[:0]
}

// beginSection writes the length of a section, which its checksum does not cover, and
// begins the size bytes with the count of entries.
func (x *indexWriter) beginSection(p *packer, size, count int) {
	x.buf = binary.BigEndian.AppendUint32(x.buf, uint32(size))
	x.put(p)
	x.buf = binary.BigEndian.AppendUint32(x.buf, uint32(count))
}

// putSummed is put of a part of a section.
func (x *indexWriter) putSummed(p *packer) {
	x.sum = crc32.Update(x.sum, castagnoli, x.buf)
	x.put(p)
}

// putFull is putSummed once there is enough in x.buf.
func (x *indexWriter) putFull(p *packer) {
	if len(x.buf) >= packedPage {
		x.putSummed(p)
	}
}

// endSection writes the rest of a section and its checksum.
func (x *indexWriter) endSection(p *packer) {
	x.putSummed(p)
	x.buf = binary.BigEndian.AppendUint32(x.buf, x.sum)
	x.put(p)
	x.sum = 0
}

func (x *indexWriter) writeSymbols(p *packer) error {
	x.order = numbers(x.order, len(x.texts))
	slices.SortFunc(x.order, func(a, b uint32) int { return strings.Compare(x.texts[a], x.texts[b]) })
	x.symbolRank = ranks(x.symbolRank, x.order)
	size := wordLen
	for _, s := range x.texts {
		size += textLen(s)
	}
	if size > math.MaxUint32 {
		return fmt.Errorf("%w: %d", index.ErrSymbolTableTooLarge, size)
	}
	x.beginSection(p, size, len(x.texts))
	for _, n := range x.order {
		x.buf = appendText(x.buf, x.texts[n])
		x.putFull(p)
	}
	x.endSection(p)
	return nil
}

func (x *indexWriter) writeSeries(ctx context.Context, p *packer) error {
	label, chunk := 0, 0
	for i := range x.series {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s := &x.series[i]
		p.align(seriesAlign)
		if p.pos/seriesAlign > math.MaxUint32 {
			return index.ErrIndexExceeds64GiB
		}
		s.ref = uint32(p.pos / seriesAlign)
		const room = binary.MaxVarintLen64 // for the length
		x.buf = x.appendSeries(append(x.buf, make([]byte, room)...), x.labels[label:s.labelsEnd], x.chunks[chunk:s.chunksEnd])
		label, chunk = s.labelsEnd, s.chunksEnd
		size := uint64(len(x.buf) - room)
		from := room - uvarintLen(size)
		binary.PutUvarint(x.buf[from:], size)
		x.buf = binary.BigEndian.AppendUint32(x.buf, crc32.Checksum(x.buf[room:], castagnoli))
		p.write(x.buf[from:])
		x.buf = x.buf[:0]
	}
	return nil
}

func (x *indexWriter) appendSeries(dst []byte, pairs []uint32, list []chunkEntry) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(pairs)))
	for _, n := range pairs {
		dst = binary.AppendUvarint(dst, uint64(x.symbolRank[x.of[n].name]))
		dst = binary.AppendUvarint(dst, uint64(x.symbolRank[x.of[n].value]))
	}
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	last := chunkEntry{}
	for i, c := range list {
		if i == 0 {
			dst = binary.AppendVarint(dst, c.minT)
			dst = binary.AppendUvarint(dst, uint64(c.maxT-c.minT))
			dst = binary.AppendUvarint(dst, uint64(c.ref))
		} else {
			dst = binary.AppendUvarint(dst, uint64(c.minT-last.maxT))
			dst = binary.AppendUvarint(dst, uint64(c.maxT-c.minT))
			dst = binary.AppendVarint(dst, int64(c.ref-last.ref))
		}
		last = c
	}
	return dst
}

// gatherLeast is how many references are gathered at a time at least; otherwise
// it is gatherLists lists as long as that of all series.
const gatherLeast, gatherLists = 1 << 16, 4

func (x *indexWriter) writePostings(ctx context.Context, p *packer) error {
	key := func(n uint32) uint64 {
		return uint64(x.symbolRank[x.of[n].name])<<32 | uint64(x.symbolRank[x.of[n].value])
	}
	x.order = numbers(x.order, len(x.of))
	slices.SortFunc(x.order, func(a, b uint32) int { return cmp.Compare(key(a), key(b)) })
	x.pairRank = ranks(x.pairRank, x.order)
	x.gathered = x.gathered[:0]
	for i := range x.series {
		x.gathered = append(x.gathered, x.series[i].ref)
	}
	x.offsets = append(x.offsets[:0], x.writeList(p, x.gathered))
	most := max(gatherLeast, gatherLists*len(x.series))
	for from := 0; from < len(x.order); {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		to := x.gatherFrom(from, most)
		begin := uint32(0)
		for _, end := range x.at {
			x.offsets = append(x.offsets, x.writeList(p, x.gathered[begin:end]))
			begin = end
		}
		from = to
	}
	return nil
}

// gatherFrom gathers the references of as many pairs, from that rank on, as there
// are most in all, but of one pair at least. It returns the rank of the next pair;
// x.at has the ends of their lists.
func (x *indexWriter) gatherFrom(from, most int) (to int) {
	x.at = x.at[:0]
	total := 0
	for to = from; to < len(x.order); to++ {
		n := int(x.of[x.order[to]].count)
		if to > from && total+n > most {
			break
		}
		x.at = append(x.at, uint32(total))
		total += n
	}
	x.gathered = slices.Grow(x.gathered[:0], total)[:total]
	label := 0
	for i := range x.series {
		s := &x.series[i]
		for _, n := range x.labels[label:s.labelsEnd] {
			if k := int(x.pairRank[n]); k >= from && k < to {
				x.gathered[x.at[k-from]] = s.ref
				x.at[k-from]++
			}
		}
		label = s.labelsEnd
	}
	return to
}

// writeList writes a list of postings and returns where it is.
func (x *indexWriter) writeList(p *packer, refs []uint32) (offset uint64) {
	p.align(wordLen)
	offset = uint64(p.pos)
	x.beginSection(p, wordLen*(1+len(refs)), len(refs))
	for _, ref := range refs {
		x.buf = binary.BigEndian.AppendUint32(x.buf, ref)
		x.putFull(p)
	}
	x.endSection(p)
	return offset
}

// writeTable writes the table of postings.
func (x *indexWriter) writeTable(p *packer) error {
	name := func(i int) (name, value string) { // of the i-th list
		if i == 0 {
			return index.AllPostingsKey()
		}
		pair := &x.of[x.order[i-1]]
		return x.texts[pair.name], x.texts[pair.value]
	}
	size := wordLen
	for i, offset := range x.offsets {
		n, v := name(i)
		size += 1 + textLen(n) + textLen(v) + uvarintLen(offset)
	}
	if size > math.MaxUint32 {
		return fmt.Errorf("%w: %d", index.ErrPostingsOffsetTableTooLarge, size)
	}
	x.beginSection(p, size, len(x.offsets))
	for i, offset := range x.offsets {
		n, v := name(i)
		x.buf = append(x.buf, 2) // the texts that follow
		x.buf = appendText(appendText(x.buf, n), v)
		x.buf = binary.AppendUvarint(x.buf, offset)
		x.putFull(p)
	}
	x.endSection(p)
	return nil
}

// numbers returns the numbers below n, in the memory of dst.
func numbers(dst []uint32, n int) []uint32 {
	dst = dst[:0]
	for i := range n {
		dst = append(dst, uint32(i))
	}
	return dst
}

// ranks returns where in order each number stands, in the memory of dst.
func ranks(dst, order []uint32) []uint32 {
	dst = slices.Grow(dst[:0], len(order))[:len(order)]
	for rank, n := range order {
		dst[n] = uint32(rank)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func textLen(s string) int { return uvarintLen(uint64(len(s))) + len(s) }

func uvarintLen(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }
