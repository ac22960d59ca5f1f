package receiver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/golang/snappy"
)

// tooLargeError says that a body is larger than a limit.
type tooLargeError struct {
	what  string
	size  int64 // negative: unknown
	limit int64
	flag  string
}

func (e *tooLargeError) Error() string {
	size := "more"
	if e.size >= 0 {
		size = fmt.Sprint(e.size, " bytes")
	}
	return fmt.Sprintf("the %s body is too large: got %s, want at most %d bytes (%s)", e.what, size, e.limit, e.flag)
}

// bodyError says that a body is no snappy block.
type bodyError struct{ text string }

func (e *bodyError) Error() string { return e.text }

// readBody reads all of r into buf, which it returns grown. length is what the
// sender says it has, -1 if it does not; it is believed only as far as data comes.
func readBody(buf []byte, r io.Reader, length, limit int64) ([]byte, error) {
	if length > limit {
		return buf, &tooLargeError{"compressed", length, limit, "--limits.body"}
	}
	buf = buf[:0]
	if want := max(min(length, readAhead)+1, smallBody); want > int64(cap(buf)) {
		buf = make([]byte, 0, want)
	}
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*int64(cap(buf)), limit+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return buf, &tooLargeError{"compressed", -1, limit, "--limits.body"}
		case err == io.EOF:
			return buf, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return buf, &bodyError{fmt.Sprintf("the body ends after %d bytes, before its announced end", len(buf))}
		case err != nil:
			return buf, fmt.Errorf("reading the body: %w", err)
		}
	}
}

// Beginnings of what is not a snappy block but is sent as one.
var (
	framedMagic = []byte("\xff\x06\x00\x00sNaPpY")
	zstdMagic   = []byte{0x28, 0xb5, 0x2f, 0xfd}
	gzipMagic   = []byte{0x1f, 0x8b}
)

// decompress decodes the snappy block src into buf, which it returns grown.
// The decoded length is read and checked before memory is taken for it.
func decompress(buf, src []byte, limit int64) ([]byte, error) {
	switch {
	case len(src) == 0:
		return buf, &bodyError{"the body is empty, want a snappy block"}
	case bytes.HasPrefix(src, framedMagic):
		return buf, &bodyError{"the body is in snappy's framing format, want the block format"}
	case bytes.HasPrefix(src, zstdMagic):
		return buf, &bodyError{"the body is compressed with zstd, want snappy (block format)"}
	case bytes.HasPrefix(src, gzipMagic):
		return buf, &bodyError{"the body is compressed with gzip, want snappy (block format)"}
	}
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return buf, &bodyError{fmt.Sprintf("the body is no snappy block: its decoded length cannot be read: %v", err)}
	}
	if int64(n) > limit || int64(n) > math.MaxInt32 {
		return buf, &tooLargeError{"decoded", int64(n), limit, "--limits.decoded"}
	}
	// A block of snappy grows at most to 64 bytes for 3.
	if most := int64(len(src)) * 22; int64(n) > most {
		return buf, &bodyError{fmt.Sprintf("the body is no snappy block: %d bytes cannot hold the %d that it claims", len(src), n)}
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	out, err := snappy.Decode(buf[:cap(buf)], src)
	if err != nil {
		return buf, &bodyError{fmt.Sprintf("the body is no snappy block: %v", err)}
	}
	return out, nil
}
