package block

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// A packed index is Prometheus's index, the plain one, whose larger part stands
// in compressed pages; docs/format/block.md has the bytes:
//
//	magic <4b> | version <1b> | zeros <3b>
//	first    the plain index up to its series: header and symbols, as they stand
//	pages    of its series, then of its lists of postings
//	last     the plain index from its table of postings on, as it stands
//	table    for each page: size <4b> | crc32c <4b>
//	footer   series <8b> | postings <8b> | table <8b> | end <8b> | pages <4b> | crc32c <4b>
//
// What a reader looks at for each label and each matcher, symbols and the table
// of postings, is not packed: Prometheus's reader takes it as a whole each time.
const (
	packedMagic   = 0x52575358 // "RWSX"
	packedVersion = 1
	packedHeadLen = 8
	packedRowLen  = 8           // of a page in the table
	packedFootLen = 4*8 + 4 + 4 // the footer
	packedPage    = 32 << 10    // bytes of the plain index in a page; the last of a part may be shorter
	packedAlign   = seriesAlign // of the first series; that of postings is wordLen
	wordLen       = 4           // of a posting
	maxPlain      = math.MaxInt64 >> 8
)

// plainParts says where in a plain index the parts begin that a packed one
// treats differently, and where the last ends.
type plainParts struct{ series, postings, table, end int64 }

func (p plainParts) valid() error {
	if p.series < 0 || p.series > p.postings || p.postings > p.table || p.table > p.end || p.end > min(maxPlain, math.MaxInt) {
		return fmt.Errorf("series at %d, postings at %d, their table at %d, the end at %d", p.series, p.postings, p.table, p.end)
	}
	return nil
}

// seriesPages is how many of the pages are of series, pages how many there are.
func (p plainParts) seriesPages() int64 { return (p.postings - p.series + packedPage - 1) / packedPage }
func (p plainParts) pages() int64 {
	return p.seriesPages() + (p.table-p.postings+packedPage-1)/packedPage
}

// page returns which page has the byte at off, of series or postings.
func (p plainParts) page(off int64) int64 {
	if off < p.postings {
		return (off - p.series) / packedPage
	}
	return p.seriesPages() + (off-p.postings)/packedPage
}

// bounds returns where in the plain index page i begins and ends, and whether it is of postings.
func (p plainParts) bounds(i int64) (from, to int64, words bool) {
	if k := i - p.seriesPages(); k >= 0 {
		from = p.postings + k*packedPage
		return from, min(from+packedPage, p.table), true
	}
	from = p.series + i*packedPage
	return from, min(from+packedPage, p.postings), false
}

// packer writes a packed index to out. It is given the bytes of the plain one
// from the first to the last, and told where a part ends. The first error of
// writing is out's, who keeps it.
type packer struct {
	parts  plainParts
	enc    *zstd.Encoder
	out    *bufio.Writer
	pos    int64  // in the plain index
	part   part   // that is at hand
	page   []byte // of the plain index, to be packed
	planes []byte // scratch, as are those below
	packed []byte
	rows   []byte // the table
}

// part is one of those that a packed index treats differently.
type part uint8

const (
	firstPart part = iota
	seriesPart
	postingsPart
	lastPart
)

// reset lets go of an index.
func (p *packer) reset() {
	*p = packer{enc: p.enc, out: p.out, page: p.page[:0], planes: p.planes, packed: kept(p.packed), rows: kept(p.rows)}
	p.out.Reset(nil)
}

// begin begins an index in w.
func (p *packer) begin(w io.Writer) {
	p.out.Reset(w)
	p.packed = append(binary.BigEndian.AppendUint32(p.packed[:0], packedMagic), packedVersion, 0, 0, 0)
	_, _ = p.out.Write(p.packed)
}

// write takes the next bytes of the plain index.
func (p *packer) write(b []byte) {
	p.pos += int64(len(b))
	if p.part == firstPart || p.part == lastPart {
		_, _ = p.out.Write(b)
		return
	}
	for len(b) > 0 {
		n := min(len(b), packedPage-len(p.page))
		p.page, b = append(p.page, b[:n]...), b[n:]
		if len(p.page) == packedPage {
			p.pack()
		}
	}
}

var zeros [packedAlign]byte

// align writes zeros up to a multiple of n, at most packedAlign.
func (p *packer) align(n int64) { p.write(zeros[:-p.pos&(n-1)]) }

// next says that a part has ended.
func (p *packer) next() {
	switch p.part {
	case firstPart:
		p.align(packedAlign)
		p.parts.series = p.pos
	case seriesPart:
		p.align(wordLen)
		p.pack()
		p.parts.postings = p.pos
	case postingsPart:
		p.pack()
		p.parts.table = p.pos
	}
	p.part++
}

// pack writes the page at hand.
func (p *packer) pack() {
	if len(p.page) == 0 {
		return
	}
	src := p.page
	if p.part == postingsPart {
		p.planes = slices.Grow(p.planes[:0], packedPage)[:len(src)]
		splitWords(p.planes, src)
		src = p.planes
	}
	p.packed = p.enc.EncodeAll(src, p.packed[:0])
	p.rows = binary.BigEndian.AppendUint32(p.rows, uint32(len(p.packed)))
	p.rows = binary.BigEndian.AppendUint32(p.rows, crc32.Checksum(p.packed, castagnoli))
	_, _ = p.out.Write(p.packed)
	p.page = p.page[:0]
}

// finish ends the index: all of the plain one was written.
func (p *packer) finish() error {
	p.parts.end = p.pos
	if err := p.parts.valid(); err != nil {
		return fmt.Errorf("pack the index: %w", err)
	}
	rows := p.rows
	for _, n := range []int64{p.parts.series, p.parts.postings, p.parts.table, p.parts.end} {
		rows = binary.BigEndian.AppendUint64(rows, uint64(n))
	}
	rows = binary.BigEndian.AppendUint32(rows, uint32(p.parts.pages()))
	p.rows = binary.BigEndian.AppendUint32(rows, crc32.Checksum(rows, castagnoli))
	_, _ = p.out.Write(p.rows)
	return p.out.Flush()
}

// splitWords writes to dst the differences of the big-endian words of src, each
// from the one before, first the highest bytes of all, then the second, and so
// on; what is left over stands as it is. dst is as long as src.
func splitWords(dst, src []byte) {
	n, last := len(src)/wordLen, uint32(0)
	for i := range n {
		x := binary.BigEndian.Uint32(src[i*wordLen:])
		d := x - last
		last = x
		dst[i], dst[n+i], dst[2*n+i], dst[3*n+i] = byte(d>>24), byte(d>>16), byte(d>>8), byte(d)
	}
	copy(dst[n*wordLen:], src[n*wordLen:])
}

// joinWords undoes splitWords.
func joinWords(dst, src []byte) {
	n, last := len(src)/wordLen, uint32(0)
	for i := range n {
		last += uint32(src[i])<<24 | uint32(src[n+i])<<16 | uint32(src[2*n+i])<<8 | uint32(src[3*n+i])
		binary.BigEndian.PutUint32(dst[i*wordLen:], last)
	}
	copy(dst[n*wordLen:], src[n*wordLen:])
}

// packedIndex reads a packed index as if it were the plain one: it is what
// Prometheus's reader takes. Safe for concurrent use. A damaged page is a panic
// with a pageFault, since that reader asks for bytes only: see caught.
type packedIndex struct {
	plainParts
	path        string
	file        []byte // mapped
	first, last []byte // of the plain index, within file
	packed      []packedRow
	pages       *Pages
}

// packedRow is a page: where it stands in the file, and what it holds, while that is at hand.
type packedRow struct {
	offset    int64
	size, crc uint32
	held      atomic.Pointer[page]
}

// pageFault is the panic of a packedIndex.
type pageFault struct{ err error }

func (f pageFault) Error() string { return f.err.Error() }

// isPacked says whether a file that begins so is a packed index.
func isPacked(head []byte) bool {
	return bytes.HasPrefix(head, binary.BigEndian.AppendUint32(nil, packedMagic))
}

// openPacked reads what stands around the pages of a packed index; file stays
// borrowed. What it allocates is bounded by the length of the file.
func openPacked(path string, file []byte, pages *Pages) (*packedIndex, error) {
	bad := func(offset int, format string, args ...any) (*packedIndex, error) {
		return nil, damaged(path, int64(offset), fmt.Errorf("packed index: "+format, args...))
	}
	foot := len(file) - packedFootLen
	if foot < packedHeadLen {
		return bad(0, "%d bytes are none", len(file))
	}
	if file[4] != packedVersion || file[5] != 0 || file[6] != 0 || file[7] != 0 {
		return bad(4, "version % x, want % x", file[4:8], []byte{packedVersion, 0, 0, 0})
	}
	count := int64(binary.BigEndian.Uint32(file[foot+32:]))
	table := int64(foot) - count*packedRowLen
	if table < packedHeadLen {
		return bad(foot, "a table of %d pages does not fit", count)
	}
	end := len(file) - crc32.Size
	if got, want := crc32.Checksum(file[table:end], castagnoli), binary.BigEndian.Uint32(file[end:]); got != want {
		return bad(int(table), "the table of pages has the checksum %08x, want %08x", got, want)
	}
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(file[foot+8*i:])) }
	p := &packedIndex{plainParts: plainParts{at(0), at(1), at(2), at(3)}, path: path, file: file, pages: pages}
	if err := p.valid(); err != nil {
		return bad(foot, "%w", err)
	}
	if p.plainParts.pages() != count || packedHeadLen+p.series > table {
		return bad(foot, "%d pages, want %d; first series at %d", count, p.plainParts.pages(), p.series)
	}
	p.first = file[packedHeadLen : packedHeadLen+p.series]
	p.packed = make([]packedRow, count)
	offset := packedHeadLen + p.series
	for i := range p.packed {
		row := file[table+int64(i)*packedRowLen:]
		r := &p.packed[i]
		r.offset, r.size, r.crc = offset, binary.BigEndian.Uint32(row), binary.BigEndian.Uint32(row[4:])
		offset += int64(r.size)
	}
	if offset+p.end-p.table != table {
		return bad(int(table), "pages up to %d and %d bytes do not end at the table", offset, p.end-p.table)
	}
	p.last = file[offset:table]
	return p, nil
}

// Len is the length of the plain index.
func (p *packedIndex) Len() int { return int(p.end) }

// Range returns bytes of the plain index. They are within the mapped file, or of
// a page, which stays as it is as long as anybody has it, or a copy.
//
// Prometheus's reader takes the whole index to look a symbol up, and then the
// symbol by its offset: it gets the first part, which has all symbols. Whatever
// it would read behind that is an error of its own, never other bytes.
func (p *packedIndex) Range(start, end int) []byte {
	if start == 0 && int64(end) == p.end {
		return p.first
	}
	if start < 0 || end < start || int64(end) > p.end {
		panic(pageFault{damaged(p.path, 0, fmt.Errorf("bytes %d to %d of an index of %d", start, end, p.end))})
	}
	b, n := p.from(int64(start)), end-start
	if n <= len(b) {
		return b[:n:n]
	}
	out := make([]byte, 0, min(n, maxAhead)) // n is what the file says
	for out = append(out, b...); len(out) < n; {
		b = p.from(int64(start + len(out)))
		out = append(out, b[:min(len(b), n-len(out))]...)
	}
	return out
}

// maxAhead bounds what is allocated for a range before its bytes are there.
const maxAhead = 1 << 20

// from returns the bytes at off of the plain index, up to the end of the part or page.
func (p *packedIndex) from(off int64) []byte {
	switch {
	case off < p.series:
		return p.first[off:]
	case off >= p.table:
		return p.last[off-p.table:]
	}
	i := p.page(off)
	begin, _, _ := p.bounds(i)
	row := &p.packed[i]
	if q := row.held.Load(); q != nil {
		return q.use()[off-begin:]
	}
	data, err := p.unpack(i)
	if err != nil {
		panic(pageFault{err})
	}
	return p.pages.keep(&row.held, data)[off-begin:]
}

// unpack returns page i; the error is a *vfs.CorruptError.
func (p *packedIndex) unpack(i int64) ([]byte, error) {
	row := &p.packed[i]
	bad := func(err error) error {
		return damaged(p.path, row.offset, fmt.Errorf("page %d of the index: %w", i, err))
	}
	from, to, words := p.bounds(i)
	src := p.file[row.offset : row.offset+int64(row.size)]
	if got := crc32.Checksum(src, castagnoli); got != row.crc {
		return nil, bad(fmt.Errorf("checksum %08x, want %08x", got, row.crc))
	}
	data, err := p.pages.decoder.DecodeAll(src, make([]byte, 0, to-from))
	switch {
	case err != nil:
		return nil, bad(err)
	case int64(len(data)) != to-from:
		return nil, bad(fmt.Errorf("%d bytes, want %d", len(data), to-from))
	case words:
		joined := make([]byte, len(data))
		joinWords(joined, data)
		data = joined
	}
	return data, nil
}

// place returns where in the file the byte at off of the plain index is: for
// what is in a page, where the page is.
func (p *packedIndex) place(off int64) int64 {
	switch {
	case off < p.series:
		return packedHeadLen + off
	case off < p.table:
		return p.packed[p.page(off)].offset
	}
	return int64(len(p.file)) - packedFootLen - int64(len(p.packed))*packedRowLen - (p.end - min(off, p.end))
}
