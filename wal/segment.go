package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A segment file; numbers are little-endian, the formats stand in docs/format/wal.md.
//
//	header  magic <4b> | version <4b> | number <8b> | first LSN <8b> | created <8b> | crc32c <4b>
//	frame   len <4b> | crc32c <4b> | LSN <8b> | class <1b> | records <len-1 b>
//
// The header's checksum covers what stands before it. len counts class and
// records; the frame's checksum covers LSN, class and records. Bit 7 of class is
// set in the first frame of a group: by it replay tells an unfinished last group
// from damage. A frame of class gap says that the LSNs from <8b>, all it holds, to its
// own are known to be missing: lost, when a repair has left it, or never given out.
const (
	segmentMagic   = "RWSL"
	segmentVersion = 1
	headerSize     = 36

	frameHeaderSize = 16
	minFrameSize    = frameHeaderSize + 1

	// ClassWritten is the generation class of frames that senders wrote; 0 is for
	// what is filled in by healing and import, and ranks below.
	ClassWritten = 1

	classGap   = 0x7f // not for callers of Write
	gapLen     = 9    // the field len of such a frame
	classBegin = 0x80 // a bit: the frame is the first of a group

	// MaxPayload bounds the bytes of one frame's payload.
	MaxPayload = 256 << 20
	maxLen     = MaxPayload + 1 // of the field len
)

// The names of the files in the log's directory: eight or more digits, and for
// what a repair sets aside and for its unfinished work one of these endings.
const (
	damagedSuffix = ".damaged"
	repairSuffix  = ".repair"
)

// Errors inside a *vfs.CorruptError of Open, Replay and Dump.
var (
	ErrMagic   = errors.New("not a segment of an rwsink log")
	ErrVersion = errors.New("unknown version of the log's format")

	errHeader = errors.New("the header is damaged")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is what a segment says of itself.
type header struct {
	number  uint64
	first   LSN   // the LSN of its first frame
	created int64 // Unix milliseconds
}

func appendHeader(dst []byte, h header) []byte {
	start := len(dst)
	dst = append(dst, segmentMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, segmentVersion)
	dst = binary.LittleEndian.AppendUint64(dst, h.number)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.first))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.created))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// decodeHeader reads a header. ErrVersion: a later version's, whose checksum
// matches (these bytes stay what they are in every version); ErrMagic: there is
// no magic; errHeader: ours, but damaged. Damage to magic or version alone is told
// from a foreign file by the checksum: then the header is returned all the same.
func decodeHeader(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{}, fmt.Errorf("%w: got %d bytes, want %d", errHeader, len(b), headerSize)
	}
	b = b[:headerSize]
	h := header{
		number:  binary.LittleEndian.Uint64(b[8:]),
		first:   LSN(binary.LittleEndian.Uint64(b[16:])),
		created: int64(binary.LittleEndian.Uint64(b[24:])),
	}
	want := appendHeader(make([]byte, 0, headerSize), h)
	magic, version := string(b[:4]), binary.LittleEndian.Uint32(b[4:])
	intact := binary.LittleEndian.Uint32(b[32:]) == crc32.Checksum(b[:32], castagnoli)
	switch {
	case bytes.Equal(b, want):
		return h, nil
	case bytes.Equal(b[8:], want[8:]): // the checksum of our magic and version
		return h, fmt.Errorf("%w: got magic %q version %d", errHeader, magic, version)
	case magic != segmentMagic:
		return header{}, fmt.Errorf("%w: got magic %q, want %q", ErrMagic, magic, segmentMagic)
	case intact:
		return header{}, fmt.Errorf("%w: got %d, want at most %d", ErrVersion, version, segmentVersion)
	}
	return header{}, fmt.Errorf("%w: its checksum does not match", errHeader)
}

// appendFrame appends a frame whose payload is class and then records.
func appendFrame(dst []byte, lsn LSN, class byte, records []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(records)+1))
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(lsn))
	dst = append(dst, class)
	dst = append(dst, records...)
	crc := crc32.Checksum(dst[start+8:], castagnoli)
	binary.LittleEndian.PutUint32(dst[start+4:], crc)
	return dst
}

// appendGap appends the frame that says that from to to are lost.
func appendGap(dst []byte, from, to LSN) []byte {
	return appendFrame(dst, to, classGap|classBegin, binary.LittleEndian.AppendUint64(nil, uint64(from)))
}

// frameHeader is the fixed part of a frame.
type frameHeader struct {
	len int64
	crc uint32
	lsn LSN
}

// decodeFrameHeader reads the first frameHeaderSize bytes of b.
func decodeFrameHeader(b []byte) frameHeader {
	_ = b[frameHeaderSize-1]
	return frameHeader{
		len: int64(binary.LittleEndian.Uint32(b)),
		crc: binary.LittleEndian.Uint32(b[4:]),
		lsn: LSN(binary.LittleEndian.Uint64(b[8:])),
	}
}

func segmentName(number uint64) string { return fmt.Sprintf("%08d", number) }

// parseName takes a file's name apart; ok is false for a name that is not the log's.
func parseName(name string) (number uint64, suffix string, ok bool) {
	digits, suffix := name, ""
	if i := strings.IndexByte(name, '.'); i >= 0 {
		digits, suffix = name[:i], name[i:]
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, suffix, err == nil && digits == segmentName(number)
}
