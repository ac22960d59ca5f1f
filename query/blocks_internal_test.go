package query

import (
	"bytes"
	"math/rand/v2"
	"net/http/httptest"
	"testing"

	"github.com/golang/snappy"
)

func TestBlocksAreOneSnappyBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var b blockWriter
	for _, n := range []int{0, 1, 16, 17, blockBytes - 1, blockBytes, blockBytes + 1, 3*blockBytes + 10, 10 * blockBytes} {
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(rng.IntN(4)) // compresses
		}
		for i := n / 2; i < n*3/4; i++ {
			in[i] = byte(rng.Uint32()) // does not
		}
		rec := httptest.NewRecorder()
		var out wire
		out.reset(rec)
		if err := b.start(&out, int64(n)); err != nil {
			t.Fatal(err)
		}
		for rest := in; len(rest) > 0; {
			k := min(len(rest), 1+rng.IntN(100_000))
			if err := b.write(rest[:k]); err != nil {
				t.Fatal(err)
			}
			rest = rest[k:]
		}
		if err := b.seal(); err != nil {
			t.Fatal(err)
		}
		if err := out.flush(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(rec.Body.Bytes(), snappy.Encode(nil, in)) {
			t.Errorf("%d bytes: not what snappy makes of them", n)
		}
		if got, err := snappy.Decode(nil, rec.Body.Bytes()); err != nil || !bytes.Equal(got, in) {
			t.Errorf("%d bytes: decode: %v", n, err)
		}
	}
}
