package drive

import (
	"io/fs"
	"os"
	"path/filepath"
)

// DiskBytes is the sum of the sizes of the files below dir. Files that go
// meanwhile count nothing.
func DiskBytes(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) && path != dir {
				return nil
			}
			return err
		}
		if d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum, err
}
