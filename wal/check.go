package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/wal/record"
)

// Checked is what Check went through.
type Checked struct {
	Segments int
	Bytes    int64
	Frames   int
	Samples  int // floats and histograms
	Next     LSN // one more than that of the last frame; 0 when there is none
}

// Check reads the log in dir as the next Open and Replay would, and changes
// nothing. It calls fault for each damage: headers, frames, missing LSNs, records
// that do not decode, samples of series that their segment does not name; and
// note for what is not as a clean end leaves it and yet no damage, such as the
// torn tail of a killed process. The error is of reading.
func Check(dir string, fault func(*vfs.CorruptError), note func(string)) (Checked, error) {
	c := checker{fault: fault, note: note}
	if err := c.list(dir); err != nil {
		return c.Checked, err
	}
	for i := range c.segments {
		if err := c.segment(i); err != nil {
			return c.Checked, fmt.Errorf("check %s: %w", c.segments[i].path, err)
		}
	}
	return c.Checked, nil
}

type checker struct {
	Checked
	fault    func(*vfs.CorruptError)
	note     func(string)
	segments []checkedSegment
	batch    record.Batch
}

// checkedSegment is a file that holds frames.
type checkedSegment struct {
	segment
	path    string
	named   map[uint64]bool // the references that series records have named so far
	holes   bool            // frames are missing before the one at hand
	unnamed int             // samples of series nobody names, behind holes
}

func (c *checker) damage(path string, off int64, format string, args ...any) {
	c.fault(&vfs.CorruptError{Path: path, Offset: off, Err: fmt.Errorf(format, args...)})
}

// list finds the segments, by number.
func (c *checker) list(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	whole := map[uint64]bool{}
	for _, e := range entries {
		if n, suffix, ok := parseName(e.Name()); ok && suffix == "" {
			whole[n] = true
		}
	}
	for _, e := range entries {
		n, suffix, ok := parseName(e.Name())
		path := filepath.Join(dir, e.Name())
		switch {
		case !ok:
			continue
		case strings.HasPrefix(suffix, damagedSuffix):
			c.note(path + " was damaged and set aside before")
			continue
		case suffix == repairSuffix && whole[n]:
			c.note(path + " is an unfinished repair: the next start drops it")
			continue
		case suffix == repairSuffix:
			c.note(path + " is a repair that the next start finishes")
		case suffix != "":
			continue
		}
		if err := c.open(path, n); err != nil {
			return fmt.Errorf("check %s: %w", path, err)
		}
	}
	slices.SortFunc(c.segments, func(a, b checkedSegment) int { return cmp.Compare(a.number, b.number) })
	return nil
}

// open reads the header of a segment and keeps the segment if it may hold frames.
func (c *checker) open(path string, number uint64) error {
	f, size, err := openSized(path)
	if err != nil {
		return err
	}
	defer f.Close()
	c.Segments++
	c.Bytes += size
	s, err := inspect(f, size, number)
	switch {
	case errors.Is(err, ErrVersion):
		c.damage(path, 0, "%w: use a newer rwsink", err)
	case errors.Is(err, ErrMagic):
		c.damage(path, 0, "%w", err)
	case err != nil:
		return err
	case s.damaged != nil:
		c.damage(path, 0, "%w", s.damaged)
	case s.first == 0:
		c.note(path + " is an unfinished creation: the next start drops it")
	}
	if err == nil && s.first != 0 {
		c.segments = append(c.segments, checkedSegment{segment: s, path: path, named: map[uint64]bool{}})
	}
	return nil
}

func openSized(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// segment reads the frames of the i-th segment, as Replay does.
func (c *checker) segment(i int) error {
	s := &c.segments[i]
	f, size, err := openSized(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	bound := LSN(anyLSN)
	for _, later := range c.segments[i+1:] {
		bound = min(bound, later.first)
	}
	newest := i == len(c.segments)-1
	start := int64(headerSize)
	if s.damaged != nil {
		start, s.holes = 0, true
	}
	sc := newScanner(f, size, start)
	next := min(s.first, bound)
	sc.last, sc.bound = next-1, bound
	end := sc.end
	for next < bound {
		err := sc.next()
		if err == nil && newest && sc.skipped > 0 {
			err = tornGroup(sc)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		c.between(s, sc, end, next)
		next, end = sc.frame.LSN+1, sc.end
		c.frame(s, sc)
	}
	end = max(end, min(headerSize, size))
	switch torn := size - end; {
	case !newest && next < bound:
		c.damage(s.path, end, "LSN %d to %d are missing: %d bytes are no frames", next, bound-1, torn)
	case newest && torn > 0:
		c.note(fmt.Sprintf("%s: offset %d: %d bytes are an unfinished write: the next start cuts them off", s.path, end, torn))
	}
	if s.unnamed > 0 {
		c.note(fmt.Sprintf("%s: %d samples are of series whose names were in what is missing", s.path, s.unnamed))
	}
	c.Next = next
	s.named = nil
	return nil
}

// between judges what stands between the frame that ended at end and that of sc,
// whose LSN should be next.
func (c *checker) between(s *checkedSegment, sc *scanner, end int64, next LSN) {
	first := sc.frame.LSN
	if sc.gapFrom != 0 {
		first = sc.gapFrom
		s.holes = true // a repair left it
	}
	told := s.damaged != nil && end == 0 && sc.off == headerSize // the header itself
	switch {
	case first > next:
		c.damage(s.path, end, "LSN %d to %d are missing: %d bytes are no frames", next, first-1, sc.skipped)
	case sc.skipped > 0 && !told:
		c.damage(s.path, end, "%d bytes are no frame", sc.skipped)
	default:
		return
	}
	s.holes = true
}

// frame checks what a frame holds.
func (c *checker) frame(s *checkedSegment, sc *scanner) {
	if sc.gapFrom != 0 {
		return
	}
	c.Frames++
	if sc.frame.Class > ClassWritten {
		c.damage(s.path, sc.off, "LSN %d: unknown class %d", sc.frame.LSN, sc.frame.Class)
	}
	if err := record.Decode(&c.batch, sc.frame.Payload); err != nil {
		c.damage(s.path, sc.off, "LSN %d: %w", sc.frame.LSN, err)
		s.holes = true
		return
	}
	c.Samples += len(c.batch.Floats.Ref) + len(c.batch.Histograms)
	for i := range c.batch.Series {
		s.named[c.batch.Series[i].Ref] = true
	}
	unnamed, first := 0, uint64(0)
	use := func(ref uint64) {
		if !s.named[ref] {
			if unnamed == 0 {
				first = ref
			}
			unnamed++
		}
	}
	for _, ref := range c.batch.Floats.Ref {
		use(ref)
	}
	for i := range c.batch.Histograms {
		use(c.batch.Histograms[i].Ref)
	}
	for i := range c.batch.Exemplars {
		use(c.batch.Exemplars[i].Ref)
	}
	switch {
	case unnamed == 0:
	case s.holes:
		s.unnamed += unnamed
	default:
		c.damage(s.path, sc.off, "LSN %d: series %d is not named in this segment (%d samples of such series)", sc.frame.LSN, first, unnamed)
	}
}
