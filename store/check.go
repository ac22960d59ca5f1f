package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/prometheus/prometheus/storage"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/ooo"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// checkPages bounds the pages of an index that a check keeps at hand, bytes.
const checkPages = 1 << 20

// CheckOptions say whom Check tells what it finds.
type CheckOptions struct {
	// Fault is told what is damaged: a *vfs.CorruptError, a *jsonfile.NewerError, or
	// what the operating system refused.
	Fault func(error)
	// Note is told in a line what a start would tidy up, and what was set aside before.
	Note func(string)
}

// Checked is what Check went through.
type Checked struct {
	Blocks, Faults, Notes   int
	Series, Chunks, Columns int // of blocks
	Samples                 uint64
	Bytes                   int64 // of blocks
	Log                     wal.Checked
}

// String is the summary in a line.
func (c Checked) String() string {
	return fmt.Sprintf("%d blocks (%d bytes, %d series, %d chunks, %d shared time columns, %d samples), "+
		"%d log segments (%d bytes, %d frames, %d samples), %d notes, %d faults",
		c.Blocks, c.Bytes, c.Series, c.Chunks, c.Columns, c.Samples,
		c.Log.Segments, c.Log.Bytes, c.Log.Frames, c.Log.Samples, c.Notes, c.Faults)
}

// Check verifies a data directory that no process uses: every checksum, order
// and reference of its blocks and of its log. It changes nothing but that LOCK is made where
// there is none. The error says why not all of it could be checked.
func Check(ctx context.Context, path string, o CheckOptions) (Checked, error) {
	c := checker{path: path, o: o}
	if err := Exists(path); err != nil {
		return c.Checked, err
	}
	lock, err := lockToCheck(filepath.Join(path, lockName))
	if err != nil {
		return c.Checked, err
	}
	err = c.check(ctx)
	return c.Checked, errors.Join(err, lock.unlock())
}

// lockToCheck locks a directory that may be on a read-only file system: then no
// process can use it.
func lockToCheck(name string) (*dirLock, error) {
	lock, err := lockDir(vfs.OS{}, name)
	if !errors.Is(err, os.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return lock, err
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	return flock(f)
}

// readOnly reads what should be a small file, which vfs would open for writing.
func readOnly(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSmallFile))
	return string(b), err
}

type checker struct {
	Checked
	path string
	o    CheckOptions
}

func (c *checker) fault(err error) {
	c.Faults++
	c.o.Fault(err)
}

func (c *checker) damage(path, format string, args ...any) {
	c.fault(&vfs.CorruptError{Path: path, Err: fmt.Errorf(format, args...)})
}

func (c *checker) note(format string, args ...any) {
	c.Notes++
	c.o.Note(fmt.Sprintf(format, args...))
}

func (c *checker) check(ctx context.Context) error {
	name := filepath.Join(c.path, versionName)
	version, err := readOnly(name)
	if err != nil {
		return err
	}
	if err := knownLayout(name, version); err != nil {
		c.fault(err)
		return nil
	}
	id := filepath.Join(c.path, idName)
	text, err := readOnly(id)
	if err == nil {
		_, err = identity(id, text)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.fault(err)
	}
	removed, err := readRemovals(filepath.Join(c.path, blocksName))
	if err != nil {
		c.fault(err)
	}
	if err := c.checkBlocks(ctx, removed.Blocks); err != nil {
		return err
	}
	if _, _, err := readDeletes(filepath.Join(c.path, blocksName)); err != nil {
		c.fault(err)
	}
	for _, name := range smallFiles() {
		tmp := filepath.Join(c.path, name) + vfs.TmpSuffix
		if _, err := os.Lstat(tmp); err == nil {
			c.note("%s was not finished: the next start removes it", tmp)
		}
	}
	if err := c.listQuarantine(); err != nil {
		return err
	}
	log := filepath.Join(c.path, walName)
	c.Log, err = wal.Check(log, func(e *vfs.CorruptError) { c.fault(e) }, func(s string) { c.note("%s", s) })
	switch {
	case !errors.Is(err, os.ErrNotExist) || c.Log.Segments > 0:
		return err
	case c.Blocks > 0:
		c.damage(log, "the log is missing")
	default:
		c.note("%s is not there: no start was finished", log)
	}
	return nil
}

// checkedBlock is a block of which rwsink.json and meta.json could be read.
type checkedBlock struct {
	dir string
	block.Checked
}

// checkBlocks checks the blocks, but for those that are remembered as removed.
func (c *checker) checkBlocks(ctx context.Context, removed []string) error {
	dirs, unfinished, err := block.List(filepath.Join(c.path, blocksName))
	if errors.Is(err, os.ErrNotExist) {
		return nil // before the first start was done
	}
	if err != nil {
		return err
	}
	for _, d := range unfinished {
		c.note("%s was not finished, or not wholly removed: the next start removes it", d)
	}
	var list []checkedBlock
	mergedInto := map[string]string{}
	for _, d := range dirs {
		if slices.Contains(removed, filepath.Base(d)) {
			c.note("%s was removed, but for its files: the next start does that", d)
			continue
		}
		faults := c.Faults
		b, err := block.Check(ctx, d, c.fault)
		if err != nil {
			return err
		}
		c.Blocks++
		c.Series, c.Chunks, c.Columns = c.Series+b.Series, c.Chunks+b.Chunks, c.Columns+b.Columns
		c.Samples, c.Bytes = c.Samples+b.Samples, c.Bytes+b.Bytes
		if c.Faults > faults {
			continue
		}
		list = append(list, checkedBlock{d, b})
		for _, parent := range b.Info.Parents {
			mergedInto[parent] = filepath.Base(d)
		}
	}
	list = slices.DeleteFunc(list, func(b checkedBlock) bool {
		into, merged := mergedInto[filepath.Base(b.dir)]
		if merged {
			c.note("%s was merged into %s: the next start removes it", b.dir, into)
		}
		return merged
	})
	return c.checkGenerations(ctx, list)
}

// checkGenerations checks that of any two blocks for one instant of a series it is
// known which came later, unless both were filled in, or they say the same: what is
// sound in a damaged block is of the generation of what the log brings back of it.
// Parts of one frame are of one generation and have no instant in common, however
// their ranges lie once the block duration has changed.
func (c *checker) checkGenerations(ctx context.Context, list []checkedBlock) error {
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.Info.Generation.Class == block.ClassFilled || a.Info.Generation != b.Info.Generation || a.MinT > b.MaxT || b.MinT > a.MaxT {
				continue
			}
			series, at, err := contradiction(ctx, a.dir, b.dir, max(a.MinT, b.MinT), min(a.MaxT, b.MaxT))
			if err != nil {
				return err
			}
			if series != "" {
				c.damage(b.dir, "overlaps %s and has the same generation, class %d, LSN %d: both hold %s at %d, and not the same",
					filepath.Base(a.dir), b.Info.Generation.Class, b.Info.Generation.LSN, series, at)
			}
		}
	}
	return nil
}

// contradiction returns a series, and an instant of it in [lo, hi], of which two
// blocks hold different samples, or "". Of one series at a time the samples are in memory.
func contradiction(ctx context.Context, dirA, dirB string, lo, hi int64) (series string, at int64, err error) {
	a, inA, err := allSeries(ctx, dirA)
	if err != nil {
		return "", 0, err
	}
	defer a.Release()
	b, inB, err := allSeries(ctx, dirB)
	if err != nil {
		return "", 0, err
	}
	defer b.Release()
	readA, readB := a.NewReader(), b.NewReader()
	for text, refB := range inB {
		refA, ok := inA[text]
		if !ok {
			continue
		}
		held, err := samplesAt(readA, refA, lo, hi)
		if err != nil {
			return "", 0, err
		}
		err = readB.Read(refB, lo, hi, func(s *chunkenc.Samples) error {
			for i, t := range s.T {
				if p, ok := held[t]; ok && !ooo.Same(p.run, p.i, s, i) {
					series, at = text, t
				}
			}
			return nil
		})
		if series != "" || err != nil {
			return series, at, err
		}
	}
	return "", 0, nil
}

// place is where a sample is: the i-th of a run.
type place struct {
	run *chunkenc.Samples
	i   int
}

// samplesAt returns copies of the samples of a series in [lo, hi], by their timestamps.
func samplesAt(r *block.Reader, ref storage.SeriesRef, lo, hi int64) (map[int64]place, error) {
	held := map[int64]place{}
	err := r.Read(ref, lo, hi, func(s *chunkenc.Samples) error {
		run := &chunkenc.Samples{}
		run.Reset(s.Kind)
		run.Append(s)
		for i, t := range run.T {
			held[t] = place{run, i}
		}
		return nil
	})
	return held, err
}

// allSeries opens a block and returns its series by their labels.
func allSeries(ctx context.Context, dir string) (*block.Block, map[string]storage.SeriesRef, error) {
	b, err := block.Open(dir, block.NewPages(checkPages))
	if err != nil {
		return nil, nil, err
	}
	list, err := b.Select(ctx, everything)
	if err != nil {
		b.Release()
		return nil, nil, err
	}
	refs := map[string]storage.SeriesRef{}
	for _, s := range list {
		refs[s.Labels.String()] = s.Ref
	}
	return b, refs, nil
}

func (c *checker) listQuarantine() error {
	dir := filepath.Join(c.path, quarantineName)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		c.note("%s was damaged and set aside before", filepath.Join(dir, e.Name()))
	}
	return err
}
