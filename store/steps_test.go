package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rwsink/rwsink/internal/vfs"
)

// stepFS is the operating system's files; before each operation on a name it
// calls step, whose error the operation fails with. It knows which operations a
// power cut may undo: those on names of a directory that was not synced since.
type stepFS struct {
	vfs.OS
	step   func(op, name string) error
	graves string // where removed files are kept

	mu      sync.Mutex
	pending []undo
	n       int // operations
	buried  int
}

// undo takes one operation back, in a copy of the directory.
type undo struct {
	dir string
	do  func(at func(string) string) error
}

func (f *stepFS) at(op, name string) error {
	f.mu.Lock()
	f.n++
	f.mu.Unlock()
	if f.step == nil {
		return nil
	}
	return f.step(op, name)
}

// may notes what a power cut may undo until dir is synced.
func (f *stepFS) may(dir string, do func(at func(string) string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, undo{dir, do})
}

func (f *stepFS) MkdirAll(dir string) error {
	if err := f.at("mkdir", dir); err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		f.may(filepath.Dir(dir), func(at func(string) string) error { return os.RemoveAll(at(dir)) })
	}
	return f.OS.MkdirAll(dir)
}

func (f *stepFS) Create(name string) (vfs.File, error) {
	if err := f.at("create", name); err != nil {
		return nil, err
	}
	f.may(filepath.Dir(name), func(at func(string) string) error { return os.RemoveAll(at(name)) })
	return f.OS.Create(name)
}

func (f *stepFS) Rename(from, to string) error {
	if err := f.at("rename", to); err != nil {
		return err
	}
	grave := ""
	if st, err := os.Stat(to); err == nil && !st.IsDir() { // which takes its place
		if grave, err = f.bury(to); err != nil {
			return err
		}
	}
	f.may(filepath.Dir(to), func(at func(string) string) error {
		err := os.Rename(at(to), at(from))
		if err == nil && grave != "" {
			err = os.Link(grave, at(to))
		}
		return err
	})
	return f.OS.Rename(from, to)
}

func (f *stepFS) Link(from, to string) error {
	if err := f.at("link", to); err != nil {
		return err
	}
	f.may(filepath.Dir(to), func(at func(string) string) error { return os.RemoveAll(at(to)) })
	return f.OS.Link(from, to)
}

// bury keeps a file that is about to go.
func (f *stepFS) bury(name string) (grave string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buried++ // not n: two goroutines may both have counted their operation before either is here
	grave = filepath.Join(f.graves, fmt.Sprint(f.buried))
	return grave, os.Link(name, grave)
}

func (f *stepFS) Remove(name string) error {
	if err := f.at("remove", name); err != nil {
		return err
	}
	again := func(at func(string) string) error { return os.Mkdir(at(name), 0o755) }
	if st, err := os.Stat(name); err == nil && !st.IsDir() {
		grave, err := f.bury(name)
		if err != nil {
			return err
		}
		again = func(at func(string) string) error { return os.Link(grave, at(name)) }
	}
	err := f.OS.Remove(name)
	if err == nil {
		f.may(filepath.Dir(name), again)
	}
	return err
}

func (f *stepFS) SyncDir(dir string) error {
	if err := f.at("sync", dir); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.pending[:0]
	for _, u := range f.pending {
		if u.dir != dir {
			kept = append(kept, u)
		}
	}
	f.pending = kept
	return f.OS.SyncDir(dir)
}

// cut says which of the pending operations a power cut takes back.
type cut int

const (
	none  cut = iota // the process is killed
	all              // nothing of it has reached the disk
	first            // all but the first has
	last             // all but the last has
	numCuts
)

// copyTo makes at dst what a kill or a power cut leaves now of src.
func (f *stepFS) copyTo(t fataler, src, dst string, c cut) {
	t.Helper()
	copyDir(t, src, dst)
	list := f.pending
	switch {
	case c == none || len(list) == 0:
		return
	case c == first:
		list = list[:1]
	case c == last:
		list = list[len(list)-1:]
	}
	at := func(name string) string { return dst + strings.TrimPrefix(name, src) }
	for i := len(list) - 1; i >= 0; i-- {
		// An operation below a directory whose own making is taken back is gone with it.
		if err := list[i].do(at); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			t.Fatal(fmt.Errorf("take an operation back: %w", err))
		}
	}
}

// copyDir copies a data directory. Finished blocks never change: their files are linked.
func copyDir(t fataler, src, dst string) {
	t.Helper()
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := dst + strings.TrimPrefix(path, src)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Name() == "LOCK":
			return nil
		case strings.Contains(path, "/blocks/"):
			return os.Link(path, to)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
