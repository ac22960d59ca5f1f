package block

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
)

// Writer writes one block. Not safe for concurrent use.
type Writer struct {
	draft
	buf       *Buffers
	columns   columnWindow
	encodings map[chunkenc.Encoding]bool
}

// Create begins a block in the directory parent, in the memory of buf, which is
// the writer's until Commit or Abort. Directories are made, renamed and synced
// through fs, whose files are the operating system's.
func Create(fs vfs.FS, parent string, buf *Buffers) (*Writer, error) {
	w := &Writer{buf: buf, encodings: map[chunkenc.Encoding]bool{}}
	if err := w.begin(fs, parent); err != nil {
		return nil, err
	}
	if err := fs.MkdirAll(filepath.Join(w.tmp, chunksName)); err != nil {
		return nil, errors.Join(fmt.Errorf("begin a block: %w", err), RemoveDir(fs, w.tmp))
	}
	buf.reset()
	buf.segments.reset(w.tmp)
	return w, nil
}

// AddSeries writes the chunks of a series, ascending and disjoint. Series come
// sorted by labels. Of the chunks nothing is kept.
func (w *Writer) AddSeries(ls labels.Labels, list []chunkenc.Chunk) error {
	if len(list) == 0 {
		return nil
	}
	x := &w.buf.index
	if last, ok := x.last(); ok && labels.Compare(last, ls) >= 0 {
		return fmt.Errorf("write block: series %s is not after %s", ls, last)
	}
	for i := range list {
		c := &list[i]
		if c.MaxT < c.MinT || i > 0 && c.MinT <= list[i-1].MaxT {
			return fmt.Errorf("write block: series %s: a chunk from %d to %d is not after the one before", ls, c.MinT, c.MaxT)
		}
		ref, err := w.addChunk(c)
		if err != nil {
			return fmt.Errorf("write block: series %s: %w", ls, err)
		}
		x.chunks = append(x.chunks, chunkEntry{ref, c.MinT, c.MaxT})
		w.stats.NumSamples += uint64(c.N)
	}
	x.add(ls)
	w.count(len(list), list[0].MinT, list[len(list)-1].MaxT)
	return nil
}

// addChunk writes one chunk, its time column shared when another chunk within
// the window had the same: the first keeps it inside, the second and all later
// ones name an entry of their own.
func (w *Writer) addChunk(c *chunkenc.Chunk) (chunks.ChunkRef, error) {
	w.encodings[c.Enc] = true
	b := w.buf
	column, shared, ok := []byte(nil), []byte(nil), false
	if c.Times != nil {
		column, shared, ok = c.Times.Data, append(b.data[:0], c.Data...), true
	} else {
		var err error
		if column, shared, ok, err = b.dec.Share(b.col[:0], b.data[:0], c); err != nil {
			return 0, err
		}
		b.col = column
	}
	if !ok {
		return b.segments.add(c.Enc, c.Data)
	}
	b.data = shared
	state := w.columns.look(column)
	if state.ref == 0 && !state.seen && c.Times == nil {
		return b.segments.add(c.Enc, c.Data)
	}
	if state.ref == 0 {
		ref, err := b.segments.add(chunkenc.EncTime, column)
		if err != nil {
			return 0, err
		}
		w.encodings[chunkenc.EncTime] = true
		state.ref = uint64(ref)
		w.columns.set(column, state)
	}
	chunkenc.SetTimeRef(shared, state.ref)
	return b.segments.add(c.Enc, shared)
}

// CommitInfo is what a block's writer knows of it beside its series.
type CommitInfo struct {
	Generation Generation
	Deletes    uint64 // see Info
	Logs       []LogRange
	Level      int         // 1 for a flush, one more for each merge
	Sources    []ulid.ULID // the flushed blocks that a merge goes back to
	Parents    []string    // the blocks that a merge takes the place of
	Rescued    bool        // the first of Parents is damaged, and this is what is sound in it
}

// Commit makes the block durable and returns its directory. After an error
// nothing of it is left, or dir is where it may be. A block without samples is aborted: the directory is "".
func (w *Writer) Commit(ctx context.Context, ci CommitInfo) (dir string, err error) {
	defer w.buf.reset()
	return w.commit(func() error { return w.writeFiles(ctx, ci) }, w.Abort)
}

// Abort removes what was written.
func (w *Writer) Abort() error {
	w.buf.segments.abort()
	w.buf.reset()
	return w.remove()
}

func (w *Writer) writeFiles(ctx context.Context, ci CommitInfo) error {
	if err := w.buf.segments.end(); err != nil {
		return err
	}
	if err := w.writeIndex(ctx); err != nil {
		return err
	}
	if err := w.writeTombstones(); err != nil {
		return err
	}
	crc, err := w.writeMeta(ci)
	if err != nil {
		return err
	}
	return w.writeInfo(ci, crc) // last: it says that the others are whole
}

// writeIndex writes the index, durably.
func (w *Writer) writeIndex(ctx context.Context) error {
	f, err := os.Create(filepath.Join(w.tmp, indexName))
	if err != nil {
		return err
	}
	err = w.buf.index.write(ctx, f, &w.buf.packer)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (w *Writer) writeInfo(ci CommitInfo, metaCRC uint32) error {
	info := Info{Generation: ci.Generation, Deletes: ci.Deletes, Logs: ci.Logs, Parents: ci.Parents, MetaCRC: metaCRC}
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
