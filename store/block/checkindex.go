package block

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/encoding"
	"github.com/prometheus/prometheus/tsdb/index"
)

// The layout of Prometheus's index.
const (
	indexTOCLen  = 6*8 + 4
	seriesAlign  = 16 // a series' reference is its offset over this
	indexVersion = 2
)

// indexChecker checks one index file.
type indexChecker struct {
	*checker
	path   string
	b      index.ByteSlice // the plain index
	packed *packedIndex    // what b is, or nil
	toc    *index.TOC
	reader *index.Reader
	lists  []postingsList
	series []checkedSeries // by reference
	labels int             // of all series
	spans  []span          // what of the file is accounted for
	faulty bool
}

// postingsList is an entry of the table of postings.
type postingsList struct {
	label  labels.Label
	offset uint64
}

// span is a part of a file, the end excluded.
type span struct{ from, to int64 }

func (c *indexChecker) damage(offset int64, format string, args ...any) {
	c.faulty, c.partial = true, true
	if c.packed != nil {
		format, args = "unpacked, at %d: "+format, append([]any{offset}, args...)
		offset = c.packed.place(offset)
	}
	c.checker.damage(c.path, offset, format, args...)
}

// checkIndex checks the index and the chunks that it refers to. The error is ctx's.
func (c *checker) checkIndex(ctx context.Context) (err error) {
	b := c.open(indexName)
	if b == nil {
		return nil
	}
	ic := &indexChecker{checker: c, path: c.path(indexName), b: byteSlice(b)}
	// The library trusts offsets whose checksums are right.
	defer func() {
		if r := recover(); r != nil {
			ic.damage(0, "cannot be read: %v", r)
		}
	}()
	if isPacked(b) && !ic.unpack(b) || !ic.open() {
		return nil
	}
	if err := ic.checkSeries(ctx); err != nil {
		return err
	}
	if err := ic.checkPostings(ctx); err != nil {
		return err
	}
	if !ic.faulty {
		ic.checkSpans()
		ic.checkStones()
	}
	return nil
}

// checkStones checks that what is deleted is of series that there are.
func (c *indexChecker) checkStones() {
	for _, ref := range slices.Sorted(maps.Keys(c.stones)) {
		_, ok := slices.BinarySearchFunc(c.series, uint64(ref), func(s checkedSeries, ref uint64) int { return cmp.Compare(s.ref, ref) })
		if !ok {
			c.checker.damage(c.checker.path(tombstonesName), 0, "a tombstone of series %d, which the index does not have", ref)
		}
	}
}

// unpackedMemory bounds the pages that a check has at hand.
const unpackedMemory = 4 << 20

// unpack checks all pages of a packed index; false when it cannot be gone through.
func (c *indexChecker) unpack(file []byte) bool {
	p, err := openPacked(c.path, file, NewPages(unpackedMemory))
	if err != nil {
		c.partial = true
		c.fault(err)
		return false
	}
	for i := range p.packed {
		if _, err := p.unpack(int64(i)); err != nil {
			c.faulty, c.partial = true, true
			c.fault(err)
		}
	}
	c.b, c.packed = p, p
	return !c.faulty
}

// open reads what stands around the series and postings; false when that is damaged.
func (c *indexChecker) open() bool {
	end := c.b.Len()
	if end < index.HeaderLen+indexTOCLen {
		c.damage(0, "%d bytes are no index", end)
		return false
	}
	if m := binary.BigEndian.Uint32(c.b.Range(0, 4)); m != index.MagicIndex {
		c.damage(0, "magic 0x%08x, want 0x%08x, or 0x%08x of a packed one", m, index.MagicIndex, packedMagic)
		return false
	}
	if v := int(c.b.Range(4, 5)[0]); v != indexVersion {
		c.damage(4, "version %d, want %d", v, indexVersion)
	}
	toc := int64(end - indexTOCLen)
	var err error
	if c.toc, err = index.NewTOCFromByteSlice(c.b); err != nil {
		c.damage(toc, "table of contents: %w", err)
		return false
	}
	c.spans = append(c.spans, span{0, index.HeaderLen}, span{toc, int64(end)})
	if err := c.whole(c.toc.Symbols); err != nil {
		c.damage(int64(c.toc.Symbols), "symbols: %w", err)
	}
	if err := c.whole(c.toc.PostingsTable); err != nil {
		c.damage(int64(c.toc.PostingsTable), "table of postings: %w", err)
	}
	if c.faulty {
		return false
	}
	err = index.ReadPostingsOffsetTable(c.b, c.toc.PostingsTable, func(name, value []byte, offset uint64, _ int) error {
		c.lists = append(c.lists, postingsList{labels.Label{Name: string(name), Value: string(value)}, offset})
		return nil
	})
	if err != nil {
		c.damage(int64(c.toc.PostingsTable), "table of postings: %w", err)
		return false
	}
	if c.reader, err = index.NewReader(c.b, index.DecodePostingsRaw); err != nil {
		c.damage(0, "%w", err)
		return false
	}
	return true
}

// whole checks the section len <4b> | bytes | crc32c <4b> at an offset.
func (c *indexChecker) whole(offset uint64) error {
	if offset > uint64(c.b.Len()) {
		return errors.New("it is to begin behind the end of the file")
	}
	d := encoding.NewDecbufAt(c.b, int(offset), castagnoli)
	if d.Err() != nil {
		return d.Err()
	}
	c.spans = append(c.spans, span{int64(offset), int64(offset) + 4 + int64(d.Len()) + 4})
	return nil
}

// checkSeries checks every series and its chunks.
func (c *indexChecker) checkSeries(ctx context.Context) error {
	name, value := index.AllPostingsKey()
	all, err := c.reader.Postings(ctx, name, value)
	if err != nil {
		return ctx.Err() // checkPostings names it, with its place
	}
	var builder labels.ScratchBuilder
	var metas []chunks.Meta
	var last labels.Labels
	for n := 0; all.Next(); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		ref := uint64(all.At())
		offset := int64(ref) * seriesAlign
		if err := c.reader.Series(storage.SeriesRef(ref), &builder, &metas); err != nil {
			c.damage(offset, "series %d: %w", ref, err)
			continue
		}
		ls := builder.Labels()
		if n > 0 && labels.Compare(last, ls) >= 0 {
			c.damage(offset, "series %s comes after %s", ls, last)
		}
		last = ls
		size, k := binary.Uvarint(c.b.Range(int(offset), min(int(offset)+binary.MaxVarintLen32, c.b.Len())))
		c.spans = append(c.spans, span{offset, offset + int64(k) + int64(size) + 4})
		c.series = append(c.series, checkedSeries{ref, ls})
		c.labels += ls.Len()
		c.Series++
		if len(metas) == 0 {
			c.damage(offset, "series %s has no chunks", ls)
		}
		for i, m := range metas {
			if m.MinTime > m.MaxTime || i > 0 && m.MinTime <= metas[i-1].MaxTime {
				c.damage(offset, "series %s: chunk %d from %d to %d is not behind the one before", ls, i, m.MinTime, m.MaxTime)
			}
			c.checkChunk(offset, fmt.Sprintf("series %s, chunk %d", ls, i), m)
		}
	}
	return nil
}

// checkPostings checks the lists of postings against the series.
func (c *indexChecker) checkPostings(ctx context.Context) error {
	slices.SortFunc(c.series, func(a, b checkedSeries) int { return cmp.Compare(a.ref, b.ref) })
	sound, total := !c.faulty, 0
	allName, allValue := index.AllPostingsKey()
	for n, list := range c.lists {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		what := fmt.Sprintf("postings of %s=%q", list.label.Name, list.label.Value)
		isAll := list.label == labels.Label{Name: allName, Value: allValue}
		if isAll {
			what = "postings of all series"
		}
		if err := c.whole(list.offset); err != nil {
			c.damage(int64(list.offset), "%s: %w", what, err)
			sound = false
			continue
		}
		_, p, err := index.DecodePostingsRaw(encoding.NewDecbufAt(c.b, int(list.offset), castagnoli))
		if err != nil {
			c.damage(int64(list.offset), "%s: %w", what, err)
			continue
		}
		count := 0
		for last := uint64(0); p.Next(); last = uint64(p.At()) {
			count++
			ref := uint64(p.At())
			if ref <= last {
				c.damage(int64(list.offset), "%s: series %d comes after %d", what, ref, last)
			}
			i, known := slices.BinarySearchFunc(c.series, ref, func(s checkedSeries, ref uint64) int { return cmp.Compare(s.ref, ref) })
			if sound && (!known || !isAll && c.series[i].labels.Get(list.label.Name) != list.label.Value) {
				c.damage(int64(list.offset), "%s: series %d is none of them", what, ref)
			}
		}
		if !isAll {
			total += count
		}
	}
	if sound && total != c.labels {
		c.damage(int64(c.toc.PostingsTable), "%d postings, but the series have %d labels", total, c.labels)
	}
	return nil
}

// checkSpans checks that between what was read there is nothing but padding.
func (c *indexChecker) checkSpans() {
	slices.SortFunc(c.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	end := int64(0)
	for _, s := range c.spans {
		if s.from < end || s.from-end >= seriesAlign {
			c.damage(end, "the next part of the file begins at %d", s.from)
		} else {
			for i, x := range c.b.Range(int(end), int(s.from)) {
				if x != 0 {
					c.damage(end+int64(i), "padding is 0x%02x, want 0", x)
				}
			}
		}
		end = s.to
	}
}
