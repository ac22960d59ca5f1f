package store

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// removals is what has to be remembered of blocks that retention removed: the
// file blocks/removed.json, written before the block goes. Without it a restart
// would bring back from the log what the log still has of them, and take again
// what retention by size no longer keeps.
type removals struct {
	jsonfile.Head
	KeepFrom int64            `json:"keepFrom"` // Unix milliseconds: older samples are not taken
	Logs     []block.LogRange `json:"logs"`     // what the removed blocks held, as far as the log reaches back
	jsonfile.Sum
}

const removalsName = "removed.json"

var removalsKind = jsonfile.Kind{Magic: "rwsink-removed", Oldest: 1, Newest: 2, Unsummed: 1}

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
		s.log.Error("what was removed by retention is not known: samples of it may come back", "err", err)
		return nil
	}
	return err
}

// rememberRemoval writes down that a block is about to be removed, and from
// where on samples are kept.
func (s *Store) rememberRemoval(b *block.Block, keepFrom int64) error {
	next := s.removed
	next.Logs = s.reached(append(next.Logs[:len(next.Logs):len(next.Logs)], b.Info().Logs...))
	next.KeepFrom = max(next.KeepFrom, keepFrom)
	if err := jsonfile.Write(s.o.FS, filepath.Join(s.blocksDir(), removalsName), removalsKind, &next); err != nil {
		return fmt.Errorf("remember a removal: %w", err)
	}
	s.removed = next
	return nil
}
