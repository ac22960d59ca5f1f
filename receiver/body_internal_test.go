package receiver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/golang/snappy"
	"pgregory.net/rapid"
)

func TestReadBody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 20_000
		body := make([]byte, rapid.IntRange(0, limit+100).Draw(t, "size"))
		for i := range body {
			body[i] = byte(i * 7)
		}
		length := rapid.SampledFrom([]int64{-1, int64(len(body)), 0, 1, limit}).Draw(t, "length")
		var r io.Reader = bytes.NewReader(body)
		switch rapid.IntRange(0, 3).Draw(t, "reader") {
		case 0:
			r = iotest.OneByteReader(r)
		case 1:
			r = iotest.DataErrReader(r)
		case 2:
			r = iotest.HalfReader(r)
		}
		got, err := readBody(make([]byte, 0, rapid.IntRange(0, 3000).Draw(t, "pooled")), r, length, limit)
		var large *tooLargeError
		switch {
		case len(body) > limit:
			if !errors.As(err, &large) {
				t.Fatalf("%d bytes: got error %v, want tooLargeError", len(body), err)
			}
		case err != nil:
			t.Fatal(err)
		case !bytes.Equal(got, body):
			t.Fatalf("got %d bytes that differ from the %d sent", len(got), len(body))
		}
	})
}

func TestReadBodyBelievesNoLength(t *testing.T) {
	got, err := readBody(nil, strings.NewReader("x"), 1<<30, 1<<31)
	if err != nil || string(got) != "x" || cap(got) > 2*readAhead {
		t.Errorf("got %q, %v with %d bytes taken", got, err, cap(got))
	}
	_, err = readBody(nil, iotest.ErrReader(errors.New("must not be read")), 101, 100)
	var large *tooLargeError
	if !errors.As(err, &large) || large.size != 101 {
		t.Errorf("announced too large: got %v", err)
	}
}

func TestReadBodyFails(t *testing.T) {
	for want, err := range map[int]error{400: io.ErrUnexpectedEOF, 503: os.ErrDeadlineExceeded} {
		_, got := readBody(nil, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(err)), -1, 100)
		if got == nil || status(got, 400) != want {
			t.Errorf("%v: got %v, status %d, want %d", err, got, status(got, 400), want)
		}
	}
}

func TestDecompress(t *testing.T) {
	data := bytes.Repeat([]byte("remote write "), 1000)
	block := snappy.Encode(nil, data)
	claims := func(n uint64) []byte { return append(binary.AppendUvarint(nil, n), "\x00x"...) }
	var framed bytes.Buffer
	w := snappy.NewBufferedWriter(&framed)
	_, _ = w.Write(data)
	_ = w.Close()
	const limit = 20_000
	tests := []struct {
		name string
		src  []byte
		want []byte
		bad  string
	}{
		{"block", block, data, ""},
		{"block of nothing", []byte{0}, nil, ""},
		{"nothing", nil, nil, "the body is empty"},
		{"framed", framed.Bytes(), nil, "framing format"},
		{"zstd", []byte("\x28\xb5\x2f\xfd\x04\x00"), nil, "zstd"},
		{"gzip", []byte("\x1f\x8b\x08\x00"), nil, "gzip"},
		{"garbage behind", append(block[:len(block):len(block)], 0, 'x'), nil, "no snappy block"},
		{"cut", block[:len(block)-1], nil, "no snappy block"},
		{"raw", data, nil, "no snappy block"},
		{"length cut", []byte{0xff}, nil, "decoded length"},
		{"length beyond 32 bits", claims(1 << 40), nil, "decoded length"},
		{"length beyond the limit", claims(limit + 1), nil, "too large: got 20001 bytes, want at most 20000 bytes (--limits.decoded)"},
		{"length at the limit, but a lie", claims(limit), nil, "cannot hold the 20000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := decompress(make([]byte, 0, 10), test.src, limit)
			if (err == nil) != (test.bad == "") || err != nil && !strings.Contains(err.Error(), test.bad) {
				t.Fatalf("got error %v, want %q", err, test.bad)
			}
			if err == nil && !bytes.Equal(got, test.want) {
				t.Errorf("got %d bytes that differ from the %d encoded", len(got), len(test.want))
			}
			if err != nil && status(err, 400) != 400 {
				t.Errorf("got status %d, want 400", status(err, 400))
			}
			if strings.HasPrefix(test.name, "length") && cap(got) > 100 {
				t.Errorf("%d bytes were taken before the length was judged", cap(got))
			}
		})
	}
}

// TestTheLengthIsBelievable encodes what compresses best and expects it to pass.
func TestTheLengthIsBelievable(t *testing.T) {
	for _, n := range []int{1, 10, 63, 64, 65, 1000, 65536, 1 << 20} {
		data := make([]byte, n)
		if got, err := decompress(nil, snappy.Encode(nil, data), 1<<20); err != nil || len(got) != n {
			t.Errorf("%d zeros: %d bytes, %v", n, len(got), err)
		}
	}
}
