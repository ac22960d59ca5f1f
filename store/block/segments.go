package block

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/rwsink/rwsink/chunkenc"
)

// The chunk segments of a block, as Prometheus has them; docs/format/block.md:
//
//	magic <4b> | version <1b> | zeros <3b> | entry ...
//	entry: len <uvarint> | encoding <1b> | data <len b> | crc32c <4b>
//
// A reference is the segment's number less one in the upper 32 bits, and the
// offset of the entry in the lower ones.

const (
	// segmentMost is how large a segment becomes: a reader maps each as a whole.
	segmentMost = 32 << 20
	// segmentBuffer is how much of a segment waits to be written.
	segmentBuffer = 256 << 10
	// entryFrame is the most that stands around the data of an entry.
	entryFrame = binary.MaxVarintLen32 + 1 + crc32.Size
)

// segmentWriter writes the chunk segments of one block after another.
type segmentWriter struct {
	dir    string
	file   *os.File // the segment at hand; nil before the first and after close
	count  int      // of segments, the one at hand included
	offset int      // in the segment at hand, what waits included
	buf    []byte   // waits to be written
}

// reset begins with the segments of the block in dir.
func (s *segmentWriter) reset(dir string) { *s = segmentWriter{dir: dir, buf: s.buf[:0]} }

// add writes an entry.
func (s *segmentWriter) add(enc chunkenc.Encoding, data []byte) (chunks.ChunkRef, error) {
	if s.file == nil || s.offset > len(segmentHead) && s.offset+entryFrame+len(data) > segmentMost {
		if err := s.cut(); err != nil {
			return 0, err
		}
	}
	ref := chunks.NewBlockChunkRef(uint64(s.count-1), uint64(s.offset))
	from := len(s.buf)
	s.buf = binary.AppendUvarint(s.buf, uint64(len(data)))
	summed := len(s.buf)
	s.buf = append(append(s.buf, byte(enc)), data...)
	s.buf = binary.BigEndian.AppendUint32(s.buf, crc32.Checksum(s.buf[summed:], castagnoli))
	s.offset += len(s.buf) - from
	if len(s.buf) < segmentBuffer {
		return chunks.ChunkRef(ref), nil
	}
	return chunks.ChunkRef(ref), s.write()
}

func (s *segmentWriter) write() error {
	_, err := s.file.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// cut ends the segment at hand and begins the next.
func (s *segmentWriter) cut() (err error) {
	if err := s.end(); err != nil {
		return err
	}
	if s.file, err = os.Create(filepath.Join(s.dir, segmentName(s.count))); err != nil {
		return err
	}
	s.count++
	s.buf = append(s.buf, segmentHead...)
	s.offset = len(segmentHead)
	return nil
}

// end makes the segment at hand, if there is one, durable.
func (s *segmentWriter) end() error {
	if s.file == nil {
		return nil
	}
	err := s.write()
	if err == nil {
		err = s.file.Sync()
	}
	if cerr := s.file.Close(); err == nil {
		err = cerr
	}
	s.file = nil
	return err
}

// abort lets go of the segment at hand.
func (s *segmentWriter) abort() {
	if s.file != nil {
		_ = s.file.Close() // what was written goes
		s.file = nil
	}
}
