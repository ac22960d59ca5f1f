package block

import (
	"context"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// AddStandard writes the chunks of a series, of Prometheus's own encodings, into
// what is to become a block of Prometheus (CommitStandard); it sets their
// references. Otherwise it is AddSeries; one writer takes only one of the two.
func (w *Writer) AddStandard(ls labels.Labels, list []chunks.Meta) error {
	if len(list) == 0 {
		return nil
	}
	if n := len(w.series); n > 0 && labels.Compare(w.series[n-1].labels, ls) >= 0 {
		return fmt.Errorf("write block: series %s is not after %s", ls, w.series[n-1].labels)
	}
	if err := w.chunks.WriteChunks(list...); err != nil {
		return fmt.Errorf("write block: series %s: %w", ls, err)
	}
	entry := seriesEntry{labels: ls, chunks: make([]chunkEntry, len(list))}
	for i, m := range list {
		entry.chunks[i] = chunkEntry{m.Ref, m.MinTime, m.MaxTime}
		w.stats.NumSamples += uint64(m.Chunk.NumSamples())
	}
	w.register(entry)
	return nil
}

// CommitStandard is Commit of a block as Prometheus has them, without rwsink.json.
func (w *Writer) CommitStandard(ctx context.Context) (dir string, err error) {
	return w.commit(ctx, CommitInfo{Level: 1}, false)
}
