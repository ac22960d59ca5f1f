package query

import (
	"encoding/binary"

	"github.com/golang/snappy"
)

// blockBytes is the stretch of input that snappy compresses by itself: no copy
// reaches further back, so the compressed stretches can simply follow each other.
const blockBytes = 64 << 10

// maxSnappyBytes is the most that one snappy block can say it holds.
const maxSnappyBytes = 1<<32 - 1

// blockWriter writes one snappy block whose decoded length is known beforehand,
// stretch by stretch: the bytes are those of snappy.Encode over the whole, and
// neither the input nor the output is ever held at once.
type blockWriter struct {
	out *wire
	src []byte // the stretch under way
	dst []byte // its compressed form
}

// start begins a block of n decoded bytes, at most maxSnappyBytes.
func (b *blockWriter) start(out *wire, n int64) error {
	if b.src == nil {
		b.src = make([]byte, 0, blockBytes)
		b.dst = make([]byte, snappy.MaxEncodedLen(blockBytes))
	}
	b.out, b.src = out, b.src[:0]
	var head [binary.MaxVarintLen64]byte
	return out.write(binary.AppendUvarint(head[:0], uint64(n)))
}

// write takes the bytes of p.
func (b *blockWriter) write(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), blockBytes-len(b.src))
		b.src = append(b.src, p[:n]...)
		p = p[n:]
		if len(b.src) == blockBytes {
			if err := b.seal(); err != nil {
				return err
			}
		}
	}
	return nil
}

// seal compresses and writes the stretch under way; the last one may be short.
func (b *blockWriter) seal() error {
	if len(b.src) == 0 {
		return nil
	}
	enc := snappy.Encode(b.dst, b.src)
	enc = enc[uvarintLen(uint64(len(b.src))):]
	b.src = b.src[:0]
	return b.out.write(enc)
}
