package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store"
)

// Stdout is the name of the standard output as an output.
const Stdout = "-"

// ExportOptions say what Export writes where.
type ExportOptions struct {
	Store    store.Options       // its Path
	Range    time.Duration       // of a block of the output, and of a step: 2 h
	Output   string              // a directory for Blocks, a file for JSON, or Stdout
	Stdout   io.Writer           //
	Format   Format              // Blocks or JSON
	From, To int64               // Unix milliseconds, both included
	Matchers [][]*labels.Matcher // series that match all of any of these; none: every series
	Progress *Progress           // nil shows nothing
}

// Exported is what Export wrote.
type Exported struct {
	Ranges  int    // that had samples
	Kept    int    // of them, finished by an export before
	Samples uint64 // of all of them

	// Held is about the range of time that the directory holds samples of, whatever was
	// asked for, in Unix milliseconds; both 0 where it holds none.
	Held [2]int64
}

// Export writes what the directory holds of a range of time, one aligned range
// after another, ascending: as blocks of Prometheus, of which no two overlap, or
// as JSON lines. The output is made once the directory is locked. An export that
// was broken off goes on when it is repeated; a finished one is brought up to
// what the directory holds then. The log is read as a start does, with its repairs, and
// a block that is damaged ends the export and is set aside: the next goes on without it.
func Export(ctx context.Context, o ExportOptions) (out Exported, err error) {
	if o.Range == 0 {
		o.Range = 2 * time.Hour
	}
	if o.Range < time.Millisecond {
		return out, fmt.Errorf("export: ranges of %v, want at least 1ms", o.Range)
	}
	if err := inOrder(o.From, o.To); err != nil {
		return out, fmt.Errorf("export: %w", err)
	}
	if o.Format == Blocks && o.Output == Stdout {
		return out, errors.New("export: blocks go to a directory, not to standard output; JSON lines can")
	}
	if err := store.Exists(o.Store.Path); err != nil {
		return out, err
	}
	s, err := store.OpenOffline(ctx, o.Store)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.CloseOffline()) }()
	e := exporter{o: o, store: s, view: s.View()}
	defer e.view.Close()
	begins, err := s.AlignedRanges(o.From, o.To, o.Range.Milliseconds())
	if err != nil {
		return out, fmt.Errorf("export: %w (--from, --to, --block-duration)", err)
	}
	if err := e.open(); err != nil {
		return out, fmt.Errorf("export: %w", err)
	}
	defer func() { err = errors.Join(err, e.target.close()) }()
	if lo, hi, ok := s.Reach(); ok {
		e.out.Held = [2]int64{lo, hi}
	}
	if err := e.target.keep(begins); err != nil {
		return out, fmt.Errorf("export: %w", err)
	}
	o.Progress.begin("exporting", float64(len(begins)))
	defer o.Progress.end()
	for i, begin := range begins {
		if err := e.step(ctx, begin); err != nil {
			return e.out, fmt.Errorf("export: from %s: %w", clock(begin), wayOut(err))
		}
		o.Progress.at(float64(i + 1))
	}
	return e.out, nil
}

// wayOut adds to an error of a damaged block what to do.
func wayOut(err error) error {
	if errors.As(err, new(*vfs.CorruptError)) {
		return fmt.Errorf("%w: what is sound in the block is kept and the rest set aside, the same command again goes on", err)
	}
	return err
}

// target is where the ranges go.
type target interface {
	// keep is told all ranges, ascending, and lets go of what a broken-off export left.
	keep(begins []int64) error
	// has returns how many samples of the range are there already, as of stamp.
	has(begin int64, stamp string) (samples uint64, ok bool)
	// write writes the range [lo, hi].
	write(ctx context.Context, e *exporter, begin, lo, hi int64, stamp string) (samples uint64, err error)
	close() error
}

type exporter struct {
	o      ExportOptions
	store  *store.Store
	view   *store.View
	target target
	out    Exported
}

// open opens the output.
func (e *exporter) open() (err error) {
	head := ledgerHead{Format: e.o.Format, From: e.o.From, To: e.o.To, RangeMs: e.rangeMs()}
	if head.Source, err = e.store.Identity(); err != nil {
		return err
	}
	for _, ms := range e.o.Matchers {
		head.Matchers = append(head.Matchers, fmt.Sprint(ms))
	}
	if e.o.Output != Stdout {
		if name, ours := e.store.Owns(e.o.Output); ours {
			return fmt.Errorf("%s lies in %s of the data directory, where nothing else may be", e.o.Output, name)
		}
	}
	switch {
	case e.o.Format == Blocks:
		e.target, err = openBlocks(e.o.Output, head)
	case e.o.Format != JSON:
		return fmt.Errorf("format %q, want %s or %s", e.o.Format, Blocks, JSON)
	case e.o.Output == Stdout:
		e.target = &lineTarget{w: bufio.NewWriterSize(e.o.Stdout, outBuffer)}
	default:
		e.target, err = openLines(e.o.Output, head, e.stamp)
	}
	return err
}

func (e *exporter) rangeMs() int64 { return e.o.Range.Milliseconds() }

// bounds returns what is asked for of the range that begins at begin.
func (e *exporter) bounds(begin int64) (lo, hi int64) {
	lo, hi = store.RangeOf(begin, e.rangeMs())
	return max(lo, e.o.From), min(hi, e.o.To)
}

// stamp returns what tells one state of a range from another.
func (e *exporter) stamp(begin int64) string { return e.store.Stamp(e.bounds(begin)) }

// step writes one range, unless it is there.
func (e *exporter) step(ctx context.Context, begin int64) error {
	stamp := e.stamp(begin)
	lo, hi := e.bounds(begin)
	samples, kept := e.target.has(begin, stamp)
	if !kept {
		var err error
		if samples, err = e.target.write(ctx, e, begin, lo, hi, stamp); err != nil {
			return err
		}
	}
	if samples > 0 {
		e.out.Ranges++
		e.out.Samples += samples
		if kept {
			e.out.Kept++
			e.o.Progress.add(int(samples))
		}
	}
	return nil
}

// outBuffer is how many bytes of a file are written at once: few calls, and little beside the rest.
const outBuffer = 1 << 20

// lineSamples is about how many samples a line has, at most.
const lineSamples = 4096

// lines writes the range as JSON lines.
func (e *exporter) lines(ctx context.Context, w *bufio.Writer, lo, hi int64) (samples uint64, err error) {
	series, err := e.view.SelectAny(ctx, lo, hi, e.o.Matchers)
	if err != nil {
		return 0, err
	}
	r := e.view.NewReader()
	var line chunkenc.Samples
	var text []byte
	for i := range series {
		if i%1024 == 0 && ctx.Err() != nil {
			return samples, ctx.Err()
		}
		flush := func() error {
			if line.Len() == 0 {
				return nil
			}
			samples += uint64(line.Len())
			e.o.Progress.add(line.Len())
			text = appendLine(text[:0], series[i].Labels, &line)
			line.Reset(line.Kind)
			_, err := w.Write(text)
			return err
		}
		err := r.Read(&series[i], lo, hi, func(run *chunkenc.Samples) error {
			if run.Kind != line.Kind || line.Len() >= lineSamples {
				if err := flush(); err != nil {
					return err
				}
				line.Reset(run.Kind)
			}
			line.Append(run)
			return nil
		})
		if err := errors.Join(err, flush()); err != nil {
			return samples, err
		}
	}
	return samples, nil
}
