package transfer_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/transfer"
)

// failingFS is the operating system's files until one operation fails, and with
// it all that follow: a disk that is full, or gone.
type failingFS struct {
	vfs.OS
	left *int
}

var errDisk = errors.New("no space left, says the test")

func (f failingFS) step() error {
	if *f.left--; *f.left < 0 {
		return errDisk
	}
	return nil
}

func (f failingFS) MkdirAll(dir string) error {
	return errors.Join(f.step(), f.OS.MkdirAll(dir))
}

func (f failingFS) Create(name string) (vfs.File, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	return f.OS.Create(name)
}

func (f failingFS) Open(name string) (vfs.File, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	return f.OS.Open(name)
}

func (f failingFS) Rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.OS.Rename(from, to)
}

func (f failingFS) Remove(name string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.OS.Remove(name)
}

func (f failingFS) SyncDir(dir string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.OS.SyncDir(dir)
}

// TestImportOnFailingDisk lets the disk fail at ever later steps of an import,
// repeated into the same directory: each says so, none damages anything, and the
// one that meets no fault completes it.
func TestImportOnFailingDisk(t *testing.T) {
	t.Parallel()
	dir, newest, _ := randomDir(t, false)
	lines := filepath.Join(t.TempDir(), "lines")
	export(t, transfer.ExportOptions{Store: options(dir), Output: lines, Format: transfer.JSON, From: newest - 10*hour, To: math.MaxInt64})
	whole, into := filepath.Join(fixture.QuickDir(t), "whole"), filepath.Join(fixture.QuickDir(t), "into")
	importInto(t, whole, lines)
	for steps, done := 0, false; !done; steps += 3 {
		left := steps
		o := options(into)
		o.FS = failingFS{left: &left}
		_, err := transfer.Import(context.Background(), transfer.ImportOptions{Store: o, Inputs: []string{lines}, From: math.MinInt64, To: math.MaxInt64})
		done = err == nil
		if err != nil && !errors.Is(err, errDisk) {
			t.Fatalf("step %d: %v", steps, err)
		}
		if store.Exists(into) != nil {
			continue
		}
		c, err := store.Check(context.Background(), into, store.CheckOptions{Fault: func(err error) { t.Error(err) }, Note: func(string) {}})
		if err != nil || c.Faults > 0 {
			t.Fatalf("step %d: %v, %v", steps, c, err)
		}
	}
	same(t, "what was imported", readDir(t, into), readDir(t, whole))
}
