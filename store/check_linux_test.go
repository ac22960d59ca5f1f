package store_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestCheckReadsOnly checks a directory as a user who may read it and nothing else.
func TestCheckReadsOnly(t *testing.T) {
	dir, _, _ := checkedDir(t)
	chmod := func(files, dirs os.FileMode) {
		must(t, filepath.WalkDir(filepath.Dir(dir), func(path string, d os.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir():
				return os.Chmod(path, dirs)
			}
			return os.Chmod(path, files)
		}))
	}
	chmod(0o444, 0o555)
	t.Cleanup(func() { chmod(0o644, 0o755) })
	t.Run("check", func(t *testing.T) {
		if os.Getuid() == 0 {
			// Rights belong to a thread, and this one ends with the goroutine.
			runtime.LockOSThread()
			must(t, syscall.Setfsuid(65534))
		}
		if _, faults, _ := findings(t, dir); len(faults) > 0 {
			t.Errorf("%q", faults)
		}
	})
}
