package vfs

import (
	"fmt"
	"io"
)

// File is an open file. Write appends at the end of what was written.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
}

// FS is a file system. Names are paths; SyncDir makes the creations, renames
// and removals in a directory durable.
type FS interface {
	MkdirAll(dir string) error
	// Create makes a new file open for reading and appending; it fails when the name exists.
	Create(name string) (File, error)
	// Open opens an existing file for reading and appending.
	Open(name string) (File, error)
	ReadDir(dir string) (names []string, err error) // sorted
	// Rename renames a file or directory; an existing file of the new name is replaced in one step.
	Rename(from, to string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	SyncDir(dir string) error
}

// CorruptError says that a file does not hold what it must: where, and in Err
// what was got and what was wanted.
type CorruptError struct {
	Path   string
	Offset int64 // bytes from the start of the file
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: offset %d: %v", e.Path, e.Offset, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }
