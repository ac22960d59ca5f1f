package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/wal"
)

// remembered is the file blocks/deletes.json: the deletes that are remembered,
// and up to which frame the blocks have their tombstones.
type remembered struct {
	Magic   string             `json:"magic"`
	Version int                `json:"version"`
	Through uint64             `json:"through"` // the newest frame of a delete that every block has, where it means it
	Evicted uint64             `json:"evicted"` // the newest delete that there was no room for; 0 is none
	Deletes []rememberedDelete `json:"deletes"` // in order of LSN
	CRC     uint32             `json:"crc32c"`  // of this, as encoding/json writes it with crc32c 0
}

type rememberedDelete struct {
	LSN      uint64              `json:"lsn"`
	MinT     int64               `json:"minTime"`
	MaxT     int64               `json:"maxTime"`
	Matchers []rememberedMatcher `json:"matchers"`
}

type rememberedMatcher struct {
	Name  string `json:"name"`
	Type  string `json:"type"` // as in PromQL
	Value string `json:"value"`
}

const (
	rememberedName    = "deletes.json"
	rememberedMagic   = "rwsink-deletes"
	rememberedVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32 (Castagnoli) of the list without its CRC.
func (r remembered) checksum() (uint32, error) {
	r.CRC = 0
	data, err := json.Marshal(r)
	return crc32.Checksum(data, castagnoli), err
}

// writeDeletes replaces the file. deletes.mu is held.
func (s *Store) writeDeletes(through wal.LSN) error {
	r := remembered{Magic: rememberedMagic, Version: rememberedVersion, Through: uint64(through), Evicted: uint64(s.deletes.evicted), Deletes: []rememberedDelete{}}
	for _, d := range s.deletes.list {
		out := rememberedDelete{LSN: uint64(d.LSN), MinT: d.MinT, MaxT: d.MaxT, Matchers: []rememberedMatcher{}}
		for _, m := range d.Matchers {
			out.Matchers = append(out.Matchers, rememberedMatcher{m.Name, m.Type.String(), m.Value})
		}
		r.Deletes = append(r.Deletes, out)
	}
	var err error
	if r.CRC, err = r.checksum(); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := vfs.WriteWhole(s.o.FS, filepath.Join(s.blocksDir(), rememberedName), append(data, '\n')); err != nil {
		return fmt.Errorf("remember deletes: %w", err)
	}
	return nil
}

// readDeletes reads the file of a directory of blocks; none is an empty list. The
// error is a *vfs.CorruptError, says to use a newer rwsink, or is of the operating system.
func readDeletes(dir string) (list []head.Delete, r remembered, err error) {
	path := filepath.Join(dir, rememberedName)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, r, nil
	}
	if err != nil {
		return nil, r, err
	}
	corrupt := func(format string, args ...any) ([]head.Delete, remembered, error) {
		return nil, remembered{}, &vfs.CorruptError{Path: path, Err: fmt.Errorf(format, args...)}
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return corrupt("%w", err)
	}
	switch {
	case r.Magic != rememberedMagic:
		return corrupt("magic %q, want %q", r.Magic, rememberedMagic)
	case r.Version > rememberedVersion:
		return nil, r, newerFileError(path, r.Version, rememberedVersion)
	case r.Version != rememberedVersion:
		return corrupt("version %d, want %d", r.Version, rememberedVersion)
	}
	if sum, err := r.checksum(); err != nil || sum != r.CRC {
		return corrupt("checksum %08x, want %08x (%v)", sum, r.CRC, err)
	}
	last := uint64(0)
	for i, d := range r.Deletes {
		out := head.Delete{LSN: wal.LSN(d.LSN), MinT: d.MinT, MaxT: d.MaxT}
		if d.LSN < last || d.LSN > r.Through || d.MinT > d.MaxT {
			return corrupt("delete %d: frame %d after %d through %d, times %d to %d", i, d.LSN, last, r.Through, d.MinT, d.MaxT)
		}
		last = d.LSN
		for _, m := range d.Matchers {
			matcher, err := m.matcher()
			if err != nil {
				return corrupt("delete %d: %w", i, err)
			}
			out.Matchers = append(out.Matchers, matcher)
		}
		list = append(list, out)
	}
	return list, r, nil
}

func (m rememberedMatcher) matcher() (*labels.Matcher, error) {
	for t := labels.MatchEqual; t <= labels.MatchNotRegexp; t++ {
		if t.String() == m.Type {
			return labels.NewMatcher(t, m.Name, m.Value)
		}
	}
	return nil, fmt.Errorf("unknown type %q of a matcher", m.Type)
}

// openDeletes reads what is remembered, once the blocks are open. Where that is
// damaged the log may still have it.
func (s *Store) openDeletes() error {
	if !onDisk(s.o.FS) {
		return nil
	}
	list, r, err := readDeletes(s.blocksDir())
	var corrupt *vfs.CorruptError
	if errors.As(err, &corrupt) {
		s.log.Error("deletes before those of the log are not remembered: what heals gaps may refill them", "err", err)
	} else if err != nil {
		return err
	}
	d := &s.deletes
	d.list, d.last, d.through, d.evicted = list, wal.LSN(r.Through), wal.LSN(r.Through), wal.LSN(r.Evicted)
	return s.restoreTombstones(err == nil)
}
