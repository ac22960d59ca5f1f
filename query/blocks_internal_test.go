package query

import (
	"bytes"
	"math/rand/v2"
	"net/http/httptest"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/s2"
)

func TestCompressorMakesOneSnappyBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var c compressor
	for _, n := range []int{0, 1, 16, 17, stretchBytes - 1, stretchBytes, stretchBytes + 1, 3*stretchBytes + 10, 10 * stretchBytes} {
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
		for rest := in; len(rest) > 0; {
			k := min(len(rest), 1+rng.IntN(100_000))
			c.write(rest[:k])
			rest = rest[k:]
		}
		end := c.seal()
		// A part's head may come when its end is known.
		head := bytes.Repeat([]byte{'h'}, 1+rng.IntN(60))
		want := append(bytes.Clone(head), in...)
		if err := out.write(appendBlockHead(nil, int64(len(want)))); err != nil {
			t.Fatal(err)
		}
		if err := out.write(appendLiteral(nil, head)); err != nil {
			t.Fatal(err)
		}
		if err := c.send(&out, 0, end/3); err != nil {
			t.Fatal(err)
		}
		if err := c.send(&out, end/3, end); err != nil {
			t.Fatal(err)
		}
		if err := out.flush(); err != nil {
			t.Fatal(err)
		}
		c.reset()
		for name, decode := range map[string]func(_, _ []byte) ([]byte, error){"snappy": snappy.Decode, "s2": s2.Decode} {
			if got, err := decode(nil, rec.Body.Bytes()); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %s: %v", n, name, err)
			}
		}
	}
}
