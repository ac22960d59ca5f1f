package wal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/wal/record"
)

// CanDump says whether a file is a segment by what it begins with, of which four
// bytes are enough, or by its name, set aside or not.
func CanDump(path string, head []byte) bool {
	if bytes.HasPrefix(head, []byte(segmentMagic)) {
		return true
	}
	number, _, _ := strings.Cut(filepath.Base(path), ".")
	n, err := strconv.ParseUint(number, 10, 64)
	return err == nil && segmentName(n) == number
}

// Dump prints a segment frame by frame and record by record, field by field. It
// goes on past damage and names it in its place; the error is then a
// *vfs.CorruptError with the first. The end of a segment that is being written, or
// was when the power failed, looks like damage too. The file is not changed.
func Dump(w io.Writer, path string) error {
	f, err := os.Open(path) // it may lie where nothing can be written
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d := dumper{w: bufio.NewWriter(w), path: path}
	err = d.segment(newScanner(f, info.Size(), headerSize))
	if ferr := d.w.Flush(); err == nil {
		err = ferr
	}
	if err == nil && d.first != nil {
		err = d.first
	}
	return err
}

type dumper struct {
	w     *bufio.Writer // keeps the first error of writing
	path  string
	first error // damage
}

func (d *dumper) damage(off int64, err error) {
	if d.first == nil {
		d.first = &vfs.CorruptError{Path: d.path, Offset: off, Err: err}
	}
	fmt.Fprintf(d.w, "damage at %d: %v\n", off, err)
}

func (d *dumper) segment(sc *scanner) error {
	b, err := sc.at(0, min(headerSize, sc.size))
	if err != nil {
		return err
	}
	h, err := decodeHeader(b)
	switch {
	case errors.Is(err, ErrVersion):
		return &vfs.CorruptError{Path: d.path, Err: err}
	case err != nil:
		d.damage(0, err)
		sc.end = 0
	}
	if h.first != 0 {
		fmt.Fprintf(d.w, "segment number %d, first LSN %d, created %s, %d bytes\n",
			h.number, h.first, time.UnixMilli(h.created).UTC().Format(time.RFC3339Nano), sc.size)
		sc.last = h.first - 1
	}
	frames := 0
	for {
		last := sc.last
		from := sc.end
		err := sc.next()
		if err != nil && err != io.EOF {
			return err
		}
		if sc.skipped > 0 {
			d.damage(from, fmt.Errorf("%d bytes are no frame", sc.skipped))
		}
		if err == io.EOF {
			break
		}
		frames++
		d.frame(sc, last)
	}
	if frames == 0 && errors.Is(d.first, ErrMagic) {
		return nil // the damage says it all
	}
	fmt.Fprintf(d.w, "%d frames\n", frames)
	return nil
}

func (d *dumper) frame(sc *scanner, last LSN) {
	f := sc.frame
	if want := last + 1; last != 0 && f.LSN != want && sc.gapFrom != want {
		d.damage(sc.off, fmt.Errorf("got LSN %d, want %d", f.LSN, want))
	}
	begins := ""
	if sc.begins {
		begins = ", begins a group"
	}
	fmt.Fprintf(d.w, "frame at %d: len %d, crc32c %08x, LSN %d, class %d%s\n",
		sc.off, len(f.Payload)+1, sc.crc, f.LSN, f.Class, begins)
	if sc.gapFrom != 0 {
		fmt.Fprintf(d.w, "  LSN %d to %d are known to be missing\n", sc.gapFrom, f.LSN)
		return
	}
	if err := record.Dump(d.w, f.Payload); err != nil {
		d.damage(sc.off, err)
	}
}
