package jsonfile

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/rwsink/rwsink/internal/vfs"
)

// Head is the first field of every file, embedded.
type Head struct {
	Magic   string `json:"magic"`
	Version int    `json:"version"`
}

// Sum is the last field of every file, embedded.
type Sum struct {
	CRC uint32 `json:"crc32c"` // of the object, as encoding/json writes it with crc32c 0
}

func (h *Head) head() *Head { return h }
func (s *Sum) sum() *Sum    { return s }

// File is a pointer to a struct that embeds Head and Sum.
type File interface {
	head() *Head
	sum() *Sum
}

// Kind is a kind of file.
type Kind struct {
	Magic          string
	Oldest, Newest int    // the versions that are read; Newest is written
	Unsummed       int    // versions up to it have no checksum; 0 is none
	Indent         string // of the file's lines; "" is one line
}

// NewerError says that a file was written by a newer rwsink. It is not damaged.
type NewerError struct {
	Path       string
	Got, Known int // versions
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s has version %d, this rwsink knows %d: use a newer rwsink", e.Path, e.Got, e.Known)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode fills in magic, version and checksum of f and returns the bytes of the file.
func Encode(k Kind, f File) ([]byte, error) {
	*f.head() = Head{k.Magic, k.Newest}
	crc, err := checksum(f)
	if err != nil {
		return nil, err
	}
	f.sum().CRC = crc
	data, err := json.Marshal(f)
	if k.Indent != "" && err == nil {
		data, err = json.MarshalIndent(f, "", k.Indent)
	}
	return append(data, '\n'), err
}

// checksum returns what the checksum of f is to be.
func checksum(f File) (uint32, error) {
	was := f.sum().CRC
	f.sum().CRC = 0
	data, err := json.Marshal(f)
	f.sum().CRC = was
	return crc32.Checksum(data, castagnoli), err
}

// Decode reads f from the bytes of the file at path. After an error f is not to be
// trusted, but where its bytes are JSON it holds what they say.
func Decode(path string, data []byte, k Kind, f File) error {
	damaged := func(format string, args ...any) error {
		return &vfs.CorruptError{Path: path, Err: fmt.Errorf(format, args...)}
	}
	if err := json.Unmarshal(data, f); err != nil {
		return damaged("%w", err)
	}
	switch h := f.head(); {
	case h.Magic != k.Magic:
		return damaged("magic %q, want %q", h.Magic, k.Magic)
	case h.Version > k.Newest:
		return &NewerError{path, h.Version, k.Newest}
	case h.Version < k.Oldest:
		return damaged("version %d, want %d to %d", h.Version, k.Oldest, k.Newest)
	case h.Version <= k.Unsummed:
		return nil
	}
	crc, err := checksum(f)
	if err != nil {
		return damaged("%w", err)
	}
	if crc != f.sum().CRC {
		return damaged("checksum %08x, want %08x", crc, f.sum().CRC)
	}
	return nil
}

// Read is Decode of a file on the operating system's disk, whose errors it
// returns as they are.
func Read(path string, k Kind, f File) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return Decode(path, data, k, f)
}

// Write replaces the file.
func Write(fs vfs.FS, path string, k Kind, f File) error {
	data, err := Encode(k, f)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return vfs.WriteWhole(fs, path, data)
}
