package head_test

import (
	"sync/atomic"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

// discard is a disk that keeps nothing of what is written, for measurements of
// what the head itself does.
type discard struct{ *memfs.FS }

type discardFile struct {
	vfs.File
	size atomic.Int64
}

// Create makes a file that forgets.
func (d discard) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &discardFile{File: f}, nil
}

func (f *discardFile) Write(p []byte) (int, error) {
	f.size.Add(int64(len(p)))
	return len(p), nil
}

func (f *discardFile) Sync() error { return nil }

func (f *discardFile) Truncate(int64) error { return nil }

func (f *discardFile) Size() (int64, error) { return f.size.Load(), nil }
