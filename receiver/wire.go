package receiver

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The protobuf wire format over plain slices.
//
// Every function takes a slice that begins where the decoded body begins and
// ends where the message at hand ends, and a position in it; so a position is
// also the offset that an error names. It returns the position behind what it
// read, or a fault: a negative position that says what is wrong. Varints have at
// most ten bytes and bits beyond 64 are dropped, as protobuf has it.

// Wire types.
const (
	wtVarint     = 0
	wtFixed64    = 1
	wtBytes      = 2
	wtGroupStart = 3
	wtGroupEnd   = 4
	wtFixed32    = 5
)

// maxFieldNumber is the largest field number that protobuf allows.
const maxFieldNumber = 1<<29 - 1

// Faults.
const (
	faultTruncated = -1 - iota
	faultVarint
	faultLength
	faultTag
	faultGroup
	faultIllegalType
	faultWireType
	faultPacked
)

var faultTexts = [...]string{
	-faultTruncated:   "the message ends inside it",
	-faultVarint:      "varint longer than 10 bytes",
	-faultLength:      "length reaches beyond the end of the message",
	-faultTag:         "illegal field number",
	-faultGroup:       "end of a group that was not opened",
	-faultIllegalType: "illegal wire type",
	-faultWireType:    "wrong wire type",
	-faultPacked:      "packed values reach beyond the end of the field",
}

// wireError says where a body is not a message of its schema.
type wireError struct {
	message string // the message's name
	field   uint32 // the field's number, 0 when it cannot be told
	offset  int    // of the field in the decoded body
	fault   int
}

func (e *wireError) Error() string {
	field := "a field"
	if e.field != 0 {
		field = fmt.Sprintf("field %d", e.field)
		if names := fieldNames[e.message]; int(e.field) < len(names) && names[e.field] != "" {
			field += " (" + names[e.field] + ")"
		}
	}
	return fmt.Sprintf("malformed protobuf: %s, %s at byte %d: %s", e.message, field, e.offset, faultTexts[-e.fault])
}

// fault returns the error for the fault at field num of message, whose tag stands at offset.
func fault(pos int, message string, num uint32, offset int) error {
	return &wireError{message: message, field: num, offset: offset, fault: pos}
}

// Names of messages.
const (
	msgRequest1  = "prometheus.WriteRequest"
	msgSeries1   = "prometheus.TimeSeries"
	msgLabel     = "prometheus.Label"
	msgExemplar1 = "prometheus.Exemplar"
	msgMetadata1 = "prometheus.MetricMetadata"
	msgRequest2  = "io.prometheus.write.v2.Request"
	msgSeries2   = "io.prometheus.write.v2.TimeSeries"
	msgExemplar2 = "io.prometheus.write.v2.Exemplar"
	msgMetadata2 = "io.prometheus.write.v2.Metadata"
	msgSample    = "Sample"
	msgHistogram = "Histogram"
	msgSpan      = "BucketSpan"
)

// fieldNames are the names of the fields by number.
var fieldNames = map[string][]string{
	msgRequest1:  {1: "timeseries", 3: "metadata"},
	msgSeries1:   {1: "labels", 2: "samples", 3: "exemplars", 4: "histograms"},
	msgLabel:     {1: "name", 2: "value"},
	msgExemplar1: {1: "labels", 2: "value", 3: "timestamp"},
	msgMetadata1: {1: "type", 2: "metric_family_name", 4: "help", 5: "unit"},
	msgRequest2:  {4: "symbols", 5: "timeseries"},
	msgSeries2:   {1: "labels_refs", 2: "samples", 3: "histograms", 4: "exemplars", 5: "metadata", 6: "created_timestamp"},
	msgExemplar2: {1: "labels_refs", 2: "value", 3: "timestamp"},
	msgMetadata2: {1: "type", 3: "help_ref", 4: "unit_ref"},
	msgSample:    {1: "value", 2: "timestamp", 3: "start_timestamp"},
	msgHistogram: {
		1: "count_int", 2: "count_float", 3: "sum", 4: "schema", 5: "zero_threshold", 6: "zero_count_int",
		7: "zero_count_float", 8: "negative_spans", 9: "negative_deltas", 10: "negative_counts",
		11: "positive_spans", 12: "positive_deltas", 13: "positive_counts", 14: "reset_hint",
		15: "timestamp", 16: "custom_values", 17: "start_timestamp",
	},
	msgSpan: {1: "offset", 2: "length"},
}

// uvarint reads a varint.
func uvarint(b []byte, p int) (uint64, int) {
	if p < len(b) {
		if c := b[p]; c < 0x80 {
			return uint64(c), p + 1
		}
	}
	return uvarintSlow(b, p)
}

func uvarintSlow(b []byte, p int) (uint64, int) {
	var v uint64
	for shift := uint(0); shift < 70; shift += 7 {
		if p >= len(b) {
			return 0, faultTruncated
		}
		c := b[p]
		p++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, p
		}
	}
	return 0, faultVarint
}

// tag reads a field's number and wire type. On a fault the number is 0.
func tag(b []byte, p int) (num uint32, wt int, next int) {
	v, p := uvarint(b, p)
	if p < 0 {
		return 0, 0, p
	}
	if n := v >> 3; n == 0 || n > maxFieldNumber {
		return 0, 0, faultTag
	}
	return uint32(v >> 3), int(v & 7), p
}

// span reads a length and returns where what has this length begins and ends.
func span(b []byte, p int) (from, end int) {
	n, p := uvarint(b, p)
	if p < 0 {
		return 0, p
	}
	if n > uint64(len(b)-p) {
		return 0, faultLength
	}
	return p, p + int(n)
}

// skip passes over a field of wire type wt whose tag was read, groups included.
// A fault in p is handed on.
func skip(b []byte, p, wt int) int {
	depth := 0
	for {
		if p < 0 {
			return p
		}
		switch wt {
		case wtVarint:
			_, p = uvarint(b, p)
		case wtFixed64:
			p = advance(b, p, 8)
		case wtBytes:
			_, p = span(b, p)
		case wtGroupStart:
			depth++
		case wtGroupEnd:
			if depth == 0 {
				return faultGroup
			}
			depth--
		case wtFixed32:
			p = advance(b, p, 4)
		default:
			return faultIllegalType
		}
		if depth == 0 || p < 0 {
			return p
		}
		_, wt, p = tag(b, p)
	}
}

func advance(b []byte, p, n int) int {
	if len(b)-p < n {
		return faultTruncated
	}
	return p + n
}

// The readers of a field of known type, whose tag was read as wire type wt.

func bytesField(b []byte, p, wt int) (from, end int) {
	if wt != wtBytes {
		return 0, faultWireType
	}
	return span(b, p)
}

func varintField(b []byte, p, wt int) (uint64, int) {
	if wt != wtVarint {
		return 0, faultWireType
	}
	return uvarint(b, p)
}

func fixed64Field(b []byte, p, wt int) (uint64, int) {
	if wt != wtFixed64 {
		return 0, faultWireType
	}
	if len(b)-p < 8 {
		return 0, faultTruncated
	}
	return binary.LittleEndian.Uint64(b[p:]), p + 8
}

// varint8 reads a varint of at most eight bytes from the eight bytes x, first
// byte lowest; n is its length, 0 when it is longer.
func varint8(x uint64) (v uint64, n int) {
	stops := ^x & 0x8080808080808080
	if stops == 0 {
		return 0, 0
	}
	x &= (stops ^ (stops - 1)) & 0x7f7f7f7f7f7f7f7f
	x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
	x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
	x = x&0x000000000fffffff | x&0x0fffffff00000000>>4
	return x, bits.TrailingZeros64(stops)>>3 + 1
}

// unzigzag decodes a sint32 or sint64.
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
