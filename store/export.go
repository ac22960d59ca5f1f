package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// ExportOptions say what Export writes where.
type ExportOptions struct {
	Path          string              // the data directory, which no process uses
	Output        string              // the directory of the blocks: empty, or not there yet
	From, To      int64               // Unix milliseconds, both included
	Matchers      [][]*labels.Matcher // series that match all of any of these; none: every series
	BlockDuration time.Duration       // of the blocks, aligned: 2 h
	Logger        *slog.Logger
}

// Exported is what Export wrote.
type Exported struct {
	Blocks, Chunks int
	Samples        uint64
}

// Export writes what the directory holds of a range of time as blocks of
// Prometheus: XOR and histogram chunks of at most 120 samples, one block an
// aligned range, so that none overlap. Start timestamps are left behind: XOR
// chunks have no place for them. The log is read as a start does, with its repairs.
func Export(ctx context.Context, o ExportOptions) (out Exported, err error) {
	if o.BlockDuration == 0 {
		o.BlockDuration = 2 * time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.Matchers) == 0 {
		o.Matchers = [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".*")}}
	}
	if o.BlockDuration < time.Millisecond || o.From > o.To {
		return out, fmt.Errorf("export: from %d to %d in blocks of %v", o.From, o.To, o.BlockDuration)
	}
	if _, err := os.Stat(filepath.Join(o.Path, versionName)); err != nil {
		return out, fmt.Errorf("%s is no data directory of rwsink: %w", o.Path, err)
	}
	if err := makeEmpty(o.Output); err != nil {
		return out, fmt.Errorf("export: %w", err)
	}
	s, err := Open(Options{Path: o.Path, Logger: o.Logger, Head: head.Options{Accept: head.Accept{Now: time.Now}}})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	// Not Replay, which would begin to maintain the blocks.
	if err := s.head.Replay(ctx, s.coverage().find); err != nil {
		return out, err
	}
	e := exporter{o: o, view: s.View()}
	defer e.view.Close()
	for _, begin := range s.alignedRanges(o) {
		if err := e.block(ctx, begin); err != nil {
			return e.out, fmt.Errorf("export: %w", err)
		}
	}
	return e.out, nil
}

// makeEmpty makes a directory, which must have nothing in it.
func makeEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: it has %s", dir, entries[0].Name())
	}
	return err
}

// alignedRanges returns the begins of the aligned ranges that blocks or
// containers reach into, ascending.
func (s *Store) alignedRanges(o ExportOptions) (begins []int64) {
	length := o.BlockDuration.Milliseconds()
	add := func(lo, hi int64) {
		lo, hi = max(lo, o.From), min(hi, o.To)
		for begin := floor(lo, length); lo <= hi && begin <= hi; begin += length {
			begins = append(begins, begin)
			if begin > math.MaxInt64-length {
				return
			}
		}
	}
	for _, b := range *s.blocks.Load() {
		add(b.Range())
	}
	for _, c := range s.head.Containers() {
		add(c.Lo, c.Hi)
	}
	slices.Sort(begins)
	return slices.Compact(begins)
}

// exportSegment is about the size of a segment of chunks, in bytes.
const exportSegment = 16 << 20

// exporter writes blocks of one view.
type exporter struct {
	o     ExportOptions
	view  *View
	chunk chunkCutter
	out   Exported
}

// block writes the block of the aligned range that begins at begin, if there is
// anything in it.
func (e *exporter) block(ctx context.Context, begin int64) (err error) {
	lo, hi := max(begin, e.o.From), e.o.To
	if length := e.o.BlockDuration.Milliseconds(); begin <= math.MaxInt64-length {
		hi = min(hi, begin+length-1)
	}
	series, err := e.series(ctx, lo, hi)
	if err != nil || len(series) == 0 {
		return err
	}
	w, err := block.Create(vfs.OS{}, e.o.Output, exportSegment)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
			err = errors.Join(err, w.Abort())
		}
	}()
	r := e.view.NewReader()
	chunks := 0
	for i := range series {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e.chunk.reset()
		if err := r.Read(&series[i], lo, hi, e.chunk.add); err != nil {
			return err
		}
		e.chunk.seal()
		if err := w.AddStandard(series[i].Labels, e.chunk.done); err != nil {
			return err
		}
		chunks += len(e.chunk.done)
	}
	samples := w.Samples()
	committed = true
	dir, err := w.CommitStandard(ctx)
	if err != nil || dir == "" {
		return err
	}
	e.out.Blocks++
	e.out.Chunks += chunks
	e.out.Samples += samples
	e.o.Logger.Info("exported", "block", filepath.Base(dir), "from", time.UnixMilli(lo).UTC(), "to", time.UnixMilli(hi).UTC(), "samples", samples)
	return nil
}

// series returns those that match, sorted by labels, each once.
func (e *exporter) series(ctx context.Context, lo, hi int64) (all []Series, err error) {
	for _, ms := range e.o.Matchers {
		found, err := e.view.Select(ctx, lo, hi, ms...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return slices.CompactFunc(all, func(a, b Series) bool { return labels.Equal(a.Labels, b.Labels) }), nil
}
