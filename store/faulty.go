package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// Whoever reads a block and finds it damaged fails, and wakes the maintenance. Where
// only chunks are damaged the block stays on the list, and later reads do without
// those, until what is sound in it is written anew (rescue.go). Otherwise nothing in
// it is sure: it is taken off the list at once, and later reads do without it. In the
// end the maintenance moves the directory to the quarantine.

// displaced is a damaged block which a start found and could not move to the
// quarantine: it is where it was, and never on the list.
type displaced struct {
	dir string
	why error
}

// watch has a block that the store uses tell when it is found damaged.
func (s *Store) watch(b *block.Block) { b.OnFault(func() { s.notice(b) }) }

// notice keeps a block that was found damaged for the maintenance.
func (s *Store) notice(b *block.Block) {
	s.listing.Lock()
	defer s.listing.Unlock()
	if !slices.Contains(*s.blocks.Load(), b) {
		return // another took its place a moment ago
	}
	s.faulty = append(s.faulty, b)
	if !b.ChunksAlone() {
		s.takeOff(b)
	}
	select {
	case s.noticed <- struct{}{}:
	default:
	}
}

// takeOff takes a block off the list. listing is held.
func (s *Store) takeOff(b *block.Block) {
	next := slices.DeleteFunc(slices.Clone(*s.blocks.Load()), func(o *block.Block) bool { return o == b })
	s.blocks.Store(&next)
}

// faultyBlocks returns the blocks that were found damaged and are still in their places.
func (s *Store) faultyBlocks() []*block.Block {
	s.listing.Lock()
	defer s.listing.Unlock()
	return slices.Clone(s.faulty)
}

// displacedBlocks returns those that a start could not move and that are still there.
func (s *Store) displacedBlocks() []displaced {
	s.listing.Lock()
	defer s.listing.Unlock()
	return slices.Clone(s.displaced)
}

// anyFaulty says whether there are damaged blocks in their places.
func (s *Store) anyFaulty() bool { return len(s.faultyBlocks())+len(s.displacedBlocks()) > 0 }

// unmoved says whether some of them are off the list: what is deleted of those is known
// from the log alone.
func (s *Store) unmoved() bool {
	return len(s.displacedBlocks()) > 0 || slices.ContainsFunc(s.faultyBlocks(), func(b *block.Block) bool { return !s.listed(b) })
}

func (s *Store) listed(b *block.Block) bool { return slices.Contains(*s.blocks.Load(), b) }

// setFaultyAside writes anew what is sound in the blocks that were found damaged, and
// moves their directories to the quarantine. maintenance is held.
func (s *Store) setFaultyAside() error {
	var errs []error
	for _, d := range s.displacedBlocks() {
		err := s.setAside(d.dir, d.why)
		errs = append(errs, err)
		if err == nil {
			s.listing.Lock()
			s.displaced = slices.DeleteFunc(s.displaced, func(o displaced) bool { return o.dir == d.dir })
			s.listing.Unlock()
		}
	}
	for _, b := range s.faultyBlocks() {
		errs = append(errs, s.setOneAside(b))
	}
	return errors.Join(errs...)
}

func (s *Store) setOneAside(b *block.Block) error {
	if s.listed(b) {
		if err := s.rescue(b); err != nil {
			return fmt.Errorf("write anew what is sound in block %s: %w", b.Name(), err)
		}
	}
	s.deletes.mu.Lock() // which saves tombstones into it
	defer s.deletes.mu.Unlock()
	err := s.setAside(b.Dir(), b.Fault())
	if err == nil {
		s.letGo(b)
	}
	return err
}

// letGo gives back the store's hold of a block that is off the list and whose
// directory is seen to.
func (s *Store) letGo(b *block.Block) {
	s.listing.Lock()
	s.faulty = slices.DeleteFunc(s.faulty, func(o *block.Block) bool { return o == b })
	s.listing.Unlock()
	b.Release()
}

// setAside moves a damaged block to the quarantine, under a name that says so. It may
// be called again after an error.
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
	switch {
	case errors.Is(err, os.ErrNotExist): // it was moved before, but that not synced
	case err != nil:
		return fmt.Errorf("set a damaged block aside: %w", err)
	default:
		s.o.Metrics.Store.SetAside.Inc()
		s.log.Error("a damaged block was set aside", "block", filepath.Base(dir), "now", to, "err", why)
	}
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
