package vfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// TmpSuffix ends the name of what is being written.
const TmpSuffix = ".tmp"

// WriteWhole writes a file under another name (TmpSuffix behind its own) and
// renames it, so that it is whole and durable, or as it was.
func WriteWhole(fs FS, name string, data []byte) (err error) {
	tmp := name + TmpSuffix
	if err := fs.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write %s: %w", name, err)
	}
	f, err := fs.Create(tmp)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = errors.Join(fs.Rename(tmp, name), fs.SyncDir(filepath.Dir(name)))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
