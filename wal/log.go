package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
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

// Defaults of Options, and the pause between two tries to create a segment after an error.
const (
	defaultSegmentBytes = 128 << 20
	defaultInterval     = 100 * time.Millisecond
	retryPause          = time.Second
	keepBuffer          = 4 << 20 // bytes of the group buffer that are kept between groups
)

// Options configure a Log. Zero values take the defaults given.
type Options struct {
	FS           vfs.FS           // vfs.OS
	Dir          string           // the directory of the segments; those above it are the caller's
	SegmentBytes int64            // 128 MiB: a segment is closed once it has passed this size
	Sync         SyncPolicy       // SyncAlways
	Interval     time.Duration    // 100 ms
	After        LSN              // 0; an LSN in use elsewhere (in blocks): the log never gives out one up to it again
	Now          func() time.Time // time.Now
	Logger       *slog.Logger     // none
	Metrics      *metrics.WAL     // may be nil
}

// Log is the open log. Begin, Write and Commit serve one goroutine; the rest may be called from any.
type Log struct {
	o Options

	// Of the committer, between Begin and Commit.
	group   []byte // the frames
	written LSN    // how many
	began   bool

	// Of whoever holds own: Replay, Begin, Commit, Close. It is taken before syncing and mu.
	own      sync.Mutex
	replayed bool
	closed   bool
	number   uint64    // the highest in use
	lastTry  time.Time // when a segment was last to be created
	failure  error     // of the last group or creation; nil once a group was committed
	recovery Recovery  // what Open and Replay found
	jump     LSN       // the next segment begins with the frame that says that LSNs up to it are not used

	syncing sync.Mutex // held while the active file is synced out of turn or closed

	mu       sync.Mutex // guards what follows; never held during input or output
	segments []segment  // by number; the last is the active one while active is not nil
	active   vfs.File
	next     LSN   // of the next frame to be committed
	dirty    bool  // the active file has frames that no sync has covered
	syncErr  error // of a sync out of turn: the next Commit fails with it

	background *background // under SyncInterval
}

// background is the goroutine that syncs now and then.
type background struct{ stop, stopped chan struct{} }

type segment struct {
	header
	size    int64 // committed bytes
	damaged error // why its header could not be read
}

// Segment describes a segment of the log.
type Segment struct {
	Number  uint64
	First   LSN // of its first frame, present or not
	Created time.Time
	Bytes   int64
}

// UnavailableError is what Begin fails with while no segment can be created.
type UnavailableError struct {
	RetryAfter time.Duration // until the next try
	Err        error         // of the last try, or of the Commit before it
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("wal: no segment to write to, next try in %v: %v", e.RetryAfter, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Errors of a use out of turn.
var (
	ErrClosed      = errors.New("wal: closed")
	ErrNotReplayed = errors.New("wal: not replayed")
	errNotBegun    = errors.New("wal: Write or Commit without Begin")
	errReplayed    = errors.New("wal: replayed before")
)

// Begin starts a group: it rotates when the segment is full or closed after an
// error, and returns the number of the segment that the group's frames go to.
// The caller must see to it that the frames of a segment carry the series
// records that they use. It fails with *UnavailableError, at once and at most
// one try a second, while no segment can be created.
func (l *Log) Begin() (segment uint64, err error) {
	l.own.Lock()
	defer l.own.Unlock()
	switch {
	case l.closed:
		return 0, ErrClosed
	case !l.replayed:
		return 0, ErrNotReplayed
	}
	l.group, l.written, l.began = l.group[:0], 0, false
	if l.full() {
		if err := l.closeActive(); err != nil {
			l.failure = err
			l.o.Metrics.WriteErrors.Inc()
			l.o.Logger.Error("log segment could not be synced before the next", "err", err)
		}
	}
	if l.active == nil {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	l.began = true
	return l.number, nil
}

// full says whether the active segment has had its share. One with an error to
// tell stays for the Commit that tells it.
func (l *Log) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active != nil && l.syncErr == nil && l.segments[len(l.segments)-1].size >= l.o.SegmentBytes
}

// Write adds a frame to the group and returns its LSN. The payload is copied.
// class is below 127; the payload holds at most MaxPayload bytes.
func (l *Log) Write(class byte, payload []byte) (LSN, error) {
	switch {
	case !l.began:
		return 0, errNotBegun
	case class >= classGap:
		return 0, fmt.Errorf("wal: class %d of a frame is not below %d", class, classGap)
	case len(payload) > MaxPayload:
		return 0, fmt.Errorf("wal: payload of %d bytes, at most %d", len(payload), MaxPayload)
	}
	if l.written == 0 {
		class |= classBegin
	}
	lsn := l.next + l.written // next is written by the committer alone
	l.group = appendFrame(l.group, lsn, class, payload)
	l.written++
	return lsn, nil
}

// Commit writes the group and, under SyncAlways, syncs it. After an error no
// frame of the group is in the log, their LSNs are given out again, and the
// segment is closed at its last committed frame. Where the disk refuses the cut
// and the next segment as well, that is so once a later Begin, or a start, goes
// through. Under SyncInterval the error may be that of the background sync since
// the last Commit.
func (l *Log) Commit() error {
	l.own.Lock()
	defer l.own.Unlock()
	if l.closed {
		return ErrClosed
	}
	if !l.began {
		return errNotBegun
	}
	l.began = false
	group := l.group
	if cap(group) > keepBuffer {
		l.group = nil
	}
	l.mu.Lock()
	f, err := l.active, l.syncErr
	l.mu.Unlock()
	if err == nil && len(group) > 0 {
		err = l.writeGroup(f, group)
	}
	if err != nil {
		l.fail(err)
		return fmt.Errorf("wal: commit to segment %d: %w", l.number, err)
	}
	l.failure = nil
	l.mu.Lock()
	l.segments[len(l.segments)-1].size += int64(len(group))
	l.next += l.written
	l.dirty = l.dirty || l.o.Sync != SyncAlways && len(group) > 0
	l.mu.Unlock()
	l.o.Metrics.WrittenBytes.Add(float64(len(group)))
	l.o.Metrics.SizeBytes.Add(float64(len(group)))
	return nil
}

func (l *Log) writeGroup(f vfs.File, group []byte) error {
	if _, err := f.Write(group); err != nil {
		return err
	}
	if l.o.Sync != SyncAlways {
		return nil
	}
	return l.fsync(f)
}

func (l *Log) fsync(f vfs.File) error {
	start := time.Now()
	err := f.Sync()
	l.o.Metrics.FsyncSeconds.Observe(time.Since(start).Seconds())
	return err
}

// fail closes the active segment at its last committed frame. Where cutting it
// fails, the first LSN of the next segment keeps what is behind from coming back:
// that is begun at once, before anybody is told.
func (l *Log) fail(cause error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.failure = cause
	l.mu.Lock()
	f, size := l.active, l.segments[len(l.segments)-1].size
	l.active, l.dirty, l.syncErr = nil, false, nil
	l.mu.Unlock()
	cut := f.Truncate(size)
	if cut == nil {
		cut = l.fsync(f)
	}
	cut = errors.Join(cut, f.Close())
	l.o.Metrics.WriteErrors.Inc()
	l.o.Logger.Error("log write failed, segment closed at its last committed frame",
		"segment", l.path(l.number), "offset", size, "err", cause, "cut_err", cut)
	if cut != nil {
		_ = l.begin(l.o.Now()) // or by the next Begin: it has said why
	}
}

// closeActive syncs the active segment where something in it is not, and closes it.
func (l *Log) closeActive() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	f, dirty, err := l.active, l.dirty, l.syncErr
	l.active, l.dirty, l.syncErr = nil, false, nil
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	if dirty && err == nil {
		err = l.fsync(f)
	}
	return errors.Join(err, f.Close())
}

// Sync makes all that was committed durable, whatever the policy.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	f, dirty, err := l.active, l.dirty, l.syncErr
	l.dirty = false
	l.mu.Unlock()
	if f == nil || !dirty || err != nil {
		return err
	}
	if err = l.fsync(f); err != nil {
		l.mu.Lock()
		l.syncErr = err
		l.mu.Unlock()
	}
	return err
}

func (l *Log) syncEvery(d time.Duration) {
	defer close(l.background.stopped)
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_ = l.Sync() // kept in syncErr for the next Commit
		case <-l.background.stop:
			return
		}
	}
}

// RemoveBefore removes the segments whose frames all lie before lsn, the oldest
// first and each for good before the next. The newest segment always stays.
func (l *Log) RemoveBefore(lsn LSN) error {
	for {
		l.mu.Lock()
		if len(l.segments) < 2 || l.segments[1].first > lsn {
			l.mu.Unlock()
			return nil
		}
		oldest := l.segments[0]
		l.mu.Unlock()
		if err := l.remove(oldest.number); err != nil {
			return fmt.Errorf("wal: remove segment: %w", err)
		}
		l.mu.Lock()
		if len(l.segments) > 0 && l.segments[0].number == oldest.number {
			l.segments = l.segments[1:]
		}
		l.mu.Unlock()
		l.gauge()
	}
}

// Segments describes the segments, the oldest first.
func (l *Log) Segments() []Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Segment, len(l.segments))
	for i, s := range l.segments {
		out[i] = Segment{Number: s.number, First: s.first, Created: time.UnixMilli(s.created), Bytes: s.size}
	}
	return out
}

// Last returns the LSN of the last frame committed, once replayed.
func (l *Log) Last() LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - 1
}

// Size returns the bytes of all segments. What was set aside is not counted.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, s := range l.segments {
		n += s.size
	}
	return n
}

// Close syncs and closes the log. A second call does nothing.
func (l *Log) Close() error {
	l.own.Lock()
	defer l.own.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if b := l.background; b != nil {
		close(b.stop)
		<-b.stopped
	}
	if err := l.closeActive(); err != nil {
		return fmt.Errorf("wal: close: %w", err)
	}
	return nil
}

func (l *Log) path(number uint64) string { return filepath.Join(l.o.Dir, segmentName(number)) }

func (l *Log) gauge() {
	l.o.Metrics.SizeBytes.Set(float64(l.Size()))
	l.mu.Lock()
	l.o.Metrics.Segments.Set(float64(len(l.segments)))
	l.mu.Unlock()
}
