package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/rwsink/rwsink/store"
)

// asNobody runs a test that the rights on files bind, those of root, too.
func asNobody(t *testing.T, f func(t *testing.T)) {
	t.Run("as nobody", func(t *testing.T) {
		if os.Getuid() == 0 {
			// Rights belong to a thread, and this one ends with the goroutine.
			runtime.LockOSThread()
			must(t, syscall.Setfsuid(65534))
		}
		f(t)
	})
}

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
	asNobody(t, func(t *testing.T) {
		if _, faults, _ := findings(t, dir); len(faults) > 0 {
			t.Errorf("%q", faults)
		}
	})
}

// TestDirectoryOfAnotherUser says who needs which right on what.
func TestDirectoryOfAnotherUser(t *testing.T) {
	above := t.TempDir()
	must(t, os.Chmod(above, 0o755))
	mine := filepath.Join(above, "mine")
	must(t, os.Mkdir(mine, 0o755))
	if os.Getuid() != 0 {
		must(t, os.Chmod(mine, 0o555))
		must(t, os.Chmod(above, 0o555))
	}
	asNobody(t, func(t *testing.T) {
		for _, dir := range []string{mine, filepath.Join(above, "new")} {
			_, err := store.Open(store.Options{Path: dir})
			if want := fmt.Sprintf("this process is user %d of group %d, who must be able to write to %s", os.Geteuid(), os.Getegid(), dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
	must(t, os.Chmod(above, 0o755))
}
