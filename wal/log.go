package wal

import (
	"log/slog"
	"time"

	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/vfs"
)

// LSN is a log sequence number: 1 for the first frame of a directory, one more for each.
type LSN uint64

// SyncPolicy says when a commit waits for fsync.
type SyncPolicy uint8

// The policies of --storage.wal-sync.
const (
	SyncAlways   SyncPolicy = iota // every Commit syncs before it returns
	SyncInterval                   // a background sync every Options.Interval
	SyncNever                      // the operating system decides
)

// Options configure a Log. Zero values take the defaults given.
type Options struct {
	FS           vfs.FS        // vfs.OS
	Dir          string        // the directory of the segments
	SegmentBytes int64         // 128 MiB: a segment is closed once it has passed this size
	Sync         SyncPolicy    //
	Interval     time.Duration // 100 ms
	Logger       *slog.Logger
	Metrics      *metrics.WAL // may be nil
}

// Log is the open log. Begin, Write and Commit serve one goroutine; the rest may be called from any.
type Log struct{}

// Frame is one batch as the log holds it. Payload is valid until the callback returns.
type Frame struct {
	LSN     LSN
	Segment uint64
	Class   byte // generation class: 1 written, 0 filled
	Payload []byte
}

// Lost is a range of LSNs that damage took, both ends included.
type Lost struct{ From, To LSN }

// Recovery says what Open and Replay found.
type Recovery struct {
	Frames   int
	Bytes    int64
	TornTail int64    // bytes cut from the end of the newest segment
	SetAside []string // damaged segments, under their new names
	Lost     []Lost
}

// Progress is told after every segment, and at least every 8 MiB.
type Progress func(doneBytes, totalBytes int64)

// Open opens or creates the log in o.Dir. Replay must be called before the first Begin.
func Open(o Options) (*Log, error) { panic("BUG: not built") }

// Replay hands every frame to fn in order of LSN, once. fn's error ends it.
func (l *Log) Replay(p Progress, fn func(Frame) error) (Recovery, error) { panic("BUG: not built") }

// Begin starts a group: it rotates when the segment is full or closed after an
// error, and returns the number of the segment that the group's frames go to.
// The caller must see to it that the frames of a segment carry the series
// records that they use. It fails, at once and at most one try a second, while
// no segment can be created.
func (l *Log) Begin() (segment uint64, err error) { panic("BUG: not built") }

// Write adds a frame to the group and returns its LSN. The payload is copied.
func (l *Log) Write(class byte, payload []byte) (LSN, error) { panic("BUG: not built") }

// Commit writes the group and, under SyncAlways, syncs it. After an error no
// frame of the group is in the log, their LSNs are given out again, and the
// segment is closed at its last committed frame.
func (l *Log) Commit() error { panic("BUG: not built") }

// RemoveBefore removes the segments whose frames all lie before lsn.
func (l *Log) RemoveBefore(lsn LSN) error { panic("BUG: not built") }

// Size returns the bytes of all segments.
func (l *Log) Size() int64 { panic("BUG: not built") }

// Close syncs and closes the log.
func (l *Log) Close() error { panic("BUG: not built") }
