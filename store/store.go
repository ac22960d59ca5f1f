package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/wal"
)

// Options configure a Store.
type Options struct {
	Path    string         // --storage.path
	FS      vfs.FS         // vfs.OS
	Sync    wal.SyncPolicy // --storage.wal-sync
	Segment int64          // bytes of a log segment, 0 is wal's default
	Head    head.Options   // Log is filled in here
	Logger  *slog.Logger
	WAL     *metrics.WAL
}

// Store is an open data directory.
type Store struct {
	lock *dirLock
	log  *wal.Log
	head *head.Head
}

// Open locks and opens the directory, creating it when it is not there. A second
// process on it, an unknown VERSION and a read-only directory are clear errors.
func Open(o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if err := makeDir(o.FS, o.Path); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	lock, err := lockDir(o.FS, filepath.Join(o.Path, lockName))
	if err != nil {
		return nil, err
	}
	s, err := open(o)
	if err != nil {
		return nil, errors.Join(err, lock.unlock())
	}
	s.lock = lock
	return s, nil
}

func open(o Options) (*Store, error) {
	if err := checkVersion(o.FS, o.Path); err != nil {
		return nil, err
	}
	log, err := wal.Open(wal.Options{
		FS: o.FS, Dir: filepath.Join(o.Path, walName), SegmentBytes: o.Segment, Sync: o.Sync,
		Logger: o.Logger, Metrics: o.WAL,
	})
	if err != nil {
		return nil, err
	}
	o.Head.Log = log
	h, err := head.New(o.Head)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return &Store{log: log, head: h}, nil
}

// Replay reads the log into the head; until it returns nil, writes answer 503 and
// Ready says why. It logs its progress and ends early with ctx.
func (s *Store) Replay(ctx context.Context) error { return s.head.Replay(ctx) }

// Ready returns nil when writes and reads are served, or why not (one line for /-/ready).
func (s *Store) Ready() error { return s.head.Ready() }

// Notice returns what an operator should know although the store is ready; empty when there is nothing.
func (s *Store) Notice() string { return s.head.Notice() }

// Head returns the head, for the receiver.
func (s *Store) Head() *head.Head { return s.head }

// LogBytes returns the size of the log on disk.
func (s *Store) LogBytes() int64 { return s.log.Size() }

// Close waits for the commits under way, refuses new ones, closes the log and
// unlocks the directory. Replay must have returned.
func (s *Store) Close() error {
	s.head.Close()
	return errors.Join(s.log.Close(), s.lock.unlock())
}
