package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// Options configure a Store. Zero values take the defaults given.
type Options struct {
	Path    string         // --storage.path
	FS      vfs.FS         // vfs.OS: of the log; blocks are written on this one only
	Sync    wal.SyncPolicy // --storage.wal-sync
	Segment int64          // bytes of a log segment, 0 is wal's default
	LogMax  int64          // --storage.wal-max-size, 2 GiB
	MaxSize int64          // --storage.retention.size; 0 is no limit
	Head    head.Options   // Log is filled in here
	Logger  *slog.Logger
	Metrics Metrics
}

// Metrics are those of the store and of its log; each may be nil.
type Metrics struct {
	Store *metrics.Store
	WAL   *metrics.WAL
}

// defaultLogMax is the default of Options.LogMax; those of Options.Head are the head's.
const defaultLogMax = 2 << 30

// indexMemory bounds the bytes of unpacked pages of all indexes: those of 300,000
// series, or what queries look at again and again of many more. A page that is
// not at hand costs 0.1 ms.
const indexMemory = 32 << 20

// Store is an open data directory.
type Store struct {
	o      Options
	log    *slog.Logger
	lock   *dirLock
	wal    *wal.Log
	head   *head.Head
	blocks atomic.Pointer[[]*block.Block] // by generation; replaced, never changed
	pages  *block.Pages                   // of the indexes of all blocks

	listing   sync.Mutex     // held while blocks is replaced
	faulty    []*block.Block // found damaged and still in their places; under listing
	displaced []displaced    // found so by the start, which could not move them; under listing
	noticed   chan struct{}  // there are faulty ones

	// maintenance is held by whatever changes the blocks.
	maintenance sync.Mutex
	buffers     *block.Buffers     // of the block that is being written; under maintenance
	ctx         context.Context    // ends with stop, and with it whatever changes the blocks
	stop        context.CancelFunc //
	stopped     chan struct{}      // closed when the maintenance loop has ended; nil when there is none
	removed     removals
	deletes     deletes
	lingering   []string  // directories of blocks off the list that could not be removed
	collected   time.Time // when the head last let go of series without samples
}

// Open locks and opens the directory, creating it when it is not there. A second
// process on it, an unknown VERSION, a directory of something else, which is left as it
// is, and a read-only one are clear errors. Damaged blocks are set aside; one of a newer
// version is an error.
func Open(o Options) (_ *Store, err error) {
	defer func() { err = whoMay(err, o.Path) }()
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.LogMax == 0 {
		o.LogMax = defaultLogMax
	}
	o.Head = o.Head.WithDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics.Store == nil {
		o.Metrics.Store = metrics.NewStore(nil)
	}
	if err := makeDir(o.FS, o.Path); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	if err := checkOurs(o.FS, o.Path); err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	lock, err := lockDir(o.FS, filepath.Join(o.Path, lockName))
	if err != nil {
		return nil, err
	}
	s := &Store{o: o, log: o.Logger, lock: lock, pages: block.NewPages(indexMemory), buffers: block.NewBuffers(), noticed: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.open(); err != nil {
		return nil, errors.Join(err, lock.unlock())
	}
	return s, nil
}

func (s *Store) open() error {
	if err := checkVersion(s.o.FS, s.o.Path); err != nil {
		return err
	}
	if err := s.removeUnfinishedSnapshots(); err != nil {
		return err
	}
	if err := s.openRemovals(); err != nil {
		return err
	}
	list, err := s.openBlocks()
	if err != nil {
		return err
	}
	s.blocks.Store(&list)
	if err := s.openDeletes(); err != nil {
		return errors.Join(err, s.closeBlocks())
	}
	s.removeUnfinishedFiles()
	log, err := wal.Open(wal.Options{
		FS: s.o.FS, Dir: filepath.Join(s.o.Path, walName), SegmentBytes: s.o.Segment, Sync: s.o.Sync,
		After: s.lastLSN(), Logger: s.o.Logger, Metrics: s.o.Metrics.WAL,
	})
	if err != nil {
		return errors.Join(err, s.closeBlocks())
	}
	s.o.Head.Log = log
	h, err := head.New(s.o.Head)
	if err != nil {
		return errors.Join(err, log.Close(), s.closeBlocks())
	}
	for _, b := range list {
		_, maxT := b.Range()
		h.Stored(maxT)
	}
	h.KeepFrom(s.removed.KeepFrom)
	s.wal, s.head = log, h
	s.o.Metrics.Store.Lowest = s.lowest
	return nil
}

// onDisk says whether the directory is on the operating system's files: blocks
// are mapped files, which no other file system has.
func onDisk(fs vfs.FS) bool {
	m, ok := fs.(interface{ Mapped() bool })
	return ok && m.Mapped()
}

// Replay reads the log into the head, but for what the blocks hold, and starts
// the maintenance of the blocks. Until it returns nil, writes answer 503 and
// Ready says why. It logs its progress and ends early with ctx.
func (s *Store) Replay(ctx context.Context) error {
	if err := s.replayHead(ctx); err != nil {
		return err
	}
	if !onDisk(s.o.FS) {
		return nil
	}
	s.stopped = make(chan struct{})
	go s.maintain(s.ctx)
	return nil
}

// Ready returns nil when writes and reads are served, or why not (one line for /-/ready).
func (s *Store) Ready() error { return s.head.Ready() }

// Notice returns what an operator should know although the store is ready; empty when there is nothing.
func (s *Store) Notice() string { return s.head.Notice() }

// Head returns the head, for the receiver.
func (s *Store) Head() *head.Head { return s.head }

// Close ends the maintenance and what flushes or merges, which leaves nothing
// unfinished, waits for the commits under way, refuses new ones, closes the log
// and the blocks and unlocks the directory. Replay must have returned.
func (s *Store) Close() error {
	s.stop()
	if s.stopped != nil {
		<-s.stopped
	}
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	s.head.Close()
	s.deletes.mu.Lock() // which are of blocks
	defer s.deletes.mu.Unlock()
	return errors.Join(s.wal.Close(), s.closeBlocks(), s.lock.unlock())
}

// lowest returns the lowest timestamp that may be stored, in seconds; as
// Prometheus does, the largest time when there is none.
func (s *Store) lowest() float64 {
	low, _, ok := s.Reach()
	if !ok {
		return float64(math.MaxInt64) / 1000
	}
	return float64(low) / float64(time.Second/time.Millisecond)
}
