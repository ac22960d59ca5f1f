package block

import (
	"context"
	"errors"
	"math"
	"runtime/debug"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/vfs"
)

// Cursor walks all series of a block in order of labels, and reads the index
// once for each. Its chunks are copies: they can be read without a fault whatever
// becomes of the files. It serves one goroutine, which must
// hold a reference to the block.
type Cursor struct {
	reader   *Reader
	postings index.Postings
	ref      storage.SeriesRef
	labels   labels.Labels
}

// NewCursor returns a cursor before the first series.
func (b *Block) NewCursor(ctx context.Context) (c *Cursor, err error) {
	defer caught(debug.SetPanicOnFault(true), func(fault error) { c, err = nil, b.Corrupt(indexName, fault) })
	name, value := index.AllPostingsKey()
	p, err := b.index.Postings(ctx, name, value)
	if err != nil {
		return nil, b.Corrupt(indexName, err)
	}
	return &Cursor{reader: &Reader{block: b, copies: true}, postings: p}, nil
}

// Next goes to the next series; false when there is none, or the error is set.
func (c *Cursor) Next() (ok bool, err error) {
	b := c.reader.block
	defer caught(debug.SetPanicOnFault(true), func(fault error) { ok, err = false, b.Corrupt(indexName, fault) })
	if !c.postings.Next() {
		if err := c.postings.Err(); err != nil {
			return false, b.Corrupt(indexName, err)
		}
		return false, nil
	}
	c.reader.copied = c.reader.copied[:0]
	c.ref = c.postings.At()
	if err := c.reader.readSeries(c.ref); err != nil {
		return false, err
	}
	c.labels = c.reader.builder.Labels()
	return true, nil
}

// Labels returns those of the series at hand.
func (c *Cursor) Labels() labels.Labels { return c.labels }

// Chunks returns all chunks of the series at hand; they are valid until the next call of Next.
func (c *Cursor) Chunks() (out []chunkenc.Chunk, err error) {
	defer caught(debug.SetPanicOnFault(true), func(fault error) { out, err = nil, c.reader.block.Corrupt(chunksName, fault) })
	return c.reader.open(c.ref, math.MinInt64, math.MaxInt64)
}

// Sound has Chunks return, of this series and of all later ones, those chunks alone that
// can be read to their last sample, and tell lost of the others, which are damaged.
func (c *Cursor) Sound(lost func(minT, maxT int64, why error)) { c.reader.lost = lost }

// openSound is openOne, but that it leaves out a chunk that does not read to its last
// sample, and tells r.lost of it.
func (r *Reader) openSound(dst []chunkenc.Chunk, m chunks.Meta, erased tombstones.Intervals) ([]chunkenc.Chunk, error) {
	out, err := r.openDecoded(dst, m, erased)
	if errors.As(err, new(*vfs.CorruptError)) {
		r.lost(m.MinTime, m.MaxTime, err)
		return dst, nil
	}
	return out, err
}

// openDecoded is openOne of a chunk that is decoded, too.
func (r *Reader) openDecoded(dst []chunkenc.Chunk, m chunks.Meta, erased tombstones.Intervals) (out []chunkenc.Chunk, err error) {
	defer caught(debug.SetPanicOnFault(true), func(fault error) { out, err = dst, r.block.Corrupt(chunksName, fault) })
	if out, err = r.openOne(dst, m, erased); err != nil {
		return dst, err
	}
	for i := len(dst); i < len(out); i++ {
		r.samples.Reset(out[i].Kind())
		if err := r.dec.Decode(&r.samples, &out[i]); err != nil {
			return dst, r.block.Corrupt(chunksName, err)
		}
	}
	return out, nil
}
