package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// Whoever reads a block and finds it damaged takes it off the list at once: the
// read fails, the next one does without the block. Its directory is moved by the
// maintenance, which is woken, and which writes anew what is sound in it (rescue.go).

// faultyBlock is a block that was taken off the list.
type faultyBlock struct {
	*block.Block
	knows wal.LSN // it has the tombstones of deletes up to this frame
}

// watch has a block that the store uses tell when it is found damaged.
func (s *Store) watch(b *block.Block) { b.OnFault(func() { s.takeOff(b) }) }

// takeOff takes a damaged block off the list.
func (s *Store) takeOff(b *block.Block) {
	s.listing.Lock()
	defer s.listing.Unlock()
	list := *s.blocks.Load()
	if !slices.Contains(list, b) {
		return // another took its place a moment ago
	}
	knows := wal.LSN(s.deletes.last.Load()) // while it is still on the list
	next := slices.DeleteFunc(slices.Clone(list), func(o *block.Block) bool { return o == b })
	s.blocks.Store(&next)
	s.faulty = append(s.faulty, faultyBlock{b, knows})
	select {
	case s.noticed <- struct{}{}:
	default:
	}
}

// unmoved says whether blocks that were taken off the list are still in their places.
// Then the list does not show what may stand between two of its blocks, and what is
// deleted of them is known from the log alone.
func (s *Store) unmoved() bool {
	s.listing.Lock()
	defer s.listing.Unlock()
	return len(s.faulty) > 0
}

// setFaultyAside moves the directories of the blocks that were taken off the
// list, and writes anew what is sound in them. maintenance is held.
func (s *Store) setFaultyAside() error {
	moved, err := s.moveFaulty()
	for _, b := range moved {
		if s.head != nil && b.ChunksAlone() {
			if err := s.rescue(b); err != nil {
				s.log.Error("what is sound in a damaged block could not be written anew", "block", b.Name(), "err", err)
			}
		}
		b.Release()
	}
	return err
}

// moveFaulty moves the directories and returns the blocks, which are to be released.
func (s *Store) moveFaulty() (moved []faultyBlock, err error) {
	s.deletes.mu.Lock() // which saves tombstones into them
	defer s.deletes.mu.Unlock()
	s.listing.Lock()
	list := s.faulty
	s.listing.Unlock()
	for _, b := range list {
		if err := s.setAside(b.Dir(), b.Fault()); err != nil {
			return moved, err
		}
		s.listing.Lock()
		s.faulty = slices.DeleteFunc(slices.Clone(s.faulty), func(o faultyBlock) bool { return o == b })
		s.listing.Unlock()
		moved = append(moved, b)
	}
	return moved, nil
}

// setAside moves a damaged block to the quarantine, under a name that says so.
func (s *Store) setAside(dir string, why error) error {
	fs, quarantine := s.o.FS, filepath.Join(s.o.Path, quarantineName)
	to := ""
	err := fs.MkdirAll(quarantine)
	if err == nil {
		err = fs.SyncDir(s.o.Path)
	}
	if err == nil {
		to, err = freeName(fs, quarantine, filepath.Base(dir)+".damaged")
	}
	if err == nil {
		err = fs.Rename(dir, to)
	}
	if err != nil {
		return fmt.Errorf("set a damaged block aside: %w", err)
	}
	s.o.Metrics.Store.SetAside.Inc()
	s.log.Error("a damaged block was set aside", "block", filepath.Base(dir), "now", to, "err", why)
	return errors.Join(fs.SyncDir(quarantine), fs.SyncDir(filepath.Dir(dir)))
}

// freeName returns the path of a name in dir that nothing has, with a number where it
// is taken: somebody may have put back a copy of what was set aside before.
func freeName(fs vfs.FS, dir, name string) (string, error) {
	taken, err := fs.ReadDir(dir)
	if err != nil {
		return "", err
	}
	free := name
	for n := 2; slices.Contains(taken, free); n++ {
		free = fmt.Sprintf("%s.%d", name, n)
	}
	return filepath.Join(dir, free), nil
}
