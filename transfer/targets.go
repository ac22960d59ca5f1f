package transfer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// blockTarget is a directory of blocks of Prometheus.
type blockTarget struct {
	dir     string
	rangeMs int64
	ledger  *ledger
}

// openBlocks makes the directory, or takes up one with a ledger of the same export.
func openBlocks(dir string, head ledgerHead) (t *blockTarget, err error) {
	path := filepath.Join(dir, ledgerName)
	t = &blockTarget{dir: dir, rangeMs: head.RangeMs}
	if t.ledger, err = findLedger(path, head); err != nil {
		return nil, err
	}
	if t.ledger == nil {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if len(entries) > 0 {
			return nil, fmt.Errorf("%s is not empty: it has %s", dir, entries[0].Name())
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
		if t.ledger, err = beginLedger(path, head); err != nil {
			return nil, err
		}
	}
	// Empty: promtool dumps no directory without one.
	if err := os.MkdirAll(filepath.Join(dir, "wal"), 0o777); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *blockTarget) close() error { return t.ledger.close() }

// keep removes the blocks of ranges that were begun and not finished, or that
// are not in the directory any more, and refuses a directory that something
// else has worked on.
func (t *blockTarget) keep(begins []int64) error {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if id, tmp := strings.CutSuffix(name, block.TmpSuffix); tmp && isULID(id) {
			if err := t.remove(name); err != nil {
				return err
			}
		} else if isULID(name) {
			there[name] = true
		}
	}
	wanted := map[int64]bool{}
	for _, b := range begins {
		wanted[b] = true
	}
	for begin, e := range t.ledger.entries {
		switch {
		case e.Block == "":
			continue
		case !there[e.Block]:
			return fmt.Errorf("%s: block %s, which an export before has written, is gone: has a Prometheus worked on it?", t.dir, e.Block)
		case !wanted[begin]: // as in write, the ledger lets go of the block first
			if err := t.ledger.note(ledgerEntry{Begin: begin}); err != nil {
				return err
			}
			if err := t.remove(e.Block); err != nil {
				return err
			}
		}
		delete(there, e.Block)
	}
	for name := range there {
		begun, err := t.begun(name)
		if err != nil {
			return err
		}
		if !begun {
			return fmt.Errorf("%s: block %s is not of an export", t.dir, name)
		}
		if err := t.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// begun says whether a block that no entry names is of a range that was begun
// and not finished.
func (t *blockTarget) begun(name string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(t.dir, name, "meta.json"))
	if err != nil {
		return false, err
	}
	var meta tsdb.BlockMeta
	if err := json.Unmarshal(data, &meta); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	for begin, e := range t.ledger.entries {
		if !e.Done && meta.MinTime >= begin && meta.MaxTime <= begin+t.rangeMs {
			return true, nil
		}
	}
	return false, nil
}

func isULID(name string) bool {
	_, err := ulid.ParseStrict(name)
	return err == nil
}

// remove removes a block or what is left of one.
func (t *blockTarget) remove(name string) error {
	from := filepath.Join(t.dir, name)
	if !strings.HasSuffix(name, block.TmpSuffix) {
		if err := os.Rename(from, from+block.TmpSuffix); err != nil {
			return err
		}
		from += block.TmpSuffix
	}
	return os.RemoveAll(from)
}

func (t *blockTarget) has(begin int64, stamp string) (uint64, bool) {
	e, ok := t.ledger.entries[begin]
	return e.Samples, ok && e.Done && e.Stamp == stamp
}

func (t *blockTarget) write(ctx context.Context, e *exporter, begin, lo, hi int64, stamp string) (uint64, error) {
	old := t.ledger.entries[begin].Block
	if err := t.ledger.note(ledgerEntry{Begin: begin}); err != nil {
		return 0, err
	}
	if old != "" {
		if err := t.remove(old); err != nil {
			return 0, err
		}
	}
	out, err := e.view.Export(ctx, t.dir, lo, hi, e.o.Matchers, e.o.Progress.add)
	if err != nil {
		return 0, err
	}
	return out.Samples, t.ledger.note(ledgerEntry{Begin: begin, Done: true, Stamp: stamp, Block: out.Name, Samples: out.Samples})
}

// lineTarget is a file of JSON lines, or a stream, which has no ledger.
type lineTarget struct {
	w      *bufio.Writer
	file   *os.File
	ledger *ledger
	stamp  func(begin int64) string
	end    int64 // of the file
}

// openLines makes the file, or takes up one with a ledger of the same export.
func openLines(path string, head ledgerHead, stamp func(begin int64) string) (_ *lineTarget, err error) {
	ledgerPath := path + "." + ledgerName
	t := &lineTarget{stamp: stamp}
	if t.ledger, err = findLedger(ledgerPath, head); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.ledger.close())
		}
	}()
	if t.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.file.Close())
		}
	}()
	t.w = bufio.NewWriterSize(t.file, outBuffer)
	size, err := t.file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if t.ledger == nil && size > 0 {
		return nil, fmt.Errorf("%s is not empty: it has %d bytes", path, size)
	}
	if err := (vfs.OS{}).SyncDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if t.ledger == nil {
		t.ledger, err = beginLedger(ledgerPath, head)
	}
	return t, err
}

func (t *lineTarget) close() error {
	if t.file == nil {
		return t.w.Flush()
	}
	return errors.Join(t.file.Close(), t.ledger.close())
}

// keep cuts the file behind the ranges from the first on that are as they were.
func (t *lineTarget) keep(begins []int64) error {
	if t.ledger == nil {
		return nil
	}
	size, err := t.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	kept := map[int64]ledgerEntry{}
	for _, begin := range begins {
		e, ok := t.ledger.entries[begin]
		if !ok || !e.Done || e.Stamp != t.stamp(begin) || e.Start != t.end || e.End > size {
			break
		}
		kept[begin], t.end = e, e.End
	}
	t.ledger.entries = kept
	if err := t.file.Truncate(t.end); err != nil {
		return err
	}
	_, err = t.file.Seek(t.end, io.SeekStart)
	return err
}

func (t *lineTarget) has(begin int64, stamp string) (uint64, bool) {
	if t.ledger == nil {
		return 0, false
	}
	e, ok := t.ledger.entries[begin]
	return e.Samples, ok && e.Stamp == stamp
}

func (t *lineTarget) write(ctx context.Context, e *exporter, begin, lo, hi int64, stamp string) (uint64, error) {
	start := t.end
	if t.ledger != nil {
		if err := t.ledger.note(ledgerEntry{Begin: begin}); err != nil {
			return 0, err
		}
	}
	samples, err := e.lines(ctx, t.w, lo, hi)
	if err == nil {
		err = t.w.Flush()
	}
	if err != nil || t.ledger == nil {
		return samples, err
	}
	if err := t.file.Sync(); err != nil {
		return samples, err
	}
	if t.end, err = t.file.Seek(0, io.SeekCurrent); err != nil {
		return samples, err
	}
	return samples, t.ledger.note(ledgerEntry{Begin: begin, Done: true, Stamp: stamp, Samples: samples, Start: start, End: t.end})
}
