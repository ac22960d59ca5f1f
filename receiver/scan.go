package receiver

import (
	"encoding/binary"
	"fmt"
	"math"
)

// extent is where something stands in the decoded body.
type extent struct{ from, end int }

// entry is one series entry of a request, in memory that the next entry reuses.
// What it points to is valid until the scanner scans another into it.
type entry struct {
	ident      []byte    // 1.0: the fields that hold the labels, one behind the other, tags included
	identAt    int       // 1.0: where the first of them stands in the body
	refs       []uint32  // 2.0: names and values by turns, as indexes of symbols
	refsFault  string    // 2.0: why refs are no labels, "" when they may be
	t, st      []int64   // timestamps and start timestamps of the samples; st is empty in 1.0
	v          []float64 // values of the samples
	histograms []extent  // messages, not yet checked
	exemplars  []extent  // messages, not yet checked
	meta       entryMeta // 2.0
	start      int64     // 2.0: start timestamp of the series, for what has none of its own
	number     int       // it is the number-th series entry of the request
	gathered   []byte    // 1.0: memory for labels that do not stand together
}

// entryMeta is the metadata of a series entry in 2.0: symbols by index.
type entryMeta struct {
	typ        uint64
	help, unit uint64
}

func (e *entry) reset() {
	e.ident = nil
	e.refs = e.refs[:0]
	e.refsFault = ""
	e.t, e.st, e.v = e.t[:0], e.st[:0], e.v[:0]
	e.histograms, e.exemplars = e.histograms[:0], e.exemplars[:0]
	e.meta = entryMeta{}
	e.start = 0
}

// empty says that the entry holds nothing beside labels and metadata.
func (e *entry) empty() bool {
	return len(e.t) == 0 && len(e.histograms) == 0 && len(e.exemplars) == 0
}

// trim lets go of memory that an unusual request made large.
func (e *entry) trim() {
	if e == nil {
		return
	}
	e.ident = nil
	e.gathered = pooled(e.gathered)
	e.refs = pooled(e.refs)
	e.t, e.st, e.v = pooled(e.t), pooled(e.st), pooled(e.v)
	e.histograms, e.exemplars = pooled(e.histograms), pooled(e.exemplars)
}

// begin returns e, emptied for the number-th entry; there may be none yet.
func (e *entry) begin(number int) *entry {
	if e == nil {
		e = &entry{}
	}
	e.reset()
	e.number = number
	return e
}

// pooled returns s empty, or nil when it is too large to be kept.
func pooled[T any](s []T) []T {
	if cap(s) > maxPooledLen {
		return nil
	}
	return s[:0]
}

// totals count what a scanner has met in a request, against the bounds of limits.go.
type totals struct {
	entries, samples, histograms, exemplars, metadata int
}

// tooManyError says that a request holds more than a receiver is willing to decode.
type tooManyError struct {
	what string
	max  int
}

func (e *tooManyError) Error() string {
	return fmt.Sprintf("the request holds more than %d %s", e.max, e.what)
}

// count adds one to n, the number of what so far.
func count(n *int, what string, max int) error {
	if *n >= max {
		return &tooManyError{what, max}
	}
	*n++
	return nil
}

// schemaError says that a body has fields of the other version's schema.
type schemaError struct {
	message string // of the Content-Type
	field   uint32
	other   string
}

func (e *schemaError) Error() string {
	return fmt.Sprintf("the Content-Type says %s, but the body has field %d, which only %s has: the body is of the other version",
		e.message, e.field, e.other)
}

// tagSample is the tag of a TimeSeries' samples, the same in both versions.
const tagSample = 2<<3 | wtBytes

// sampleReach is how far the fast path of samples may look: tag, length, tag
// and value, tag, and eight bytes that hold a varint.
const sampleReach = 2 + 9 + 1 + 8

// fastSample reads a sample in the form that encoders write: value unless it is
// 0, then timestamp, nothing else. Its tag stands at p; it may look beyond end,
// where the entry ends, but not beyond the body. ok says that it was one.
func fastSample(body []byte, p, end int) (t int64, v float64, next int, ok bool) {
	if len(body)-p < sampleReach {
		return 0, 0, 0, false
	}
	f := (*[sampleReach]byte)(body[p:])
	var bits, u uint64
	var n int
	switch {
	case f[2] == 1<<3|wtFixed64 && f[11] == 2<<3|wtVarint:
		bits = binary.LittleEndian.Uint64(f[3:])
		u, n = varint8(binary.LittleEndian.Uint64(f[12:]))
		next = p + 12 + n
	case f[2] == 2<<3|wtVarint:
		u, n = varint8(binary.LittleEndian.Uint64(f[3:]))
		next = p + 3 + n
	default:
		return 0, 0, 0, false
	}
	if n == 0 || next > end || next != p+2+int(f[1]) {
		return 0, 0, 0, false
	}
	return int64(u), math.Float64frombits(bits), next, true
}

// slowSample reads any sample, from p to the end of b. Start timestamps are
// field 3 in 2.0 and unknown in 1.0.
func slowSample(b []byte, p int, starts bool) (t, st int64, v float64, err error) {
	var bits, ut, ust uint64
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		switch {
		case num == 1:
			bits, q = fixed64Field(b, q, wt)
		case num == 2:
			ut, q = varintField(b, q, wt)
		case num == 3 && starts:
			ust, q = varintField(b, q, wt)
		default:
			q = skip(b, q, wt)
		}
		if q < 0 {
			return 0, 0, 0, fault(q, msgSample, num, at)
		}
		p = q
	}
	return int64(ut), int64(ust), math.Float64frombits(bits), nil
}
