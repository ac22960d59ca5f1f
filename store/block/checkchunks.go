package block

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/rwsink/rwsink/chunkenc"
)

// segmentHead is how a segment of chunks begins: magic, version, padding.
var segmentHead = []byte{0x85, 0xbd, 0x40, 0xdd, 1, 0, 0, 0}

// checkedSegment is a segment of chunks and what of it is referred to.
type checkedSegment struct {
	path string
	data []byte // nil when it cannot be read
	used []usedEntry
}

// usedEntry is an entry that something refers to; to is 0 where it is damaged.
type usedEntry struct{ from, to int64 }

func segmentName(i int) string { return filepath.Join(chunksName, fmt.Sprintf("%06d", i+1)) }

// openSegments maps the segments of chunks.
func (c *checker) openSegments() {
	n := 0
	entries, err := os.ReadDir(c.path(chunksName))
	if err != nil {
		c.damage(c.path(chunksName), 0, "%w", err)
		c.partial = true
	}
	for _, e := range entries {
		var i int
		if _, err := fmt.Sscanf(e.Name(), "%06d", &i); err == nil && e.Name() == fmt.Sprintf("%06d", i) {
			n = max(n, i)
		}
	}
	for _, f := range c.Info.Files {
		var i int
		if _, err := fmt.Sscanf(f.Name, segmentPattern, &i); err == nil && f.Name == segmentName(i-1) {
			n = max(n, i)
		}
	}
	for i := range min(n, 1<<20) {
		s := &checkedSegment{path: c.path(segmentName(i)), data: c.open(segmentName(i))}
		if s.data != nil && !bytes.HasPrefix(s.data, segmentHead) {
			c.damage(s.path, 0, "begins with %x, want %x", s.data[:min(len(s.data), len(segmentHead))], segmentHead)
		}
		c.segments = append(c.segments, s)
	}
}

const segmentPattern = chunksName + "/%06d"

// segmentEntry is an entry of a segment: enc | data, and the offset behind it.
type segmentEntry struct {
	enc  chunkenc.Encoding
	data []byte
	end  int64
	crc  uint32
}

// readEntry reads the entry at an offset of a segment and verifies its checksum.
func readEntry(b []byte, offset int64) (e segmentEntry, err error) {
	if offset < int64(len(segmentHead)) || offset >= int64(len(b)) {
		return e, fmt.Errorf("no entry can be there in a segment of %d bytes", len(b))
	}
	size, k := binary.Uvarint(b[offset:min(int64(len(b)), offset+chunks.MaxChunkLengthFieldSize)])
	if k <= 0 || size > uint64(len(b)) {
		return e, errors.New("the length of the entry makes no sense")
	}
	begin := offset + int64(k)
	end := begin + 1 + int64(size)
	if end+crc32.Size > int64(len(b)) {
		return e, fmt.Errorf("an entry of %d bytes in the last %d of the segment", size, int64(len(b))-offset)
	}
	e = segmentEntry{chunkenc.Encoding(b[begin]), b[begin+1 : end], end + crc32.Size, binary.BigEndian.Uint32(b[end:])}
	if got := crc32.Checksum(b[begin:end], castagnoli); got != e.crc {
		return e, fmt.Errorf("crc32c %08x, want %08x", got, e.crc)
	}
	if len(e.data) == 0 || e.data[0] != byte(e.enc) {
		return e, fmt.Errorf("an entry of encoding %v does not begin with it", e.enc)
	}
	return e, nil
}

// entry reads the entry that ref refers to and notes that it is used; nil when
// there is no such segment, or it was named already.
func (c *checker) entry(ref uint64) (s *checkedSegment, offset int64, e segmentEntry, err error) {
	n, at := chunks.BlockChunkRef(ref).Unpack()
	if n >= len(c.segments) {
		return nil, 0, e, fmt.Errorf("segment %d, but there are %d", n+1, len(c.segments))
	}
	if s = c.segments[n]; s.data == nil {
		return nil, 0, e, nil
	}
	offset = int64(at)
	e, err = readEntry(s.data, offset)
	used := usedEntry{offset, e.end}
	if err != nil {
		used.to = 0
	}
	s.used = append(s.used, used)
	return s, offset, e, err
}

// checkChunk checks a chunk that the index refers to at an offset; who says whose it is.
func (c *checker) checkChunk(at int64, who string, m chunks.Meta) {
	c.Chunks++
	s, offset, e, err := c.entry(uint64(m.Ref))
	switch {
	case s == nil && err != nil:
		c.partial = true
		c.damage(c.path(indexName), at, "%s is in %w", who, err)
		return
	case s == nil:
		c.partial = true
		return
	}
	if err == nil {
		err = c.decode(m, e)
	}
	if err != nil {
		c.partial = true
		if err != errColumn {
			c.damage(s.path, offset, "%s: %w", who, err)
		}
	}
}

// errColumn says that a chunk's time column was named as damaged already.
var errColumn = errors.New("the time column is damaged")

// decode checks what is in a chunk.
func (c *checker) decode(m chunks.Meta, e segmentEntry) error {
	chunk, err := chunkenc.Open(e.data)
	if err != nil {
		return err
	}
	c.encodings[chunk.Enc.String()] = true
	if ref, ok := chunkenc.TimeRef(e.data); ok {
		if chunk.Times, err = c.column(ref); err != nil {
			return err
		}
	}
	c.samples.Reset(chunk.Kind())
	if err := c.dec.Decode(&c.samples, &chunk); err != nil {
		return err
	}
	t := c.samples.T
	for i := 1; i < len(t); i++ {
		if t[i] <= t[i-1] {
			return fmt.Errorf("sample %d at %d is not after the one before", i, t[i])
		}
	}
	if first, last := t[0], t[len(t)-1]; first != m.MinTime || last != m.MaxTime {
		return fmt.Errorf("from %d to %d, the index says %d to %d", first, last, m.MinTime, m.MaxTime)
	}
	c.Samples += uint64(len(t))
	c.minT, c.maxT = min(c.minT, m.MinTime), max(c.maxT, m.MaxTime)
	return nil
}

// column checks a shared time column when it is named first. The error is
// errColumn when it was named as damaged, any other is of the one who refers to it.
func (c *checker) column(ref uint64) (*chunkenc.TimeColumn, error) {
	if col, known := c.columns[ref]; known {
		if col == nil {
			return nil, errColumn
		}
		return col, nil
	}
	s, offset, e, err := c.entry(ref)
	if s == nil && err != nil {
		return nil, fmt.Errorf("the time column is in %w", err)
	}
	if s != nil && err == nil && e.enc != chunkenc.EncTime {
		s.used = s.used[:len(s.used)-1]
		return nil, fmt.Errorf("the entry at %d of %s is not a time column", offset, filepath.Base(s.path))
	}
	c.columns[ref] = nil
	if s == nil {
		return nil, errColumn
	}
	col := &chunkenc.TimeColumn{Data: e.data}
	if err == nil {
		_, err = c.dec.Times(nil, col)
	}
	if err != nil {
		c.damage(s.path, offset, "time column: %w", err)
		return nil, errColumn
	}
	c.encodings[chunkenc.EncTime.String()] = true
	c.Columns++
	c.columns[ref] = col
	return col, nil
}

// checkGaps checks what nothing refers to.
func (c *checker) checkGaps() {
	for _, s := range c.segments {
		if s.data == nil {
			continue
		}
		slices.SortFunc(s.used, func(a, b usedEntry) int { return cmp.Compare(a.from, b.from) })
		end := int64(len(segmentHead))
		for i, u := range append(s.used, usedEntry{from: int64(len(s.data))}) {
			if i > 0 && u.from == s.used[i-1].from {
				if !c.partial {
					c.damage(s.path, u.from, "two refer to this entry")
				}
				continue
			}
			if end > 0 && u.from > end {
				c.checkGap(s, end, u.from)
			}
			end = u.to // 0 where it is not known
		}
	}
}

// checkGap checks a stretch that nothing refers to: a fault, unless what could
// is damaged; then its entries are verified.
func (c *checker) checkGap(s *checkedSegment, from, to int64) {
	if !c.partial {
		c.damage(s.path, from, "nothing refers to %d bytes", to-from)
		return
	}
	for from < to {
		e, err := readEntry(s.data[:to], from)
		if err == nil && e.enc == chunkenc.EncTime {
			_, err = c.dec.Times(nil, &chunkenc.TimeColumn{Data: e.data})
		} else if err == nil {
			_, err = chunkenc.Open(e.data)
		}
		if err != nil {
			c.damage(s.path, from, "%w", err)
		}
		if e.end == 0 {
			return
		}
		from = e.end
	}
}
