package block

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
)

// A chunk segment is allocated at once and cut when closed: its size follows what
// is expected, so that a small block does not need much of a disk that is nearly full.
const leastSegment, mostSegment = 64 << 10, 32 << 20

// Writer writes one block. Not safe for concurrent use.
type Writer struct {
	fs          vfs.FS
	parent, tmp string
	id          ulid.ULID
	chunks      *chunks.Writer
	columns     columnWindow
	metaCRC     uint32
	dec         chunkenc.Decoder
	series      []seriesEntry
	symbols     map[string]struct{}
	encodings   map[chunkenc.Encoding]bool
	stats       tsdb.BlockStats
	minT, maxT  int64
	col, data   []byte // scratch
}

// seriesEntry is what the index will say of a series.
type seriesEntry struct {
	labels labels.Labels
	chunks []chunkEntry
}

type chunkEntry struct {
	ref        chunks.ChunkRef
	minT, maxT int64
}

// Create begins a block in the directory parent. expect is about how many bytes
// of chunks it will have. Directories are made, renamed and synced through fs,
// whose files are the operating system's.
func Create(fs vfs.FS, parent string, expect int64) (*Writer, error) {
	id, err := ulid.New(ulid.Timestamp(time.Now()), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmp := filepath.Join(parent, id.String()+TmpSuffix)
	if err := fs.MkdirAll(tmp); err != nil {
		return nil, fmt.Errorf("begin a block: %w", err)
	}
	size := min(max(leastSegment, expect+expect/4), mostSegment)
	w, err := chunks.NewWriter(filepath.Join(tmp, chunksName), chunks.WithSegmentSize(size))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin a block: %w", err), RemoveDir(fs, tmp))
	}
	return &Writer{
		fs: fs, parent: parent, tmp: tmp, id: id, chunks: w,
		symbols: map[string]struct{}{"": {}}, encodings: map[chunkenc.Encoding]bool{},
		minT: math.MaxInt64, maxT: math.MinInt64,
	}, nil
}

// AddSeries writes the chunks of a series, ascending and disjoint. Series come
// sorted by labels. Neither is kept.
func (w *Writer) AddSeries(ls labels.Labels, list []chunkenc.Chunk) error {
	if len(list) == 0 {
		return nil
	}
	if n := len(w.series); n > 0 && labels.Compare(w.series[n-1].labels, ls) >= 0 {
		return fmt.Errorf("write block: series %s is not after %s", ls, w.series[n-1].labels)
	}
	entry := seriesEntry{labels: ls, chunks: make([]chunkEntry, len(list))}
	for i := range list {
		ref, err := w.addChunk(&list[i])
		if err != nil {
			return fmt.Errorf("write block: series %s: %w", ls, err)
		}
		entry.chunks[i] = chunkEntry{ref, list[i].MinT, list[i].MaxT}
		w.stats.NumSamples += uint64(list[i].N)
	}
	w.register(entry)
	return nil
}

// register takes a series whose chunks are written into the index.
func (w *Writer) register(s seriesEntry) {
	w.minT = min(w.minT, s.chunks[0].minT)
	w.maxT = max(w.maxT, s.chunks[len(s.chunks)-1].maxT)
	w.stats.NumChunks += uint64(len(s.chunks))
	w.stats.NumSeries++
	s.labels.Range(func(l labels.Label) {
		w.symbols[l.Name] = struct{}{}
		w.symbols[l.Value] = struct{}{}
	})
	w.series = append(w.series, s)
}

// addChunk writes one chunk, its time column shared when another chunk within
// the window had the same: the first keeps it inside, the second and all later
// ones name an entry of their own.
func (w *Writer) addChunk(c *chunkenc.Chunk) (chunks.ChunkRef, error) {
	w.encodings[c.Enc] = true
	column, shared, ok := []byte(nil), []byte(nil), false
	if c.Times != nil {
		column, shared, ok = c.Times.Data, append(w.data[:0], c.Data...), true
	} else {
		var err error
		if column, shared, ok, err = w.dec.Share(w.col[:0], w.data[:0], c); err != nil {
			return 0, err
		}
		w.col = column
	}
	if !ok {
		return w.writeEntry(c.Enc, c.Data)
	}
	w.data = shared
	state := w.columns.look(column)
	if state.ref == 0 && !state.seen && c.Times == nil {
		return w.writeEntry(c.Enc, c.Data)
	}
	if state.ref == 0 {
		ref, err := w.writeEntry(chunkenc.EncTime, column)
		if err != nil {
			return 0, err
		}
		w.encodings[chunkenc.EncTime] = true
		state.ref = uint64(ref)
		w.columns.set(column, state)
	}
	chunkenc.SetTimeRef(shared, state.ref)
	return w.writeEntry(c.Enc, shared)
}

func (w *Writer) writeEntry(enc chunkenc.Encoding, data []byte) (chunks.ChunkRef, error) {
	list := []chunks.Meta{{Chunk: entry{enc: enc, data: data}}}
	if err := w.chunks.WriteChunks(list...); err != nil {
		return 0, err
	}
	return list[0].Ref, nil
}

// Samples returns how many samples were added.
func (w *Writer) Samples() uint64 { return w.stats.NumSamples }

// CommitInfo is what a block's writer knows of it beside its series.
type CommitInfo struct {
	Generation Generation
	Deletes    uint64 // see Info
	Logs       []LogRange
	Level      int         // 1 for a flush, one more for each merge
	Sources    []ulid.ULID // the flushed blocks that a merge goes back to
	Parents    []string    // the blocks that a merge takes the place of
}

// Commit makes the block durable and returns its directory. After an error
// nothing of it is left. A block without samples is aborted: the directory is "".
func (w *Writer) Commit(ctx context.Context, ci CommitInfo) (dir string, err error) {
	return w.commit(ctx, ci, true)
}

// commit is Commit; of a block that is not ours rwsink.json is left out, and the index is not packed.
func (w *Writer) commit(ctx context.Context, ci CommitInfo, ours bool) (dir string, err error) {
	if w.stats.NumSamples == 0 {
		return "", w.Abort()
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write block %s: %w", w.id, err), RemoveDir(w.fs, w.tmp))
		}
	}()
	if err := w.closeChunks(); err != nil {
		return "", err
	}
	if err := w.writeIndex(ctx); err != nil {
		return "", err
	}
	if err := w.writeTombstones(); err != nil {
		return "", err
	}
	if err := w.putIndex(ours); err != nil {
		return "", err
	}
	if err := w.writeMeta(ci); err != nil {
		return "", err
	}
	if ours { // last: it says that the others are whole
		if err := w.writeInfo(ci); err != nil {
			return "", err
		}
	}
	dir = filepath.Join(w.parent, w.id.String())
	if err := w.publish(dir); err != nil {
		return "", err
	}
	return dir, nil
}

// closeChunks closes the chunk segments and makes their lengths durable: the
// library syncs a segment before it cuts what was allocated too much.
func (w *Writer) closeChunks() error {
	if err := w.chunks.Close(); err != nil {
		return err
	}
	dir := filepath.Join(w.tmp, chunksName)
	names, err := w.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := w.fs.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Abort removes what was written.
func (w *Writer) Abort() error {
	_ = w.chunks.Close() // it may have failed before
	return RemoveDir(w.fs, w.tmp)
}

// putIndex puts the written index in its place, packed or plain.
func (w *Writer) putIndex(packed bool) error {
	from, to := filepath.Join(w.tmp, plainName), filepath.Join(w.tmp, indexName)
	if !packed {
		return w.fs.Rename(from, to)
	}
	if err := packIndex(from, to); err != nil {
		return err
	}
	return w.fs.Remove(from)
}

// writeIndex writes Prometheus's index under its name of until it is in its place.
func (w *Writer) writeIndex(ctx context.Context) error {
	iw, err := index.NewWriter(ctx, filepath.Join(w.tmp, plainName))
	if err != nil {
		return err
	}
	symbols := make([]string, 0, len(w.symbols))
	for s := range w.symbols {
		symbols = append(symbols, s)
	}
	slices.Sort(symbols)
	for _, s := range symbols {
		if err := iw.AddSymbol(s); err != nil {
			return errors.Join(err, iw.Close())
		}
	}
	var metas []chunks.Meta
	for i := range w.series {
		metas = metas[:0]
		for _, c := range w.series[i].chunks {
			metas = append(metas, chunks.Meta{Ref: c.ref, MinTime: c.minT, MaxTime: c.maxT})
		}
		if err := iw.AddSeries(storage.SeriesRef(i+1), w.series[i].labels, metas...); err != nil {
			return errors.Join(err, iw.Close())
		}
	}
	return iw.Close()
}

func (w *Writer) writeMeta(ci CommitInfo) error {
	end := w.maxT
	if end < math.MaxInt64 {
		end++ // Prometheus's end is not included
	}
	meta := tsdb.BlockMeta{
		ULID: w.id, MinTime: w.minT, MaxTime: end, Version: 1, Stats: w.stats,
		Compaction: tsdb.BlockMetaCompaction{Level: ci.Level, Sources: append([]ulid.ULID{w.id}, ci.Sources...)},
	}
	if len(ci.Sources) > 0 {
		meta.Compaction.Sources = ci.Sources
	}
	data, err := json.MarshalIndent(meta, "", "\t")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	w.metaCRC = crc32.Checksum(data, castagnoli)
	return writeFile(filepath.Join(w.tmp, metaName), data)
}

func (w *Writer) writeInfo(ci CommitInfo) error {
	info := Info{Generation: ci.Generation, Deletes: ci.Deletes, Logs: ci.Logs, Parents: ci.Parents, MetaCRC: w.metaCRC}
	for e := range w.encodings {
		info.Encodings = append(info.Encodings, e.String())
	}
	slices.Sort(info.Encodings)
	err := filepath.WalkDir(w.tmp, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == tombstonesName {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(w.tmp, path)
		info.Files = append(info.Files, FileInfo{name, st.Size()})
		return err
	})
	if err != nil {
		return err
	}
	data, err := jsonfile.Encode(infoKind, &info)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(w.tmp, infoName), data)
}

// writeFile writes a file, durably.
func writeFile(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// publish makes the finished directory durable under its name. After an error
// it stands under its temporary name.
func (w *Writer) publish(dir string) error {
	for _, d := range []string{filepath.Join(w.tmp, chunksName), w.tmp} {
		if err := w.fs.SyncDir(d); err != nil {
			return err
		}
	}
	if err := w.fs.Rename(w.tmp, dir); err != nil {
		return err
	}
	if err := w.fs.SyncDir(w.parent); err != nil {
		return errors.Join(err, w.fs.Rename(dir, w.tmp))
	}
	return nil
}

// RemoveUnfinished removes what List has found unfinished.
func RemoveUnfinished(fs vfs.FS, path string) error {
	if st, err := os.Lstat(path); err == nil && !st.IsDir() {
		return fs.Remove(path)
	}
	return RemoveDir(fs, path)
}

// RemoveDir removes a directory and what is in it; one that is gone is no error.
func RemoveDir(fs vfs.FS, dir string) error {
	names, err := fs.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if st, err := os.Lstat(path); err == nil && st.IsDir() {
			if err := RemoveDir(fs, path); err != nil {
				return err
			}
			continue
		}
		if err := fs.Remove(path); err != nil {
			return err
		}
	}
	return fs.Remove(dir)
}
