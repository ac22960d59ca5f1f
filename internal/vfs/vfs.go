// Package vfs is the file seam of what rwsink keeps on disk: the few operations
// that the log and the store make, so that crash and fault sweeps run in memory
// (package memfs) with the same code that runs on a disk (OS).
package vfs

import "io"

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
	Rename(from, to string) error
	Remove(name string) error
	SyncDir(dir string) error
}
