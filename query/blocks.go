package query

import (
	"encoding/binary"
	"sync"

	"github.com/golang/snappy"
)

// stretchBytes is how much input snappy compresses by itself: no copy reaches
// further back, so compressed stretches can simply follow each other in a block.
const stretchBytes = 64 << 10

// maxSnappyBytes is the most that one snappy block can say it holds.
const maxSnappyBytes = 1<<32 - 1

// compressor holds the inside of a snappy block, compressed as it grows: of a
// long reply only the compressed form is in memory, and what must stand before
// a part of it can still be written when the part's length is known.
type compressor struct {
	src   []byte  // the stretch under way
	dst   []byte  // scratch: a compressed stretch
	slabs []*slab // what is compressed
	n     int64   // bytes in slabs
}

// slab is a piece of memory from a pool.
type slab [64 << 10]byte

var slabs = sync.Pool{New: func() any { return new(slab) }}

// write takes the bytes of p.
func (c *compressor) write(p []byte) {
	if c.src == nil {
		c.src = make([]byte, 0, stretchBytes)
		c.dst = make([]byte, snappy.MaxEncodedLen(stretchBytes))
	}
	for len(p) > 0 {
		n := min(len(p), stretchBytes-len(c.src))
		c.src = append(c.src, p[:n]...)
		p = p[n:]
		if len(c.src) == stretchBytes {
			c.seal()
		}
	}
}

// seal compresses the stretch under way and returns the number of compressed bytes so far.
func (c *compressor) seal() int64 {
	if len(c.src) == 0 {
		return c.n
	}
	enc := snappy.Encode(c.dst, c.src)
	enc = enc[uvarintLen(uint64(len(c.src))):]
	c.src = c.src[:0]
	for len(enc) > 0 {
		at := int(c.n % int64(len(slab{})))
		if at == 0 {
			c.slabs = append(c.slabs, slabs.Get().(*slab))
		}
		n := copy(c.slabs[len(c.slabs)-1][at:], enc)
		c.n += int64(n)
		enc = enc[n:]
	}
	return c.n
}

// send writes the compressed bytes [from, to).
func (c *compressor) send(out *wire, from, to int64) error {
	const size = int64(len(slab{}))
	for from < to {
		s, at := c.slabs[from/size], from%size
		n := min(to-from, size-at)
		if err := out.write(s[at : at+n]); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// reset lets go of everything but the scratch memory.
func (c *compressor) reset() {
	for i, s := range c.slabs {
		slabs.Put(s)
		c.slabs[i] = nil
	}
	c.slabs, c.n, c.src = c.slabs[:0], 0, c.src[:0]
}

// appendLiteral appends p, of 1 to 60 bytes, as a snappy literal.
func appendLiteral(dst, p []byte) []byte {
	return append(append(dst, byte(len(p)-1)<<2), p...)
}

// appendBlockHead appends what a snappy block of so many decoded bytes begins with.
func appendBlockHead(dst []byte, decoded int64) []byte {
	return binary.AppendUvarint(dst, uint64(decoded))
}
