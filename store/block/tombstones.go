package block

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/vfs"
)

// The file tombstones says what of a block is deleted. It is the one file of a
// block that changes: it is replaced as a whole, so that a hard link of it, in a
// snapshot, stays as it was. Whoever reads the block's chunks does not see what
// is deleted: a chunk that a tombstone touches is sealed again without it.

// stones are the tombstones of a block by series; immutable.
type stones map[storage.SeriesRef]tombstones.Intervals

// readTombstones reads the file in a block's directory.
func readTombstones(dir string) (stones, error) {
	path := filepath.Join(dir, tombstonesName)
	if _, err := os.Stat(path); err != nil { // the library takes a missing file for an empty one
		if errors.Is(err, fs.ErrNotExist) {
			err = errMissing
		}
		return nil, damaged(path, 0, err)
	}
	r, _, err := tombstones.ReadTombstones(dir)
	if err != nil {
		return nil, damaged(path, 0, err)
	}
	out := stones{}
	err = r.Iter(func(ref storage.SeriesRef, in tombstones.Intervals) error {
		out[ref] = in
		return nil
	})
	return out, err
}

// openTombstones reads what is deleted of b.
func (b *Block) openTombstones() error {
	erased, err := readTombstones(b.dir)
	var corrupt *vfs.CorruptError
	if errors.As(err, &corrupt) {
		erased, b.lost, b.unsaved = stones{}, err, true
	} else if err != nil {
		return err
	}
	b.stones.Store(&erased)
	return nil
}

// LostTombstones returns why it is not known what is deleted of the block, nil
// when it is. Whoever knows it from elsewhere may Erase it again, and save it.
func (b *Block) LostTombstones() error { return b.lost }

// encode returns the bytes of the file, series in order.
func (s stones) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, tombstones.MagicTombstone)
	b = append(b, 1)
	for _, ref := range slices.Sorted(maps.Keys(s)) {
		for _, i := range s[ref] {
			b = binary.AppendUvarint(b, uint64(ref))
			b = binary.AppendVarint(b, i.Mint)
			b = binary.AppendVarint(b, i.Maxt)
		}
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[5:], castagnoli))
}

// add marks [lo, hi] of a series with these chunks as deleted, no more than they
// reach over; false when they have nothing there.
func (s stones) add(ref storage.SeriesRef, list []chunks.Meta, lo, hi int64) bool {
	if !slices.ContainsFunc(list, func(m chunks.Meta) bool { return m.OverlapsClosedInterval(lo, hi) }) {
		return false
	}
	lo, hi = max(lo, list[0].MinTime), min(hi, list[len(list)-1].MaxTime)
	if (tombstones.Interval{Mint: lo, Maxt: hi}).IsSubrange(s[ref]) {
		return false
	}
	// A copy: readers have the list of before.
	s[ref] = slices.Clone(s[ref]).Add(tombstones.Interval{Mint: lo, Maxt: hi})
	return true
}

// whole says whether all of the chunks is deleted.
func whole(list []chunks.Meta, erased tombstones.Intervals) bool {
	return !slices.ContainsFunc(list, func(m chunks.Meta) bool {
		return !tombstones.Interval{Mint: m.MinTime, Maxt: m.MaxTime}.IsSubrange(erased)
	})
}

// Tombstones returns how many ranges of series are deleted.
func (b *Block) Tombstones() (n int) {
	for _, in := range *b.stones.Load() {
		n += len(in)
	}
	return n
}

// EncodedTombstones returns them as the file has them once they are saved.
func (b *Block) EncodedTombstones() []byte { return b.stones.Load().encode() }

// Erase deletes [lo, hi] (both included) of the series that match all matchers:
// for readers at once, on disk with SaveTombstones. One caller at a time.
func (b *Block) Erase(ctx context.Context, lo, hi int64, ms ...*labels.Matcher) (err error) {
	list, err := b.Select(ctx, ms...)
	if err != nil {
		return err
	}
	defer caught(debug.SetPanicOnFault(true), func(fault error) { err = b.Corrupt(indexName, fault) })
	next, changed := maps.Clone(*b.stones.Load()), false
	var builder labels.ScratchBuilder
	var metas []chunks.Meta
	for _, s := range list {
		if err := b.index.Series(s.Ref, &builder, &metas); err != nil {
			return b.Corrupt(indexName, err)
		}
		changed = next.add(s.Ref, metas, lo, hi) || changed
	}
	if changed {
		b.stones.Store(&next)
		b.unsaved = true
	}
	return nil
}

// SaveTombstones makes durable what Erase has deleted. One caller at a time.
func (b *Block) SaveTombstones(fs vfs.FS) error {
	if !b.unsaved {
		return nil
	}
	if err := vfs.WriteWhole(fs, filepath.Join(b.dir, tombstonesName), b.stones.Load().encode()); err != nil {
		return err
	}
	b.unsaved = false
	return nil
}

// overlapping returns the part of what is deleted that a chunk meets.
func overlapping(deleted tombstones.Intervals, m chunks.Meta) tombstones.Intervals {
	i, j := 0, len(deleted)
	for i < j && deleted[i].Maxt < m.MinTime {
		i++
	}
	for i < j && deleted[j-1].Mint > m.MaxTime {
		j--
	}
	return deleted[i:j]
}

// without appends to dst what is left of a chunk.
func (r *Reader) without(dst []chunkenc.Chunk, c *chunkenc.Chunk, erased tombstones.Intervals) ([]chunkenc.Chunk, error) {
	r.samples.Reset(c.Kind())
	if err := r.dec.Decode(&r.samples, c); err != nil {
		return dst, r.block.Corrupt(chunksName, err)
	}
	for _, i := range erased {
		r.samples.Cut(i.Mint, i.Maxt)
	}
	if r.samples.Len() == 0 {
		return dst, nil
	}
	if c.Kind() == chunkenc.KindFloat {
		r.enc.Float = c.Enc
	}
	return r.enc.Seal(dst, &r.samples), nil
}

// writeTombstones writes the file of a block of which nothing is deleted.
func (d *draft) writeTombstones() error {
	return vfs.WriteWhole(d.fs, filepath.Join(d.tmp, tombstonesName), stones{}.encode())
}
