package vfs

import (
	"os"
	"slices"
)

// The permissions of what OS creates, before the umask.
const (
	dirPerm  = 0o755
	filePerm = 0o644
)

// OS is the file system of the operating system.
type OS struct{}

// Mapped says that the files are the operating system's: other code may open
// them by name and map them into memory.
func (OS) Mapped() bool { return true }

// MkdirAll makes a directory and those above it.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, dirPerm) }

// Create makes a new file.
func (OS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
}

// Open opens an existing file.
func (OS) Open(name string) (File, error) { return open(name, os.O_RDWR|os.O_APPEND) }

// ReadDir returns the names in a directory, sorted.
func (OS) ReadDir(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// Rename renames a file or directory; an existing file of the new name is replaced.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Link gives a file one more name.
func (OS) Link(from, to string) error { return os.Link(from, to) }

// Remove removes a file or an empty directory.
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir makes what was created, renamed and removed in dir durable.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

type osFile struct{ *os.File }

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err // a nil *os.File must not become a File
	}
	return osFile{f}, nil
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
