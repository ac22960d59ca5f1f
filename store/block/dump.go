package block

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/encoding"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
)

// dumps are the kinds of files of a block, by how they begin.
var dumps = []struct {
	head []byte
	dump func(d *dumper, b []byte) error
}{
	{[]byte("{"), (*dumper).json},
	{segmentHead[:4], (*dumper).segment},
	{binary.BigEndian.AppendUint32(nil, index.MagicIndex), (*dumper).plain},
	{binary.BigEndian.AppendUint32(nil, packedMagic), (*dumper).packed},
	{binary.BigEndian.AppendUint32(nil, tombstones.MagicTombstone), (*dumper).tombstones},
}

// CanDump says whether a file that begins so is one of a block's.
func CanDump(head []byte) bool {
	for _, k := range dumps {
		if bytes.HasPrefix(head, k.head) {
			return true
		}
	}
	return false
}

// Dump prints a file of a block: rwsink.json, meta.json, the index, packed or plain, a segment of
// chunks, or tombstones. It goes on past damage where it can and names it in its
// place; the error is then the first. The file is read as a whole.
func Dump(w io.Writer, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, k := range dumps {
		if !bytes.HasPrefix(b, k.head) {
			continue
		}
		d := &dumper{w: bufio.NewWriter(w), path: path}
		err := k.dump(d, b)
		if err == nil {
			err = d.first
		}
		return errors.Join(err, d.w.Flush())
	}
	return damaged(path, 0, errors.New("not a file of a block"))
}

type dumper struct {
	w     *bufio.Writer // keeps the first error of writing
	path  string
	first error
}

func (d *dumper) print(format string, args ...any) { fmt.Fprintf(d.w, format+"\n", args...) }

func (d *dumper) damage(offset int64, err error) {
	if d.first == nil {
		d.first = damaged(d.path, offset, err)
	}
	d.print("damage at %d: %v", offset, err)
}

// When prints a timestamp in Unix milliseconds, and as a time.
func When(t int64) string {
	return fmt.Sprintf("%d (%s)", t, time.UnixMilli(t).UTC().Format("2006-01-02T15:04:05.000Z"))
}

func (d *dumper) json(b []byte) error {
	var magic struct{ Magic string }
	if err := json.Unmarshal(b, &magic); err != nil {
		return damaged(d.path, 0, err)
	}
	if magic.Magic == infoKind.Magic {
		return d.info(b)
	}
	var meta tsdb.BlockMeta
	if err := json.Unmarshal(b, &meta); err != nil {
		return damaged(d.path, 0, err)
	}
	if meta.ULID.IsZero() {
		return damaged(d.path, 0, errors.New("neither rwsink.json nor meta.json of a block"))
	}
	d.print("meta of block %s, version %d", meta.ULID, meta.Version)
	d.print("from %s to %s, which is not included", When(meta.MinTime), When(meta.MaxTime))
	d.print("%d series, %d chunks, %d samples, %d tombstones", meta.Stats.NumSeries, meta.Stats.NumChunks, meta.Stats.NumSamples, meta.Stats.NumTombstones)
	d.print("compaction level %d", meta.Compaction.Level)
	for _, h := range meta.Compaction.Hints {
		d.print("hint %s", h)
	}
	for _, s := range meta.Compaction.Sources {
		d.print("source %s, of %s", s, When(int64(s.Time())))
	}
	return nil
}

func (d *dumper) info(b []byte) error {
	var info Info
	err := jsonfile.Decode(d.path, b, infoKind, &info)
	d.print("rwsink.json, version %d", info.Version)
	d.print("generation class %d, LSN %d", info.Generation.Class, info.Generation.LSN)
	if info.Deletes > 0 {
		d.print("no delete up to frame %d means it", info.Deletes)
	}
	for _, r := range info.Logs {
		d.print("holds the log from %s to %s, frames %d to %d", When(r.MinT), When(r.MaxT), r.From+1, r.To)
	}
	d.print("encodings %s", strings.Join(info.Encodings, ", "))
	for _, f := range info.Files {
		d.print("file %s, %d bytes", f.Name, f.Size)
	}
	for _, p := range info.Parents {
		d.print("in place of block %s", p)
	}
	d.print("crc32c %08x, that of meta.json %08x", info.CRC, info.MetaCRC)
	var corrupt *vfs.CorruptError
	if errors.As(err, &corrupt) {
		d.damage(0, corrupt.Err)
		return nil
	}
	return err
}

func (d *dumper) segment(b []byte) error {
	if !bytes.HasPrefix(b, segmentHead) {
		d.damage(4, fmt.Errorf("begins with %x, want %x", b[:min(len(b), len(segmentHead))], segmentHead))
	}
	d.print("segment of chunks, %d bytes", len(b))
	n := 0
	for offset := int64(len(segmentHead)); offset < int64(len(b)); n++ {
		e, err := readEntry(b, offset)
		if err != nil {
			d.damage(offset, err)
			if e.end == 0 {
				break
			}
		}
		d.print("entry at %d: %d bytes, encoding %v, crc32c %08x", offset, len(e.data), e.enc, e.crc)
		if err == nil {
			if ref, ok := chunkenc.TimeRef(e.data); ok {
				segment, at := chunks.BlockChunkRef(ref).Unpack()
				d.print("  times at %d of %s", at, filepath.Base(segmentName(segment)))
			}
			if err := chunkenc.Dump(d.w, e.data); err != nil {
				d.damage(offset, err)
			}
		}
		offset = e.end
	}
	d.print("%d entries", n)
	return nil
}

func (d *dumper) plain(b []byte) error { return d.index(byteSlice(b)) }

func (d *dumper) packed(b []byte) error {
	p, err := openPacked(d.path, b, NewPages(unpackedMemory))
	if err != nil {
		return err
	}
	d.print("packed index, version %d, %d bytes, %d pages", b[4], len(b), len(p.packed))
	for i := range p.packed {
		row := &p.packed[i]
		from, to, words := p.bounds(int64(i))
		what := "series"
		if words {
			what = "postings"
		}
		d.print("page of %s at %d: %d bytes, crc32c %08x, in the index at %d to %d", what, row.offset, row.size, row.crc, from, to)
		if _, err := p.unpack(int64(i)); err != nil {
			d.damage(row.offset, err)
		}
	}
	if d.first != nil {
		return nil
	}
	return d.index(p)
}

func (d *dumper) index(b index.ByteSlice) (err error) {
	defer func() { // the library trusts offsets whose checksums are right
		if r := recover(); r != nil {
			err = damaged(d.path, 0, fmt.Errorf("cannot be read: %v", r))
		}
	}()
	r, err := index.NewReader(b, index.DecodePostingsRaw)
	if err != nil {
		return damaged(d.path, 0, err)
	}
	toc, err := index.NewTOCFromByteSlice(b)
	if err != nil {
		return damaged(d.path, 0, err)
	}
	d.print("index, version %d, %d bytes", r.Version(), b.Len())
	d.print("symbols at %d, series at %d, postings at %d, their table at %d", toc.Symbols, toc.Series, toc.Postings, toc.PostingsTable)
	name, value := index.AllPostingsKey()
	all, err := r.Postings(context.Background(), name, value)
	if err != nil {
		return damaged(d.path, int64(toc.Postings), err)
	}
	var builder labels.ScratchBuilder
	var metas []chunks.Meta
	for all.Next() {
		offset := int64(all.At()) * seriesAlign
		if err := r.Series(storage.SeriesRef(all.At()), &builder, &metas); err != nil {
			d.damage(offset, err)
			continue
		}
		d.print("series %d at %d: %s", all.At(), offset, builder.Labels())
		for _, m := range metas {
			segment, at := chunks.BlockChunkRef(m.Ref).Unpack()
			d.print("  chunk at %d of %s, from %s to %s", at, filepath.Base(segmentName(segment)), When(m.MinTime), When(m.MaxTime))
		}
	}
	return index.ReadPostingsOffsetTable(b, toc.PostingsTable, func(name, value []byte, offset uint64, _ int) error {
		n, _, err := index.DecodePostingsRaw(encoding.NewDecbufAt(b, int(offset), castagnoli))
		if err != nil {
			d.damage(int64(offset), err)
			return nil
		}
		d.print("postings at %d: %d series with %s=%q", offset, n, name, value)
		return nil
	})
}

func (d *dumper) tombstones(b []byte) error {
	const frame = 5 + crc32.Size // magic, version, checksum
	if len(b) < frame {
		return damaged(d.path, 0, fmt.Errorf("%d bytes are no tombstones", len(b)))
	}
	end := len(b) - crc32.Size
	if got, want := crc32.Checksum(b[5:end], castagnoli), binary.BigEndian.Uint32(b[end:]); got != want {
		d.damage(int64(end), fmt.Errorf("crc32c %08x, want %08x", got, want))
	}
	stones, err := tombstones.Decode(b[4:end])
	if err != nil {
		return damaged(d.path, 4, err)
	}
	d.print("tombstones, version %d, %d bytes", b[4], len(b))
	return stones.Iter(func(ref storage.SeriesRef, in tombstones.Intervals) error {
		for _, i := range in {
			d.print("series %d: from %s to %s", ref, When(i.Mint), When(i.Maxt))
		}
		return nil
	})
}
