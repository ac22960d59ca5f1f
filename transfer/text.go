package transfer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rwsink/rwsink/head"
)

// maxLine bounds a line of JSON, in bytes: the longest that is held in memory.
// A year of a sample every 15 s is about 50 MB.
const maxLine = 128 << 20

// lineReader gives the lines of a text, with their numbers.
type lineReader struct {
	r      *bufio.Reader
	buf    []byte
	number int  // of the line given last, from 1
	long   bool // the line given last was longer than maxLine: it is cut
	whole  bool // it ended with a newline
}

// errTooLong is what a line that is cut is refused with.
var errTooLong = fmt.Errorf("a line of more than %d bytes", maxLine)

// next returns the next line without its newline; io.EOF at the end. It is
// good until the next call.
func (l *lineReader) next() ([]byte, error) {
	l.buf, l.long = l.buf[:0], false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(part) == 0 && err != nil && len(l.buf) == 0 {
			return nil, err
		}
		if len(l.buf) == 0 && err == nil { // the common case: all of it is there
			l.number++
			l.whole = true
			return part[:len(part)-1], nil
		}
		if len(l.buf)+len(part) > maxLine {
			l.long = true
		} else {
			l.buf = append(l.buf, part...)
		}
		switch {
		case err == nil:
			l.number++
			l.whole = true
			return bytes.TrimSuffix(l.buf, []byte("\n")), nil
		case errors.Is(err, io.EOF):
			l.number++
			l.whole = false
			return l.buf, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// opened is a text that was opened: unpacked, and its format known.
type opened struct {
	r      *bufio.Reader
	format Format
}

// readAhead is how much of a text is read at once, and looked at to know its format.
const readAhead = 1 << 20

// openText unpacks what r gives, if it is packed, and looks which format it is.
func openText(r io.Reader, format Format) (*opened, error) {
	br := bufio.NewReaderSize(r, readAhead)
	if magic, _ := br.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, err
		}
		br = bufio.NewReaderSize(z, readAhead)
	}
	if format == Auto {
		format = OpenMetrics
		// What cannot be read is said when it is read.
		if start, _ := br.Peek(4096); looksLikeJSON(start) {
			format = JSON
		}
	}
	return &opened{br, format}, nil
}

// looksLikeJSON says whether a text begins with an object. A metric of
// OpenMetrics may begin with a brace and a quoted name, too, but no colon follows.
func looksLikeJSON(start []byte) bool {
	start = bytes.TrimLeft(start, " \t\r\n")
	if len(start) == 0 || start[0] != '{' {
		return false
	}
	p := jsonParser{b: start, i: 1}
	if p.peek() != '"' {
		return true
	}
	_, err := p.text()
	return err == nil && p.peek() == ':'
}

// jsonLines reads JSON lines.
func (c *collector) jsonLines(ctx context.Context, r *bufio.Reader, name string) error {
	lines := lineReader{r: r}
	var p jsonParser
	var line jsonLine
	for {
		text, err := lines.next()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			c.gate.refuse(place{name, lines.number + 1}, err.Error()+"; what follows is not read")
			return nil
		}
		at := place{name, lines.number}
		if lines.long {
			c.gate.refuse(at, errTooLong.Error())
			continue
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if err := p.parse(text, &line); err != nil {
			if !lines.whole {
				err = fmt.Errorf("%w (the line does not end: the file may be cut)", err)
			}
			c.gate.refuse(at, err.Error())
			continue
		}
		if err := c.jsonLine(at, &line); err != nil {
			return err
		}
	}
}

// jsonLine takes the samples of a line.
func (c *collector) jsonLine(at place, line *jsonLine) error {
	n, err := c.series(line.raw, func() ([]head.Label, error) { return line.labels, nil })
	if err != nil {
		c.gate.refuse(at, err.Error())
		return nil
	}
	for i, t := range line.t {
		var st int64
		if len(line.st) > 0 {
			st = line.st[i]
		}
		if len(line.v) > 0 {
			err = c.float(at, n, t, st, line.v[i])
		} else {
			err = c.take(at, n, t, 0, extra{st, line.h[i], line.fh[i]})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
