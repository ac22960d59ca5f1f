package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/wal"
)

// remembered is the file blocks/deletes.json: the deletes that are remembered,
// and up to which frame the blocks have their tombstones.
type remembered struct {
	jsonfile.Head
	Through uint64             `json:"through"` // the newest frame of a delete that every block has, where it means it
	Evicted uint64             `json:"evicted"` // the newest delete that there was no room for; 0 is none
	Deletes []rememberedDelete `json:"deletes"` // in order of LSN
	jsonfile.Sum
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

const rememberedName = "deletes.json"

var rememberedKind = jsonfile.Kind{Magic: "rwsink-deletes", Oldest: 1, Newest: 1}

// writeDeletes replaces the file. deletes.mu is held.
func (s *Store) writeDeletes(through wal.LSN) error {
	r := remembered{Through: uint64(through), Evicted: uint64(s.deletes.evicted), Deletes: []rememberedDelete{}}
	for _, d := range s.deletes.list {
		out := rememberedDelete{LSN: uint64(d.LSN), MinT: d.MinT, MaxT: d.MaxT, Matchers: []rememberedMatcher{}}
		for _, m := range d.Matchers {
			out.Matchers = append(out.Matchers, rememberedMatcher{m.Name, m.Type.String(), m.Value})
		}
		r.Deletes = append(r.Deletes, out)
	}
	if err := jsonfile.Write(s.o.FS, filepath.Join(s.blocksDir(), rememberedName), rememberedKind, &r); err != nil {
		return fmt.Errorf("remember deletes: %w", err)
	}
	return nil
}

// readDeletes reads the file of a directory of blocks; none is an empty list. The
// error is a *vfs.CorruptError, a *jsonfile.NewerError, or of the operating system.
func readDeletes(dir string) (list []head.Delete, r remembered, err error) {
	path := filepath.Join(dir, rememberedName)
	if err = jsonfile.Read(path, rememberedKind, &r); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return nil, remembered{}, err
	}
	corrupt := func(format string, args ...any) ([]head.Delete, remembered, error) {
		return nil, remembered{}, &vfs.CorruptError{Path: path, Err: fmt.Errorf(format, args...)}
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
	d.list, d.through, d.evicted = list, wal.LSN(r.Through), wal.LSN(r.Evicted)
	d.last.Store(r.Through)
	s.restoreTombstones(err == nil)
	return nil
}
