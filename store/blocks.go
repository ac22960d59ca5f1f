package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

func (s *Store) blocksDir() string { return filepath.Join(s.o.Path, blocksName) }

// openBlocks opens the blocks of the directory, sorted by generation. What a
// killed process left unfinished is removed, and so are blocks that are remembered as
// removed and those that another was merged of, in whatever state their removal left
// them; any other damaged block is set aside, and so is one of which another is what
// was sound. What cannot be removed, or set aside, is left to the rounds: it is not
// on the list.
func (s *Store) openBlocks() ([]*block.Block, error) {
	if !onDisk(s.o.FS) {
		return nil, nil
	}
	dir := s.blocksDir()
	if err := s.o.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("create the directory of blocks: %w", err)
	}
	dirs, unfinished, err := block.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list the blocks: %w", err)
	}
	for _, d := range unfinished {
		s.log.Info("removing what was not finished, or not removed", "path", d)
		if err := block.RemoveUnfinished(s.o.FS, d); err != nil {
			s.log.Error("it could not be removed; it is tried again", "err", err)
			if b := strings.TrimSuffix(d, block.TmpSuffix); filepath.Dir(b) == dir && !slices.Contains(dirs, b) {
				s.lingering = append(s.lingering, b)
			}
		}
	}
	dirs = slices.DeleteFunc(dirs, s.removedBefore)
	list, faults, err := openAll(dirs, s.pages)
	if err != nil {
		for _, b := range list {
			b.Release()
		}
		return nil, err
	}
	list = s.sift(list, faults)
	for _, b := range list {
		s.watch(b)
	}
	slices.SortFunc(list, byGeneration)
	return list, nil
}

// openAll opens blocks; faults are those of the damaged ones, by directory.
func openAll(dirs []string, pages *block.Pages) (list []*block.Block, faults map[string]error, err error) {
	faults = map[string]error{}
	for _, d := range dirs {
		b, err := block.Open(d, pages)
		var corrupt *vfs.CorruptError
		switch {
		case err == nil:
			list = append(list, b)
		case errors.As(err, &corrupt):
			faults[d] = corrupt
		default:
			return list, nil, err
		}
	}
	return list, faults, nil
}

// errRescued says why a block is set aside that nobody has found damaged since the start.
var errRescued = errors.New("what is sound in it was written anew before")

// sift removes the blocks that another was merged of, sets aside the damaged ones
// and those of which another is what was sound, and returns the others.
func (s *Store) sift(list []*block.Block, faults map[string]error) []*block.Block {
	merged, rescued := map[string]bool{}, map[string]bool{}
	for _, b := range list {
		for _, name := range b.Info().Parents {
			merged[name] = true
		}
		rescued[b.Rescued()] = true
	}
	list = slices.DeleteFunc(list, func(b *block.Block) bool {
		switch {
		case rescued[b.Name()]:
			faults[b.Dir()] = errRescued
		case merged[b.Name()]:
			s.tryRemove(b.Dir())
		default:
			return false
		}
		b.Release()
		return true
	})
	for _, d := range slices.Sorted(maps.Keys(faults)) {
		if name := filepath.Base(d); merged[name] && !rescued[name] {
			s.tryRemove(d)
		} else if err := s.setAside(d, faults[d]); err != nil {
			s.log.Error("it is tried again", "err", err)
			s.displaced = append(s.displaced, displaced{d, faults[d]})
		}
	}
	return list
}

// removedBefore says whether a directory is that of a block which is remembered as
// removed, and removes it then.
func (s *Store) removedBefore(dir string) bool {
	if !slices.Contains(s.removed.Blocks, filepath.Base(dir)) {
		return false
	}
	s.tryRemove(dir)
	return true
}

// tryRemove is discardDir where a start goes on whatever comes of it.
func (s *Store) tryRemove(dir string) {
	s.log.Info("removing a block that is out of use", "path", dir)
	if err := s.discardDir(dir); err != nil {
		s.log.Error("it could not be removed; it is tried again", "err", err)
	}
}

func byGeneration(a, b *block.Block) int {
	ga, gb := a.Info().Generation, b.Info().Generation
	switch {
	case ga.Less(gb):
		return -1
	case gb.Less(ga):
		return 1
	}
	return 0
}

// lastLSN returns the newest frame that the blocks, those removed included, and
// the deletes know of.
func (s *Store) lastLSN() wal.LSN {
	last := uint64(0)
	for _, b := range *s.blocks.Load() {
		last = max(last, b.After())
	}
	for _, r := range s.coverage().ranges {
		last = max(last, r.To)
	}
	last = max(last, s.deletes.last.Load())
	return wal.LSN(last)
}

// discard unlinks the files of a block at once and lets go of it; readers that
// hold it keep its mappings. maintenance is held.
func (s *Store) discard(b *block.Block) error {
	defer s.letGo(b)
	return s.discardDir(b.Dir())
}

// discardDir removes the directory of a block that is off the list; where that is
// refused removeLeft tries it again.
func (s *Store) discardDir(dir string) error {
	err := s.removeDir(dir)
	if err != nil {
		s.lingering = append(s.lingering, dir)
	}
	return err
}

// removeLeft removes what could not be removed before. maintenance is held.
func (s *Store) removeLeft() error {
	var errs []error
	s.lingering = slices.DeleteFunc(s.lingering, func(dir string) bool {
		err := s.removeDir(dir)
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// inherits says whether a block of the group took the place of one that could not be
// removed. It alone tells a start that this one is to go: it must not be merged before.
func (s *Store) inherits(group []*block.Block) bool {
	return slices.ContainsFunc(s.lingering, func(dir string) bool {
		return slices.ContainsFunc(group, func(b *block.Block) bool { return slices.Contains(b.Info().Parents, filepath.Base(dir)) })
	})
}

// removeDir removes the directory of a block. It is renamed first, durably: what
// is left of an interrupted removal is not taken for a block. It may be called again.
func (s *Store) removeDir(dir string) error {
	tmp := dir + block.TmpSuffix
	err := s.o.FS.Rename(dir, tmp)
	if errors.Is(err, os.ErrNotExist) {
		err = nil // it was renamed before
	}
	if err == nil {
		err = s.o.FS.SyncDir(filepath.Dir(dir))
	}
	if err == nil {
		err = block.RemoveDir(s.o.FS, tmp)
	}
	if err == nil {
		err = s.o.FS.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("remove block %s: %w", filepath.Base(dir), err)
	}
	return nil
}

// swap swaps blocks for others in one step; what becomes of the old ones is the
// caller's affair. deletes.mu is held.
func (s *Store) swap(old []*block.Block, add ...*block.Block) {
	s.listing.Lock()
	next := slices.DeleteFunc(slices.Clone(*s.blocks.Load()), func(b *block.Block) bool { return slices.Contains(old, b) })
	next = append(next, add...)
	slices.SortStableFunc(next, byGeneration)
	s.blocks.Store(&next)
	s.listing.Unlock()
	s.gauge()
}

// discardAll discards blocks that are off the list. maintenance is held, deletes.mu is not.
func (s *Store) discardAll(gone []*block.Block) error {
	var errs []error
	for _, b := range gone {
		errs = append(errs, s.discard(b))
	}
	return errors.Join(errs...)
}

func (s *Store) closeBlocks() error {
	s.listing.Lock()
	defer s.listing.Unlock()
	list := *s.blocks.Swap(&[]*block.Block{})
	for _, b := range s.faulty {
		if !slices.Contains(list, b) {
			b.Release()
		}
	}
	for _, b := range list {
		b.Release()
	}
	s.faulty = nil
	return nil
}

// gauge shows what the blocks are.
func (s *Store) gauge() {
	var size, samples float64
	list := *s.blocks.Load()
	for _, b := range list {
		size += float64(b.Size())
		samples += float64(b.Meta().Stats.NumSamples)
	}
	m := s.o.Metrics.Store
	m.Blocks.Set(float64(len(list)))
	m.BlockBytes.Set(size)
	m.BlockSamples.Set(samples)
}
