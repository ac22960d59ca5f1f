package chunkenc

import (
	"encoding/binary"
	"fmt"
)

// Encoding is the first byte of a chunk. rwsink's own start at 0xE0, clear of
// every number that Prometheus uses.
type Encoding uint8

// The encodings.
const (
	EncTime           Encoding = 0xE0 // a time column on its own, shared by many chunks
	EncDelta          Encoding = 0xE1 // floats, each column in the cheapest scheme
	EncRaw            Encoding = 0xE2 // floats, uncompressed: the yardstick
	EncHistogram      Encoding = 0xE3 // integer histograms: start column, then Prometheus's chunk
	EncFloatHistogram Encoding = 0xE4 // float histograms, likewise
)

// String returns the encoding's name, as flags and metrics use it.
func (e Encoding) String() string {
	switch e {
	case EncTime:
		return "time"
	case EncDelta:
		return "delta"
	case EncRaw:
		return "raw"
	case EncHistogram:
		return "histogram"
	case EncFloatHistogram:
		return "floathistogram"
	default:
		return fmt.Sprintf("unknown(0x%02x)", uint8(e))
	}
}

// TimeColumn is a time column that several chunks share. Immutable.
type TimeColumn struct {
	Data []byte // EncTime entry: see docs/format/chunk.md
}

// Chunk is a sealed, immutable run of samples of one kind.
type Chunk struct {
	MinT, MaxT int64       // first and last timestamp, Unix milliseconds
	N          uint16      // number of samples, at least 1
	Enc        Encoding    //
	Data       []byte      // the chunk's bytes, encoding byte included
	Times      *TimeColumn // the shared time column; nil when it stands inside Data
}

// Kind returns what the chunk's values are.
func (c *Chunk) Kind() Kind {
	switch c.Enc {
	case EncHistogram:
		return KindHistogram
	case EncFloatHistogram:
		return KindFloatHistogram
	default:
		return KindFloat
	}
}

// CorruptError says that bytes are no chunk, and where that shows.
type CorruptError struct {
	Enc    Encoding // what the bytes claim to be
	Offset int      // bytes from the start of Chunk.Data or TimeColumn.Data
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("decode %v chunk at byte %d: %v", e.Enc, e.Offset, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

func corrupt(enc Encoding, offset int, format string, args ...any) error {
	return &CorruptError{Enc: enc, Offset: offset, Err: fmt.Errorf(format, args...)}
}

// The bits of a chunk's second byte.
const (
	flagShared = 1 << 0 // the time column is shared: its reference follows
	flagStart  = 1 << 1 // there is a column of start timestamps

	schemeShift = 2 // the scheme of the values stands above the flags
)

// refOffset is where the 8-byte reference of a shared time column stands.
const refOffset = 2

// header is what stands before the columns of a chunk.
type header struct {
	enc   Encoding
	flags byte
	n     int
	size  int // bytes of the header
}

func (h *header) shared() bool { return h.flags&flagShared != 0 }
func (h *header) start() bool  { return h.flags&flagStart != 0 }

// appendHeader appends a chunk's header; the reference of a shared column is 0
// until SetTimeRef.
func appendHeader(dst []byte, enc Encoding, flags byte, n int) []byte {
	dst = append(dst, byte(enc), flags)
	if flags&flagShared != 0 {
		dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	return binary.AppendUvarint(dst, uint64(n))
}

// readHeader reads and checks a chunk's header.
func readHeader(data []byte) (header, error) {
	if len(data) < 2 {
		return header{}, corrupt(0, len(data), "got %d bytes, want at least 2", len(data))
	}
	h := header{enc: Encoding(data[0]), flags: data[1], size: 2}
	var known byte
	switch h.enc {
	case EncTime:
	case EncDelta, EncRaw:
		known = 0xff // the scheme is checked with the values
		if scheme := h.flags >> schemeShift; (h.enc == EncRaw) != (scheme == schemePlain) {
			return header{}, corrupt(h.enc, 1, "scheme %d of values", scheme)
		}
	case EncHistogram, EncFloatHistogram:
		known = flagStart
	default:
		return header{}, corrupt(h.enc, 0, "unknown encoding")
	}
	if h.flags&^known != 0 {
		return header{}, corrupt(h.enc, 1, "unknown flags 0x%02x", h.flags)
	}
	if h.shared() {
		h.size += 8
	}
	if len(data) < h.size {
		return header{}, corrupt(h.enc, len(data), "time reference cut short")
	}
	n, size := binary.Uvarint(data[h.size:])
	if size <= 0 || n == 0 || n > MaxSamples {
		return header{}, corrupt(h.enc, h.size, "count of samples is not 1 to %d", MaxSamples)
	}
	h.n = int(n)
	h.size += size
	return h, nil
}

// Open reads the header of a chunk's bytes, as they stand in a file, into a
// Chunk that keeps data. MinT and MaxT are not in the bytes and stay 0; Times
// is nil also when the column is shared (see TimeRef).
func Open(data []byte) (Chunk, error) {
	h, err := readHeader(data)
	if err != nil {
		return Chunk{}, err
	}
	if h.enc == EncTime {
		return Chunk{}, corrupt(h.enc, 0, "a time column is no chunk")
	}
	return Chunk{N: uint16(h.n), Enc: h.enc, Data: data}, nil
}

// TimeRef returns the reference of the shared time column that a chunk's bytes
// name; ok is false when the column stands inside. What the number means is up
// to whoever set it (a chunk reference, in a block).
func TimeRef(data []byte) (ref uint64, ok bool) {
	if len(data) < refOffset+8 || !isFloat(Encoding(data[0])) || data[1]&flagShared == 0 {
		return 0, false
	}
	return binary.BigEndian.Uint64(data[refOffset:]), true
}

// SetTimeRef patches that reference in place. The bytes must have one.
func SetTimeRef(data []byte, ref uint64) {
	if _, ok := TimeRef(data); !ok {
		panic("BUG: chunkenc: the chunk has no time reference")
	}
	binary.BigEndian.PutUint64(data[refOffset:], ref)
}

func isFloat(e Encoding) bool { return e == EncDelta || e == EncRaw }
