package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rwsink/rwsink/internal/vfs"
)

// The names in a data directory.
const (
	lockName       = "LOCK"
	versionName    = "VERSION"
	idName         = "ID"
	walName        = "wal"
	blocksName     = "blocks"
	quarantineName = "quarantine"
	snapshotsName  = "snapshots"
)

// layoutVersion is the version of the directory's layout; VERSION holds it in
// decimal with a newline.
const layoutVersion = "1"

// makeDir makes a directory, and its name and those above it durable: a power
// cut must not take the whole of it. A directory above that may not be opened
// was not made by us.
func makeDir(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir); err != nil {
		return err
	}
	for dir = filepath.Clean(dir); ; {
		above := filepath.Dir(dir)
		if above == dir {
			return nil
		}
		if err := fs.SyncDir(above); err != nil && !errors.Is(err, os.ErrPermission) {
			return err
		}
		dir = above
	}
}

// checkOurs refuses a directory that holds something and no VERSION: it is somebody
// else's, or has lost more than that. What a file system or a tool keeps in an empty
// one is no matter.
func checkOurs(fs vfs.FS, dir string) error {
	names, err := fs.ReadDir(dir)
	if err != nil || slices.Contains(names, versionName) {
		return err
	}
	for _, name := range names {
		switch {
		case name == lockName, name == versionName+vfs.TmpSuffix: // of a first start that did not get far
		case name == "lost+found", strings.HasPrefix(name, "."):
		default:
			return fmt.Errorf("%s has %s in it and no %s: want an empty directory or a data directory of rwsink", dir, name, versionName)
		}
	}
	return nil
}

// checkVersion refuses a directory of another layout and marks a new one. The
// file is written under another name and renamed, so that it is whole or absent.
func checkVersion(fs vfs.FS, dir string) error {
	name := filepath.Join(dir, versionName)
	got, err := readSmall(fs, name)
	if errors.Is(err, os.ErrNotExist) {
		return vfs.WriteWhole(fs, name, []byte(layoutVersion+"\n"))
	}
	if err != nil {
		return err
	}
	return knownLayout(name, got)
}

// knownLayout says why the text of the file VERSION is not that of our layout.
func knownLayout(name, text string) error {
	v := strings.TrimSpace(text)
	switch n, err := strconv.Atoi(v); {
	case v == layoutVersion:
		return nil
	case err != nil || n < 1:
		return &vfs.CorruptError{Path: name, Err: fmt.Errorf("layout version %q, want a number: if no newer rwsink has used the directory, write %s", v, layoutVersion)}
	}
	return fmt.Errorf("%s: layout version %s, this rwsink knows %s: use a newer rwsink", name, v, layoutVersion)
}

// smallFiles are the files that are replaced as a whole, relative to the directory.
func smallFiles() []string {
	return []string{versionName, idName, filepath.Join(blocksName, removalsName), filepath.Join(blocksName, rememberedName)}
}

// removeUnfinishedFiles removes what a killed process left of replacing a small file.
func (s *Store) removeUnfinishedFiles() {
	for _, name := range smallFiles() {
		tmp := filepath.Join(s.o.Path, name) + vfs.TmpSuffix
		switch err := s.o.FS.Remove(tmp); {
		case err == nil:
			s.log.Info("removed a file that was not finished", "name", tmp)
		case !errors.Is(err, os.ErrNotExist):
			s.log.Error("an unfinished file could not be removed; who writes it next does", "err", err)
		}
	}
}

// Identity returns what tells the directory from others, wherever it is moved or
// copied to: a random text in the file ID, which is made when it is missing.
// Snapshots have that of their directory.
func (s *Store) Identity() (string, error) {
	name := filepath.Join(s.o.Path, idName)
	text, err := readSmall(s.o.FS, name)
	if errors.Is(err, os.ErrNotExist) {
		text = rand.Text()
		return text, vfs.WriteWhole(s.o.FS, name, []byte(text+"\n"))
	}
	if err != nil {
		return "", err
	}
	return identity(name, text)
}

// identity returns what stands in the file ID.
func identity(name, text string) (string, error) {
	id := strings.TrimSpace(text)
	if id == "" {
		return "", &vfs.CorruptError{Path: name, Err: errors.New("no identity: without the file a new one is made")}
	}
	return id, nil
}

// maxSmallFile bounds what readSmall reads.
const maxSmallFile = 1 << 10

func readSmall(fs vfs.FS, name string) (string, error) {
	f, err := fs.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	if size > maxSmallFile {
		return "", fmt.Errorf("%s: %d bytes, at most %d expected", name, size, maxSmallFile)
	}
	buf := make([]byte, size)
	if _, err := f.ReadAt(buf, 0); err != nil && size > 0 {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(buf), nil
}

// dirLock is an advisory lock that the operating system lets go of when the
// process ends, however it ends. A directory in memory has no other process: it is not locked.
type dirLock struct{ file *os.File }

func lockDir(fs vfs.FS, name string) (*dirLock, error) {
	if !onDisk(fs) {
		return &dirLock{}, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	return flock(f)
}

// flock locks an open file, which is closed where that fails.
func flock(f *os.File) (*dirLock, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &dirLock{f}, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("held by another process: stop the rwsink that serves it, or take a copy: %w", err)
	}
	return nil, errors.Join(fmt.Errorf("lock the data directory: %s: %w", f.Name(), err), f.Close())
}

// whoMay adds to an error of missing rights on the directory who would need them.
func whoMay(err error, dir string) error {
	if !errors.Is(err, os.ErrPermission) {
		return err
	}
	if abs, e := filepath.Abs(dir); e == nil {
		dir = abs
	}
	return fmt.Errorf("%w: this process is user %d of group %d, who must be able to write to %s", err, os.Geteuid(), os.Getegid(), dir)
}

func (l *dirLock) unlock() error {
	if l == nil || l.file == nil {
		return nil
	}
	return l.file.Close()
}
