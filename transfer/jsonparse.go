package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/head"
)

// jsonLine is a parsed line. Its slices are reused by the next parse; labels
// and raw borrow the line.
type jsonLine struct {
	raw    []byte // the object under metric, as it stands
	labels []head.Label
	t, st  []int64
	v      []float64
	h      []*histogram.Histogram      // with fh, as many as t, one of both set; or empty
	fh     []*histogram.FloatHistogram //
}

// jsonParser reads one line without a look at the rest of the file.
type jsonParser struct {
	b    []byte
	i    int
	seen map[string]bool // the members of this line
	odd  []oddValue
	out  *jsonLine
}

// oddValue is an entry of bits.
type oddValue struct {
	index int
	bits  uint64
}

// parse reads a line into out. The error names the position and what is wrong.
func (p *jsonParser) parse(line []byte, out *jsonLine) error {
	*out = jsonLine{labels: out.labels[:0], t: out.t[:0], st: out.st[:0], v: out.v[:0], h: out.h[:0], fh: out.fh[:0]}
	*p = jsonParser{b: line, seen: p.seen, odd: p.odd[:0], out: out}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	clear(p.seen)
	err := p.object(p.member)
	if err == nil {
		if p.space(); p.i < len(p.b) {
			err = errors.New("more behind the object")
		}
	}
	if err != nil {
		return fmt.Errorf("column %d: %w", p.i+1, err)
	}
	return p.complete()
}

// complete checks that what was read belongs together.
func (p *jsonParser) complete() error {
	o := p.out
	n := len(o.v)
	switch {
	case !p.seen["metric"]:
		return errors.New("no metric")
	case p.seen["values"] == p.seen["histograms"]:
		return errors.New("want one of values and histograms")
	case p.seen["histograms"]:
		n = len(o.h)
	}
	switch {
	case len(o.t) != n:
		return fmt.Errorf("%d timestamps for %d values", len(o.t), n)
	case p.seen["starts"] && len(o.st) != n:
		return fmt.Errorf("%d starts for %d values", len(o.st), n)
	}
	for _, odd := range p.odd {
		v := math.Float64frombits(odd.bits)
		if odd.index >= len(o.v) || !value.IsStaleNaN(o.v[odd.index]) || v == v {
			return fmt.Errorf("bits: value %d is not null, or %016x is not a NaN", odd.index, odd.bits)
		}
		o.v[odd.index] = v
	}
	return nil
}

// member reads what stands under a name of the line.
func (p *jsonParser) member(name []byte) error {
	key := string(name)
	if p.seen[key] {
		return fmt.Errorf("%.64q is given twice", key)
	}
	o := p.out
	switch key {
	case "metric":
		p.seen[key] = true
		begin := p.i
		err := p.object(func(name []byte) error {
			v, err := p.text()
			o.labels = append(o.labels, head.Label{Name: name, Value: v})
			return err
		})
		o.raw = p.b[begin:p.i]
		return err
	case "values":
		p.seen[key] = true
		return p.array(func(int) error {
			v, err := p.value()
			o.v = append(o.v, v)
			return err
		})
	case "timestamps":
		p.seen[key] = true
		return p.integers(&o.t)
	case "starts":
		p.seen[key] = true
		return p.integers(&o.st)
	case "histograms":
		p.seen[key] = true
		return p.array(func(int) error { return p.histogram() })
	case "bits":
		p.seen[key] = true
		return p.object(p.bits)
	}
	return p.skip()
}

func (p *jsonParser) bits(name []byte) error {
	text, err := p.text()
	if err != nil {
		return err
	}
	index, errI := strconv.ParseUint(string(name), 10, 31)
	bits, errB := strconv.ParseUint(string(text), 16, 64)
	if errI != nil || errB != nil || len(text) != 16 {
		return fmt.Errorf("bits: %.32q: %.32q, want an index and 16 hexadecimal digits", name, text)
	}
	p.odd = append(p.odd, oddValue{int(index), bits})
	return nil
}

func (p *jsonParser) integers(dst *[]int64) error {
	return p.array(func(int) error {
		word := p.word()
		n, err := strconv.ParseInt(borrowed(word), 10, 64)
		if err != nil || !isNumber(word) {
			return fmt.Errorf("%.32q is not a whole number of milliseconds", word)
		}
		*dst = append(*dst, n)
		return nil
	})
}

// value reads a float: a number, null, or a word of specialFloat.
func (p *jsonParser) value() (float64, error) {
	if p.peek() == '"' {
		text, err := p.text()
		if err != nil {
			return 0, err
		}
		v, ok := specialFloat(string(text))
		if !ok {
			return 0, fmt.Errorf("%.32q is not a value", text)
		}
		return v, nil
	}
	word := p.word()
	if string(word) == "null" {
		return math.Float64frombits(value.StaleNaN), nil
	}
	return parseNumber(word)
}

// parseNumber reads a JSON number; one too large for a float is an error.
func parseNumber(word []byte) (float64, error) {
	if isNumber(word) {
		if v, err := strconv.ParseFloat(borrowed(word), 64); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%.32q is not a value", word)
}

// isNumber says whether a word is a number by the grammar of JSON.
func isNumber(b []byte) bool {
	digits := func() bool {
		n := 0
		for len(b) > n && b[n] >= '0' && b[n] <= '9' {
			n++
		}
		b = b[n:]
		return n > 0
	}
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	if len(b) > 1 && b[0] == '0' && b[1] >= '0' && b[1] <= '9' || !digits() {
		return false
	}
	if len(b) > 0 && b[0] == '.' {
		if b = b[1:]; !digits() {
			return false
		}
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		if b = b[1:]; len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		if !digits() {
			return false
		}
	}
	return len(b) == 0
}

// borrowed is b as a string, for a callee that keeps none of it but in an error that is dropped.
func borrowed(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (p *jsonParser) histogram() error {
	p.space()
	begin := p.i
	if err := p.skip(); err != nil {
		return err
	}
	var j jsonHistogram
	dec := json.NewDecoder(bytes.NewReader(p.b[begin:p.i]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("histogram %d: %w", len(p.out.h), err)
	}
	h, fh, err := j.build()
	if err != nil {
		return fmt.Errorf("histogram %d: %w", len(p.out.h), err)
	}
	p.out.h, p.out.fh = append(p.out.h, h), append(p.out.fh, fh)
	return nil
}

// What follows reads JSON: object, array, text and word each read one thing,
// white space before it included.

func (p *jsonParser) space() {
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\t' || p.b[p.i] == '\r' || p.b[p.i] == '\n') {
		p.i++
	}
}

// peek returns the next character, 0 at the end.
func (p *jsonParser) peek() byte {
	p.space()
	if p.i == len(p.b) {
		return 0
	}
	return p.b[p.i]
}

// take reads the character c.
func (p *jsonParser) take(c byte) error {
	if got := p.peek(); got != c {
		if p.i == len(p.b) {
			return fmt.Errorf("the line ends, want %q", c)
		}
		return fmt.Errorf("got %q, want %q", got, c)
	}
	p.i++
	return nil
}

// object calls member at the value of each name, which it must read.
func (p *jsonParser) object(member func(name []byte) error) error {
	if err := p.take('{'); err != nil {
		return err
	}
	if p.peek() == '}' {
		p.i++
		return nil
	}
	for {
		name, err := p.text()
		if err == nil {
			err = p.take(':')
		}
		if err == nil {
			err = member(name)
		}
		if err != nil {
			return err
		}
		if p.peek() == ',' {
			p.i++
			continue
		}
		return p.take('}')
	}
}

// array calls item at each value, which it must read.
func (p *jsonParser) array(item func(i int) error) error {
	if err := p.take('['); err != nil {
		return err
	}
	if p.peek() == ']' {
		p.i++
		return nil
	}
	for i := 0; ; i++ {
		if err := item(i); err != nil {
			return err
		}
		if p.peek() == ',' {
			p.i++
			continue
		}
		return p.take(']')
	}
}

// text reads a string. It borrows the line where nothing is escaped.
func (p *jsonParser) text() ([]byte, error) {
	if err := p.take('"'); err != nil {
		return nil, err
	}
	begin, escaped := p.i, false
	for ; p.i < len(p.b); p.i++ {
		switch c := p.b[p.i]; {
		case c == '\\':
			escaped = true
			p.i++
		case c < 0x20:
			return nil, fmt.Errorf("%q inside a string", c)
		case c == '"':
			raw := p.b[begin:p.i]
			p.i++
			switch {
			case !utf8.Valid(raw):
				return nil, fmt.Errorf("%.64q is not valid UTF-8", raw)
			case !escaped:
				return raw, nil
			}
			var s string
			if err := json.Unmarshal(p.b[begin-1:p.i], &s); err != nil {
				return nil, fmt.Errorf("%.64q: %w", raw, err)
			}
			return []byte(s), nil
		}
	}
	p.i = len(p.b)
	return nil, errors.New("a string does not end")
}

// word reads to the next delimiter: a number, null, true or false.
func (p *jsonParser) word() []byte {
	p.space()
	begin := p.i
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ',', ']', '}', ':', ' ', '\t', '\r', '\n', '"', '[', '{':
			return p.b[begin:p.i]
		}
		p.i++
	}
	return p.b[begin:p.i]
}

// maxDepth bounds how deep what is skipped may nest.
const maxDepth = 32

// skip reads over any value.
func (p *jsonParser) skip() error { return p.skipDeep(maxDepth) }

func (p *jsonParser) skipDeep(depth int) error {
	if depth == 0 {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch p.peek() {
	case '{':
		return p.object(func([]byte) error { return p.skipDeep(depth - 1) })
	case '[':
		return p.array(func(int) error { return p.skipDeep(depth - 1) })
	case '"':
		_, err := p.text()
		return err
	}
	switch word := p.word(); string(word) {
	case "null", "true", "false":
		return nil
	default:
		_, err := parseNumber(word)
		return err
	}
}
