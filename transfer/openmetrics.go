package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unsafe"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/rwsink/rwsink/head"
)

// OpenMetrics text is parsed by Prometheus's parser, which wants all of it in
// memory and ends at the first error. So:
//
//  1. whole lines are collected to a portion,
//  2. a portion is parsed with the last TYPE line in front, which is all that the
//     parser remembers, and "# EOF" behind,
//  3. each line is one entry, so that after an error the line is known; it is
//     refused, and parsing begins anew with the line behind it.

const (
	// portionBytes is the size from which on a portion is parsed.
	portionBytes = 256 << 10
	// maxMetricLine bounds a line of OpenMetrics, in bytes.
	maxMetricLine = 4 << 20
	// maxStrange is how many lines are refused before the first sample until the text
	// is taken for something else.
	maxStrange = 20
)

// errStrange ends the reading of a text.
var errStrange = fmt.Errorf("%d lines refused and no sample before them: this is no OpenMetrics text with timestamps; what follows is not read", maxStrange)

var (
	endOfText  = []byte("# EOF")
	typePrefix = []byte("# TYPE ")
)

// metricsReader reads one text.
type metricsReader struct {
	c       *collector
	name    string
	typing  []byte // the last TYPE line, newline included
	lines   []byte // the portion
	starts  []int  // where its lines begin
	text    []byte // what is parsed
	first   int    // the number of its first line
	taken   bool   // a sample of it made sense
	bad     int    // lines that did not
	labels  labels.Labels
	wire    []head.Label
	key     []byte
	symbols *labels.SymbolTable
}

// openMetrics reads OpenMetrics text.
func (c *collector) openMetrics(ctx context.Context, r *bufio.Reader, name string) error {
	m := metricsReader{c: c, name: name, symbols: labels.NewSymbolTable()}
	err := m.read(ctx, &lineReader{r: r})
	if errors.Is(err, errStrange) {
		c.gate.refuse(place{name: name}, err.Error())
		return nil
	}
	return err
}

func (m *metricsReader) read(ctx context.Context, lines *lineReader) error {
	c := m.c
	m.begin(1)
	for {
		line, err := lines.next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			if err := m.portion(ctx); err != nil {
				return err
			}
			what := "does not end with # EOF: it may be cut"
			if lines.number == 0 {
				what = "is empty; only as JSON lines, with --format=json, would that be complete"
			}
			c.gate.refuse(place{name: m.name}, what)
			return nil
		case err != nil:
			if err := m.portion(ctx); err != nil {
				return err
			}
			c.gate.refuse(m.place(lines.number+1), err.Error()+"; what follows is not read")
			return nil
		case bytes.Equal(line, endOfText):
			if err := m.portion(ctx); err != nil {
				return err
			}
			if _, err := lines.next(); !errors.Is(err, io.EOF) {
				c.gate.refuse(m.place(lines.number), "more behind # EOF is not read")
			}
			return nil
		}
		if what := unreadable(line, lines.long); what != "" {
			if err := m.portion(ctx); err != nil {
				return err
			}
			if err := m.refuse(lines.number, what); err != nil {
				return err
			}
			m.begin(lines.number + 1)
			continue
		}
		m.starts = append(m.starts, len(m.lines))
		m.lines = append(append(m.lines, line...), '\n')
		if len(m.lines) >= portionBytes {
			if err := m.portion(ctx); err != nil {
				return err
			}
			m.begin(lines.number + 1)
		}
	}
}

// unreadable says why the parser cannot be given a line, or "": to it, a NUL byte
// at the beginning of a line is the end of the text, before the end of the line above.
func unreadable(line []byte, long bool) string {
	switch {
	case long || len(line) > maxMetricLine:
		return fmt.Sprintf("a line of more than %d bytes", maxMetricLine)
	case len(line) > 0 && line[0] == 0:
		return "a line that begins with a NUL byte"
	}
	return ""
}

func (m *metricsReader) place(line int) place { return place{m.name, line} }

// refuse refuses a line; where there are many of them and no sample the error ends the text.
func (m *metricsReader) refuse(line int, why string) error {
	m.c.gate.refuse(m.place(line), why)
	if m.bad++; !m.taken && m.bad == maxStrange {
		return errStrange
	}
	return nil
}

// begin begins a portion with the line of that number.
func (m *metricsReader) begin(line int) { m.lines, m.starts, m.first = m.lines[:0], m.starts[:0], line }

// portion parses what was collected: all at once, and behind a bad line one
// line, then twice as many each time, so that many bad ones cost little.
func (m *metricsReader) portion(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	batch := len(m.starts)
	for done := 0; done < len(m.starts); batch *= 2 {
		n, bad, err := m.parse(done, min(done+batch, len(m.starts)))
		if err != nil {
			return err
		}
		done += n
		if bad != nil {
			if err := m.refuse(m.first+done, bad.Error()); err != nil {
				return err
			}
			done, batch = done+1, 1
		}
	}
	return nil
}

// offset returns where the i-th line begins, or the last ends.
func (m *metricsReader) offset(i int) int {
	if i == len(m.starts) {
		return len(m.lines)
	}
	return m.starts[i]
}

// parse parses the lines [from, to) of the portion. It returns how many it read,
// and what is wrong with the next one.
func (m *metricsReader) parse(from, to int) (n int, bad, err error) {
	m.text = append(m.text[:0], m.typing...)
	m.text = append(m.text, m.lines[m.offset(from):m.offset(to)]...)
	m.text = append(append(m.text, endOfText...), '\n')
	shift := m.offset(from) - len(m.typing) // from text to lines
	p := textparse.NewOpenMetricsParser(m.text, m.symbols)
	if len(m.typing) > 0 {
		if _, err := p.Next(); err != nil {
			panic("BUG: a TYPE line that was read is no longer one: " + err.Error())
		}
	}
	for ; from+n < to; n++ {
		line := m.text[m.offset(from+n)-shift : m.offset(from+n+1)-shift]
		entry, err := p.Next()
		switch {
		case err != nil:
			return n, inWords(err), nil
		case entry == textparse.EntryType:
			if !bytes.HasPrefix(line, typePrefix) {
				return n, errors.New("not a TYPE line"), nil
			}
			m.typing = append(m.typing[:0], line...)
		case entry == textparse.EntrySeries:
			series, ts, v := p.Series()
			if unsafe.SliceData(series) != unsafe.SliceData(line) || len(series) > len(line) {
				return n, errors.New("a line break inside of quotes"), nil
			}
			if ts == nil {
				return n, errors.New("no timestamp"), nil
			}
			if bad, err := m.sample(p, m.first+from+n, series, line[len(series):], v); bad != nil || err != nil {
				return n, bad, err
			}
		}
	}
	return n, nil, nil
}

// inWords says what the parser found where a number was wanted; its other errors say that themselves.
func inWords(err error) error {
	if num := (*strconv.NumError)(nil); errors.As(err, &num) {
		return fmt.Errorf("%.32q is not a number", num.Num)
	}
	return err
}

// sample takes one sample; rest is what stands behind the series.
func (m *metricsReader) sample(p textparse.Parser, number int, series, rest []byte, v float64) (bad, err error) {
	t, err := milliseconds(rest)
	if err != nil {
		return err, nil
	}
	// The type decides how the labels le and quantile are written.
	m.key = append(append(append(m.key[:0], m.typing...), 0), series...)
	s, err := m.c.series(m.key, func() ([]head.Label, error) {
		p.Labels(&m.labels)
		m.wire = m.wire[:0]
		m.labels.Range(func(l labels.Label) {
			m.wire = append(m.wire, head.Label{Name: []byte(l.Name), Value: []byte(l.Value)})
		})
		return m.wire, nil
	})
	if err != nil {
		return err, nil
	}
	var e exemplar.Exemplar
	if p.Exemplar(&e) {
		m.c.exemplars++
	}
	m.taken = true
	return nil, m.c.float(m.place(number), s, t, 0, v)
}

// milliseconds reads the timestamp in " VALUE TIMESTAMP...": seconds, to the
// nearest millisecond (the parser cuts, which is one too few for many).
func milliseconds(rest []byte) (int64, error) {
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0, errors.New("no timestamp")
	}
	seconds, err := strconv.ParseFloat(string(fields[1]), 64)
	ms := math.Round(seconds * 1000)
	if err != nil || !(ms >= math.MinInt64 && ms < math.MaxInt64) {
		return 0, fmt.Errorf("timestamp %.32q is not a number of seconds", fields[1])
	}
	return int64(ms), nil
}
