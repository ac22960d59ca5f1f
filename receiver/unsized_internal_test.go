package receiver

import (
	"bytes"
	"testing"
	"testing/iotest"
)

// A body whose length is not told is read whole into a new buffer as into a used one.
func TestReadBodyOfUnknownLength(t *testing.T) {
	want := bytes.Repeat([]byte("body "), 3000)
	for _, buf := range [][]byte{nil, {}, make([]byte, 0, 1), make([]byte, 7, 100_000)} {
		got, err := readBody(buf, iotest.OneByteReader(bytes.NewReader(want)), -1, 1<<20)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("capacity %d: %d bytes, want %d; %v", cap(buf), len(got), len(want), err)
		}
	}
}
