package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// removals is what has to be remembered of blocks that retention removed: the
// file blocks/removed.json, written before the block goes. Without it a restart
// would bring back from the log what the log still has of them, and take again
// what retention by size no longer keeps.
type removals struct {
	Magic    string           `json:"magic"`
	Version  int              `json:"version"`
	KeepFrom int64            `json:"keepFrom"` // Unix milliseconds: older samples are not taken
	Logs     []block.LogRange `json:"logs"`     // what the removed blocks held, as far as the log reaches back
}

const (
	removalsName    = "removed.json"
	removalsMagic   = "rwsink-removed"
	removalsVersion = 1
)

func (s *Store) readRemovals() (removals, error) {
	out := removals{Magic: removalsMagic, Version: removalsVersion, KeepFrom: math.MinInt64}
	if !onDisk(s.o.FS) {
		return out, nil
	}
	path := filepath.Join(s.blocksDir(), removalsName)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	got := removals{}
	err = json.Unmarshal(data, &got)
	switch {
	case err == nil && got.Magic == removalsMagic && got.Version > removalsVersion:
		return out, newerFileError(path, got.Version, removalsVersion)
	case err != nil || got.Magic != removalsMagic || got.Version != removalsVersion:
		s.log.Error("what was removed by retention is not known: samples of it may come back",
			"err", &vfs.CorruptError{Path: path, Err: errors.Join(err, errors.New("not a list of removals"))})
		return out, nil
	}
	return got, nil
}

// newerFileError says that a file of the directory is of a newer rwsink.
func newerFileError(path string, got, known int) error {
	return fmt.Errorf("%s has version %d, this rwsink knows %d: use a newer rwsink", path, got, known)
}

// rememberRemoval writes down that a block is about to be removed, and from
// where on samples are kept.
func (s *Store) rememberRemoval(b *block.Block, keepFrom int64) error {
	next := s.removed
	next.Logs = s.reached(append(next.Logs[:len(next.Logs):len(next.Logs)], b.Info().Logs...))
	next.KeepFrom = max(next.KeepFrom, keepFrom)
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := vfs.WriteWhole(s.o.FS, filepath.Join(s.blocksDir(), removalsName), append(data, '\n')); err != nil {
		return fmt.Errorf("remember a removal: %w", err)
	}
	s.removed = next
	return nil
}
