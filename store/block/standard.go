package block

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"

	"github.com/rwsink/rwsink/internal/vfs"
)

// StandardWriter writes one block of Prometheus's, with Prometheus's library: no
// rwsink.json, Prometheus's own encodings, an index that is not packed. Not safe
// for concurrent use.
type StandardWriter struct {
	draft
	chunks  *chunks.Writer
	series  []standardSeries
	symbols map[string]struct{}
}

type standardSeries struct {
	labels labels.Labels
	chunks []chunks.Meta // without their data
}

// standardSegment is the size of a chunk segment, which is allocated at once and cut when closed.
const standardSegment = 20 << 20

// CreateStandard begins a block in the directory parent.
func CreateStandard(fs vfs.FS, parent string) (*StandardWriter, error) {
	w := &StandardWriter{symbols: map[string]struct{}{"": {}}}
	if err := w.begin(fs, parent); err != nil {
		return nil, err
	}
	var err error
	if w.chunks, err = chunks.NewWriter(filepath.Join(w.tmp, chunksName), chunks.WithSegmentSize(standardSegment)); err != nil {
		return nil, errors.Join(fmt.Errorf("begin a block: %w", err), RemoveDir(fs, w.tmp))
	}
	return w, nil
}

// AddSeries writes the chunks of a series, ascending and disjoint, and sets their
// references. Series come sorted by labels.
func (w *StandardWriter) AddSeries(ls labels.Labels, list []chunks.Meta) error {
	if len(list) == 0 {
		return nil
	}
	if n := len(w.series); n > 0 && labels.Compare(w.series[n-1].labels, ls) >= 0 {
		return fmt.Errorf("write block: series %s is not after %s", ls, w.series[n-1].labels)
	}
	if err := w.chunks.WriteChunks(list...); err != nil {
		return fmt.Errorf("write block: series %s: %w", ls, err)
	}
	s := standardSeries{labels: ls, chunks: make([]chunks.Meta, len(list))}
	for i, m := range list {
		s.chunks[i] = chunks.Meta{Ref: m.Ref, MinTime: m.MinTime, MaxTime: m.MaxTime}
		w.stats.NumSamples += uint64(m.Chunk.NumSamples())
	}
	ls.Range(func(l labels.Label) {
		w.symbols[l.Name] = struct{}{}
		w.symbols[l.Value] = struct{}{}
	})
	w.series = append(w.series, s)
	w.count(len(list), list[0].MinTime, list[len(list)-1].MaxTime)
	return nil
}

// Commit makes the block durable and returns its directory. After an error
// nothing of it is left, or dir is where it may be. A block without samples is aborted: the directory is "".
func (w *StandardWriter) Commit(ctx context.Context) (dir string, err error) {
	return w.commit(func() error { return w.writeFiles(ctx) }, w.Abort)
}

// Abort removes what was written.
func (w *StandardWriter) Abort() error {
	_ = w.chunks.Close() // it may have failed before
	return w.remove()
}

func (w *StandardWriter) writeFiles(ctx context.Context) error {
	if err := w.closeChunks(); err != nil {
		return err
	}
	if err := w.writeIndex(ctx); err != nil {
		return err
	}
	if err := w.writeTombstones(); err != nil {
		return err
	}
	_, err := w.writeMeta(CommitInfo{Level: 1})
	return err
}

// closeChunks closes the chunk segments and makes their lengths durable: the
// library syncs a segment before it cuts what was allocated too much.
func (w *StandardWriter) closeChunks() error {
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

func (w *StandardWriter) writeIndex(ctx context.Context) error {
	iw, err := index.NewWriter(ctx, filepath.Join(w.tmp, indexName))
	if err != nil {
		return err
	}
	for _, s := range slices.Sorted(maps.Keys(w.symbols)) {
		if err := iw.AddSymbol(s); err != nil {
			return errors.Join(err, iw.Close())
		}
	}
	for i, s := range w.series {
		if err := iw.AddSeries(storage.SeriesRef(i+1), s.labels, s.chunks...); err != nil {
			return errors.Join(err, iw.Close())
		}
	}
	return iw.Close()
}
