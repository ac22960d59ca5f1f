package block

import (
	"bufio"
	"unsafe"

	"github.com/klauspost/compress/zstd"

	"github.com/rwsink/rwsink/chunkenc"
)

// Buffers is the memory that a Writer works in, for one block after another.
// It belongs to one Writer at a time, from Create to Commit or Abort; what has
// grown beyond keptBytes is let go of then.
type Buffers struct {
	segments  segmentWriter
	index     indexWriter
	packer    packer
	dec       chunkenc.Decoder
	col, data []byte // of time columns and of chunks that share them
}

// keptBytes bounds each piece of memory that is kept between blocks: that of
// blocks of some 100,000 series is.
const keptBytes = 4 << 20

// NewBuffers returns the memory for Writers that take turns.
func NewBuffers() *Buffers {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithWindowSize(packedPage), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("BUG: options of zstd: " + err.Error())
	}
	return &Buffers{packer: packer{enc: enc, out: bufio.NewWriterSize(nil, 2*packedPage), page: make([]byte, 0, packedPage)}}
}

// reset lets go of a block.
func (b *Buffers) reset() {
	b.segments.buf = kept(b.segments.buf)
	b.index.reset()
	b.packer.reset()
	b.col, b.data = kept(b.col), kept(b.data)
}

// kept returns an empty slice with the memory of s, or without where that is too much.
func kept[T any](s []T) []T {
	var x T
	if uintptr(cap(s))*unsafe.Sizeof(x) > keptBytes {
		return nil
	}
	clear(s) // what it refers to goes
	return s[:0]
}

// keptMap is kept for a map; an entry takes about keptEntry bytes.
func keptMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil || len(m)*keptEntry > keptBytes {
		return map[K]V{}
	}
	clear(m)
	return m
}

const keptEntry = 64
