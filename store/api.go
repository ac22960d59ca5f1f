package store

import (
	"context"
	"log/slog"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
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
type Store struct{}

// Open locks and opens the directory, creating it when it is not there. A second
// process on it, an unknown VERSION and a read-only directory are clear errors.
func Open(o Options) (*Store, error) { panic("BUG: not built") }

// Replay reads the log into the head; until it returns nil, writes answer 503 and
// Ready says why. It logs its progress and ends early with ctx.
func (s *Store) Replay(ctx context.Context) error { panic("BUG: not built") }

// Ready returns nil when writes and reads are served, or why not (one line for /-/ready).
func (s *Store) Ready() error { panic("BUG: not built") }

// Head returns the head, for the receiver.
func (s *Store) Head() *head.Head { panic("BUG: not built") }

// Close waits for the commits under way, refuses new ones, closes the log and unlocks the directory.
func (s *Store) Close() error { panic("BUG: not built") }

// View returns an immutable view that holds every batch acknowledged before the call.
func (s *Store) View() *View { panic("BUG: not built") }

// View is what a read sees. Close it.
type View struct{}

// Close lets go of what the view holds.
func (v *View) Close() {}

// Series is one series of a view.
type Series struct {
	Labels labels.Labels
	// unexported: where its samples are
}

// Select returns the series that match all matchers (Prometheus's semantics for
// absent labels) and may have samples in [mint, maxt], sorted by labels.Compare.
// No matchers: none.
func (v *View) Select(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) ([]Series, error) {
	panic("BUG: not built")
}

// Reader reads series of a view. It holds scratch memory and serves one goroutine.
type Reader struct{}

// NewReader returns a reader of the view.
func (v *View) NewReader() *Reader { panic("BUG: not built") }

// Read calls emit with the samples of s in [mint, maxt] (both ends included) in
// order of time as runs of one kind, no timestamp twice, late samples merged
// in. A run and its columns are borrowed until emit returns; histogram objects
// are the caller's. Neighbouring runs may have the same kind. emit's error ends it.
func (r *Reader) Read(s *Series, mint, maxt int64, emit func(*chunkenc.Samples) error) error {
	panic("BUG: not built")
}
