package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	readSize = 1 << 20 // bytes of one read
	maxJump  = 1 << 32 // LSNs: a larger step is not taken for a frame, unless a gap frame says so
	anyLSN   = 1 << 62 // a bound that is none
)

// scanner reads the frames of a segment. It goes on at the next valid frame
// after damage: one whose length fits the file, whose LSN is above the last and
// below bound, and whose checksum matches.
type scanner struct {
	f    io.ReaderAt
	size int64
	buf  []byte
	pos  int64 // of buf in the file

	last  LSN // of the frame before; any is plausible after 0
	bound LSN // frames at or above it belong to a later segment

	// Set by next.
	off     int64 // where the frame stands; at io.EOF where the last valid one ends
	end     int64 // where it ends
	skipped int64 // damaged bytes before it; at io.EOF those up to the end of the file
	crc     uint32
	frame   Frame // Payload is valid until the next call
	begins  bool  // it is the first of a group
	gapFrom LSN   // not 0: a frame that says that gapFrom to its LSN are lost
}

// newScanner reads a file of the given size from off on.
func newScanner(f io.ReaderAt, size, off int64) *scanner {
	return &scanner{f: f, size: size, bound: anyLSN, end: min(off, size)}
}

// next finds the next valid frame. io.EOF: there is none; any other error is of reading.
func (s *scanner) next() error {
	from := s.end
	for off := from; off+minFrameSize <= s.size; off++ {
		ok, err := s.take(off)
		if err != nil {
			return err
		}
		if ok {
			s.off, s.skipped = off, off-from
			return nil
		}
	}
	s.off, s.skipped = from, s.size-from
	return io.EOF
}

// take reads the frame at off if there is a valid one.
func (s *scanner) take(off int64) (bool, error) {
	b, err := s.at(off, frameHeaderSize)
	if err != nil {
		return false, err
	}
	h := decodeFrameHeader(b)
	if h.len < 1 || h.len > maxLen || h.len > s.size-off-frameHeaderSize ||
		h.lsn <= s.last || h.lsn >= s.bound || s.far(h.lsn) && h.len != gapLen {
		return false, nil
	}
	if b, err = s.at(off, frameHeaderSize+h.len); err != nil {
		return false, err
	}
	if crc32.Checksum(b[8:], castagnoli) != h.crc {
		return false, nil
	}
	payload := b[frameHeaderSize:]
	class, from := payload[0]&^classBegin, LSN(0)
	if class == classGap && h.len == gapLen {
		from = LSN(binary.LittleEndian.Uint64(payload[1:]))
	}
	if class == classGap && (from == 0 || from > h.lsn || s.far(from)) || from == 0 && s.far(h.lsn) {
		return false, nil
	}
	s.frame = Frame{LSN: h.lsn, Class: class, Payload: payload[1:]}
	s.begins, s.gapFrom = payload[0]&classBegin != 0, from
	s.crc, s.last, s.end = h.crc, h.lsn, off+frameHeaderSize+h.len
	return true, nil
}

// far says that an LSN is too far from the last to follow it.
func (s *scanner) far(lsn LSN) bool { return s.last != 0 && lsn > s.last+maxJump }

// at returns the n bytes at off, valid until the next call. They lie within the file.
func (s *scanner) at(off, n int64) ([]byte, error) {
	if off < s.pos || off+n > s.pos+int64(len(s.buf)) {
		want := min(max(n, readSize), s.size-off)
		if int64(cap(s.buf)) < want {
			s.buf = make([]byte, 0, want)
		}
		s.pos, s.buf = off, s.buf[:want]
		if got, err := s.f.ReadAt(s.buf, off); int64(got) < want {
			s.buf = s.buf[:0]
			return nil, fmt.Errorf("read %d bytes at offset %d: got %d: %w", want, off, got, err)
		}
	}
	i := off - s.pos
	return s.buf[i : i+n], nil
}

// blank says whether the whole file is zeros.
func (s *scanner) blank() (bool, error) {
	for off := int64(0); off < s.size; off += readSize {
		b, err := s.at(off, min(readSize, s.size-off))
		if err != nil {
			return false, err
		}
		for _, c := range b {
			if c != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}
