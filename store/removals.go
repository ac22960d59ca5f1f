package store

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// removals is what has to be remembered of blocks that were removed and in whose place
// there is none: the file blocks/removed.json, written before they go. Without it a
// restart would bring back from the log what the log still has of them, take again
// what retention by size no longer keeps, and find the block itself where the file
// system refused to remove it, or the process ended before.
type removals struct {
	jsonfile.Head
	KeepFrom int64            `json:"keepFrom"`         // Unix milliseconds: older samples are not taken
	Logs     []block.LogRange `json:"logs"`             // what the removed blocks held, as far as the log reaches back
	Blocks   []string         `json:"blocks,omitempty"` // those that may still be in their places
	jsonfile.Sum
}

const removalsName = "removed.json"

var removalsKind = jsonfile.Kind{Magic: "rwsink-removed", Oldest: 1, Newest: 3, Unsummed: 1}

// readRemovals reads the file of a directory of blocks; none is an empty list. The
// error is a *vfs.CorruptError, a *jsonfile.NewerError, or of the operating system.
func readRemovals(dir string) (removals, error) {
	none, out := removals{KeepFrom: math.MinInt64}, removals{}
	path := filepath.Join(dir, removalsName)
	err := jsonfile.Read(path, removalsKind, &out)
	if errors.Is(err, os.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	for i, l := range out.Logs {
		if l.MinT > l.MaxT || l.From > l.To {
			return none, &vfs.CorruptError{Path: path, Err: fmt.Errorf("log range %d: times %d to %d, frames %d to %d", i, l.MinT, l.MaxT, l.From, l.To)}
		}
	}
	return out, nil
}

// openRemovals reads what is remembered of removals.
func (s *Store) openRemovals() (err error) {
	if !onDisk(s.o.FS) {
		s.removed.KeepFrom = math.MinInt64
		return nil
	}
	s.removed, err = readRemovals(s.blocksDir())
	var corrupt *vfs.CorruptError
	if errors.As(err, &corrupt) {
		s.log.Error("what was removed is not known: samples of it may come back", "err", err)
		return nil
	}
	return err
}

// rememberRemoval writes down that blocks are about to be removed, with what they held,
// and from where on samples are kept. maintenance is held.
func (s *Store) rememberRemoval(keepFrom int64, list ...*block.Block) error {
	next := s.removed
	next.Logs, next.Blocks = slices.Clone(next.Logs), slices.Clone(next.Blocks)
	for _, b := range list {
		next.Logs = append(next.Logs, b.Info().Logs...)
		next.Blocks = append(next.Blocks, b.Name())
	}
	next.Logs = s.reached(next.Logs)
	next.KeepFrom = max(next.KeepFrom, keepFrom)
	return s.writeRemovals(next)
}

// reject removes a block that was just written and cannot be used; what it was made of
// is still there. A start must not find both.
func (s *Store) reject(dir string, why error) error {
	next := s.removed
	next.Blocks = append(slices.Clone(next.Blocks), filepath.Base(dir))
	return errors.Join(why, s.writeRemovals(next), s.discardDir(dir))
}

// forgetRemoved lets go of the names of those that are gone. maintenance is held.
func (s *Store) forgetRemoved() error {
	next := s.removed
	next.Blocks = slices.DeleteFunc(slices.Clone(next.Blocks), func(name string) bool {
		return !slices.Contains(s.lingering, filepath.Join(s.blocksDir(), name))
	})
	if len(next.Blocks) == len(s.removed.Blocks) {
		return nil
	}
	return s.writeRemovals(next)
}

func (s *Store) writeRemovals(next removals) error {
	if err := jsonfile.Write(s.o.FS, filepath.Join(s.blocksDir(), removalsName), removalsKind, &next); err != nil {
		return fmt.Errorf("remember a removal: %w", err)
	}
	s.removed = next
	return nil
}
