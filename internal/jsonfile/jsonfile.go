package jsonfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strconv"

	"github.com/rwsink/rwsink/internal/vfs"
)

// Head is the first field of every file, embedded.
type Head struct {
	Magic   string `json:"magic"`
	Version int    `json:"version"`
}

// Sum is the last field of every file, embedded.
type Sum struct {
	CRC uint32 `json:"crc32c"` // of the object without white space, with crc32c 0
}

func (h *Head) head() *Head { return h }
func (s *Sum) sum() *Sum    { return s }

// File is a pointer to a struct that embeds Head and Sum.
type File interface {
	head() *Head
	Summed
}

// Summed is a pointer to a struct that embeds Sum, as its last field.
type Summed interface{ sum() *Sum }

// Kind is a kind of file.
type Kind struct {
	Magic          string
	Oldest, Newest int    // the versions that are read; Newest is written
	Unsummed       int    // versions up to it have no checksum; 0 is none
	Indent         string // of the file's lines; "" is one line
}

// NewerError says that a file was written by a newer rwsink: its checksum is right.
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
	line, err := Line(f)
	if err != nil || k.Indent == "" {
		return line, err
	}
	data, err := json.MarshalIndent(f, "", k.Indent)
	return append(data, '\n'), err
}

// Line fills in the checksum of v and returns it as a line.
func Line(v Summed) ([]byte, error) {
	*v.sum() = Sum{}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	v.sum().CRC = crc32.Checksum(data, castagnoli)
	data, err = json.Marshal(v)
	return append(data, '\n'), err
}

// sumField is the last field, up to its value.
var sumField = []byte(`"crc32c":`)

// CheckSum returns what is wrong with the checksum of a file, of whatever version, or of a line.
func CheckSum(data []byte) error {
	var text bytes.Buffer
	if err := json.Compact(&text, data); err != nil {
		return err
	}
	before, value, ok := cutLast(text.Bytes(), sumField)
	got, err := strconv.ParseUint(string(bytes.TrimSuffix(value, []byte("}"))), 10, 32)
	if !ok || err != nil {
		return errors.New("no checksum at its end")
	}
	want := crc32.Checksum(slices.Concat(before, sumField, []byte("0}")), castagnoli)
	if uint32(got) != want {
		return fmt.Errorf("checksum %08x, want %08x", got, want)
	}
	return nil
}

// cutLast is bytes.Cut around the last sep.
func cutLast(s, sep []byte) (before, after []byte, ok bool) {
	i := bytes.LastIndex(s, sep)
	if i < 0 {
		return s, nil, false
	}
	return s[:i], s[i+len(sep):], true
}

// Decode reads f from the bytes of the file at path. After an error f is not to be
// trusted, but where its bytes are JSON it holds what they say.
func Decode(path string, data []byte, k Kind, f File) error {
	damaged := func(format string, args ...any) error {
		return &vfs.CorruptError{Path: path, Err: fmt.Errorf(format, args...)}
	}
	// What has another type than here is left out, and may be a newer version's.
	other := json.Unmarshal(data, f)
	if other != nil && !errors.As(other, new(*json.UnmarshalTypeError)) {
		return damaged("%w", other)
	}
	h, err := f.head(), CheckSum(data)
	switch {
	case other != nil && h.Version <= k.Newest:
		return damaged("%w", other)
	case h.Magic != k.Magic:
		return damaged("magic %q, want %q", h.Magic, k.Magic)
	case h.Version < k.Oldest:
		return damaged("version %d, want %d to %d", h.Version, k.Oldest, k.Newest)
	case h.Version <= k.Unsummed && f.sum().CRC == 0:
		return nil
	case err != nil && h.Version > k.Newest:
		return damaged("version %d, want %d to %d, with %w", h.Version, k.Oldest, k.Newest, err)
	case err != nil:
		return damaged("%w", err)
	case h.Version > k.Newest:
		return &NewerError{path, h.Version, k.Newest}
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
