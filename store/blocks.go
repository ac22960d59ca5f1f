package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// openBlocks opens the blocks of the directory, sorted by generation. What a
// killed process left unfinished is removed, and so are blocks that another was
// merged of; a damaged block is set aside.
func (s *Store) openBlocks() ([]*block.Block, error) {
	if !s.onDisk() {
		return nil, nil
	}
	dir := filepath.Join(s.o.Path, blocksName)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("create the directory of blocks: %w", err)
	}
	dirs, unfinished, err := block.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list the blocks: %w", err)
	}
	for _, d := range unfinished {
		s.log.Info("removing a block that was not finished", "dir", d)
		if err := os.RemoveAll(d); err != nil {
			return nil, err
		}
	}
	var list []*block.Block
	merged := map[string]bool{}
	for _, d := range dirs {
		b, err := block.Open(d)
		var corrupt *vfs.CorruptError
		if errors.As(err, &corrupt) {
			if err := s.setAside(d, corrupt); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, name := range b.Info().Parents {
			merged[name] = true
		}
		list = append(list, b)
	}
	kept := list[:0]
	for _, b := range list {
		if merged[b.Name()] {
			if err := s.discard(b); err != nil {
				return nil, err
			}
			continue
		}
		kept = append(kept, b)
	}
	slices.SortFunc(kept, byGeneration)
	return kept, nil
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

// lastLSN returns the newest frame that the blocks know of.
func lastLSN(list []*block.Block) wal.LSN {
	var last uint64
	for _, b := range list {
		last = max(last, b.Info().Generation.LSN)
		for _, r := range b.Info().Logs {
			last = max(last, r.To)
		}
	}
	return wal.LSN(last)
}

// setAside moves a damaged block to the quarantine, under a name that says so.
func (s *Store) setAside(dir string, why error) error {
	quarantine := filepath.Join(s.o.Path, quarantineName)
	if err := os.MkdirAll(quarantine, 0o777); err != nil {
		return fmt.Errorf("set a damaged block aside: %w", err)
	}
	to := filepath.Join(quarantine, filepath.Base(dir)+".damaged")
	if err := os.Rename(dir, to); err != nil {
		return fmt.Errorf("set a damaged block aside: %w", err)
	}
	s.o.Metrics.Store.SetAside.Inc()
	s.log.Error("a damaged block was set aside", "block", filepath.Base(dir), "now", to, "err", why)
	return errors.Join(block.SyncDir(quarantine), block.SyncDir(filepath.Dir(dir)))
}

// discard unlinks the files of a block at once and lets go of it; readers that
// hold it keep its mappings.
func (s *Store) discard(b *block.Block) error {
	// Renamed first: what is left of an interrupted removal is not taken for a block.
	tmp := b.Dir() + block.TmpSuffix
	err := os.Rename(b.Dir(), tmp)
	if err == nil {
		err = errors.Join(os.RemoveAll(tmp), block.SyncDir(filepath.Dir(b.Dir())))
	}
	b.Release()
	if err != nil {
		return fmt.Errorf("remove block %s: %w", b.Name(), err)
	}
	return nil
}

// replace swaps blocks for others in one step and discards the old ones.
func (s *Store) replace(old []*block.Block, add ...*block.Block) error {
	next := slices.DeleteFunc(slices.Clone(*s.blocks.Load()), func(b *block.Block) bool { return slices.Contains(old, b) })
	next = append(next, add...)
	slices.SortStableFunc(next, byGeneration)
	s.blocks.Store(&next)
	s.gauge()
	var errs []error
	for _, b := range old {
		errs = append(errs, s.discard(b))
	}
	return errors.Join(errs...)
}

func (s *Store) closeBlocks() error {
	for _, b := range *s.blocks.Swap(&[]*block.Block{}) {
		b.Release()
	}
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

// coverage says what of the log the blocks hold.
type coverage struct {
	last   uint64
	ranges []block.LogRange
}

func newCoverage(list []*block.Block) *coverage {
	c := &coverage{last: uint64(lastLSN(list))}
	for _, b := range list {
		c.ranges = append(c.ranges, b.Info().Logs...)
	}
	// Newest first: what is asked for is mostly of the ranges flushed last.
	slices.SortFunc(c.ranges, func(a, b block.LogRange) int {
		switch {
		case a.To > b.To:
			return -1
		case a.To < b.To:
			return 1
		}
		return 0
	})
	return c
}

// has says whether a block holds what the frame lsn had of timestamp t.
func (c *coverage) has(t int64, lsn wal.LSN) bool {
	if uint64(lsn) > c.last {
		return false
	}
	for i := range c.ranges {
		r := &c.ranges[i]
		if r.To < uint64(lsn) {
			return false
		}
		if r.MinT <= t && t <= r.MaxT && r.From < uint64(lsn) {
			return true
		}
	}
	return false
}
