package store

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// Exported is a block of Prometheus that was written.
type Exported struct {
	Name            string // its ULID; "" when there was nothing to write
	Series, Samples uint64
}

// Export writes what the view holds of [lo, hi], of the series that match (see
// SelectAny), as one block of Prometheus below the directory parent: XOR and
// histogram chunks of at most 120 samples. Start timestamps are left behind: XOR
// chunks have no place for them. After an error nothing of it is left. progress,
// which may be nil, is told of samples as they are written.
func (v *View) Export(ctx context.Context, parent string, lo, hi int64, lists [][]*labels.Matcher, progress func(samples int)) (out Exported, err error) {
	series, err := v.SelectAny(ctx, lo, hi, lists)
	if err != nil || len(series) == 0 {
		return out, err
	}
	w, err := block.CreateStandard(vfs.OS{}, parent)
	if err != nil {
		return out, err
	}
	committed := false
	defer func() {
		if !committed {
			err = errors.Join(err, w.Abort())
		}
	}()
	r, cut := v.NewReader(), chunkCutter{}
	for i := range series {
		if i%1024 == 0 && ctx.Err() != nil {
			return out, ctx.Err()
		}
		cut.reset()
		if err := r.Read(&series[i], lo, hi, cut.add); err != nil {
			return out, err
		}
		cut.seal()
		before := w.Samples()
		if err := w.AddSeries(series[i].Labels, cut.done); err != nil {
			return out, err
		}
		if n := w.Samples() - before; n > 0 {
			out.Series++
			if progress != nil {
				progress(int(n))
			}
		}
	}
	out.Samples = w.Samples()
	committed = true
	dir, err := w.Commit(ctx)
	if err != nil || dir == "" {
		return Exported{}, err
	}
	out.Name = filepath.Base(dir)
	return out, nil
}
