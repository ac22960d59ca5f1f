package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/vfs"
)

// Open opens or creates the log in o.Dir, finishes or drops what a crash left
// of a repair, and reads the headers of the segments. Replay must be called
// before the first Begin. A *vfs.CorruptError with ErrMagic or ErrVersion means
// that a file is not ours to read: nothing was changed.
func Open(o Options) (*Log, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewWAL(nil)
	}
	l := &Log{o: o, next: 1}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("wal: open: %w", err)
	}
	l.gauge()
	if o.Sync == SyncInterval {
		l.background = &background{stop: make(chan struct{}), stopped: make(chan struct{})}
		go l.syncEvery(o.Interval)
	}
	return l, nil
}

func (l *Log) open() error {
	if err := l.o.FS.MkdirAll(l.o.Dir); err != nil {
		return err
	}
	if err := l.o.FS.SyncDir(filepath.Dir(l.o.Dir)); err != nil {
		return err
	}
	numbers, err := l.list()
	if err != nil {
		return err
	}
	for _, n := range numbers {
		s, err := l.readHeader(n)
		if err != nil {
			return err
		}
		l.segments = append(l.segments, s)
	}
	// What a killed process changed in the directory and did not sync is synced with the next segment.
	return l.dropEmpty()
}

// list returns the numbers of the segments, after the repairs under way were
// finished (the damaged file has its new name already) or dropped.
func (l *Log) list() ([]uint64, error) {
	names, err := l.o.FS.ReadDir(l.o.Dir)
	if err != nil {
		return nil, err
	}
	var numbers, repairs []uint64
	for _, name := range names {
		n, suffix, ok := parseName(name)
		if !ok {
			continue
		}
		l.number = max(l.number, n)
		switch suffix {
		case "":
			numbers = append(numbers, n)
		case repairSuffix:
			repairs = append(repairs, n)
		}
	}
	for _, n := range repairs {
		path := l.path(n)
		if !slices.Contains(numbers, n) {
			if err := l.o.FS.Rename(path+repairSuffix, path); err != nil {
				return nil, err
			}
			numbers = append(numbers, n)
		} else if err := l.o.FS.Remove(path + repairSuffix); err != nil { // the segment does not go before it
			l.o.Logger.Warn("an unfinished repair of a log segment could not be removed", "segment", path, "err", err)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// readHeader reads the header of a segment.
func (l *Log) readHeader(number uint64) (segment, error) {
	f, err := l.o.FS.Open(l.path(number))
	if err != nil {
		return segment{}, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return segment{}, err
	}
	s, err := inspect(f, size, number)
	if errors.Is(err, ErrVersion) || errors.Is(err, ErrMagic) {
		err = &vfs.CorruptError{Path: l.path(number), Err: err}
	}
	return s, err
}

// inspect reads the header of a segment's file. Where it is damaged, the first
// valid frame tells the first LSN; 0 says that there is none. A file that is not
// ours, or of a later version, is an error.
func inspect(f io.ReaderAt, size int64, number uint64) (segment, error) {
	s := segment{size: size}
	b := make([]byte, min(headerSize, size))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return segment{}, err
	}
	s.header, s.damaged = decodeHeader(b)
	if s.damaged == nil && (s.number != number || s.first == 0 || s.first >= anyLSN) {
		s.header, s.damaged = header{}, fmt.Errorf("%w: got number %d, want %d, first LSN %d", errHeader, s.number, number, s.first)
	}
	if errors.Is(s.damaged, ErrVersion) {
		return segment{}, s.damaged
	}
	if s.first != 0 {
		return s, nil
	}
	s.number = number
	sc := newScanner(f, s.size, 0)
	switch err := sc.next(); {
	case err == nil:
		s.first = sc.frame.LSN
		if sc.gapFrom != 0 {
			s.first = sc.gapFrom
		}
		return s, nil
	case err != io.EOF:
		return segment{}, err
	}
	blank, err := sc.blank()
	if err != nil {
		return segment{}, err
	}
	if errors.Is(s.damaged, ErrMagic) && !blank && s.size > headerSize {
		return segment{}, s.damaged
	}
	if blank || s.size <= headerSize {
		s.damaged = nil // an unfinished creation
	}
	return s, nil
}

// dropEmpty takes away the files that hold no frame and no header: what a crash
// left of a creation is removed, anything else is set aside.
func (l *Log) dropEmpty() error {
	var kept []segment
	for _, s := range l.segments {
		switch {
		case s.first != 0:
			kept = append(kept, s)
		case s.damaged == nil:
			l.o.Logger.Info("log segment without a header removed", "segment", l.path(s.number), "bytes", s.size)
			if err := l.remove(s.number); err != nil { // it says nothing, and the next ones have higher numbers
				l.o.Logger.Warn("it could not be removed; the next start tries it again", "err", err)
			}
		default:
			if err := l.setAside(s); err != nil {
				return err
			}
		}
	}
	l.segments = kept
	return nil
}

// rotate creates the next segment, unless that was tried a moment ago.
func (l *Log) rotate() error {
	now := l.o.Now()
	if wait := retryPause - now.Sub(l.lastTry); l.failure != nil && 0 < wait && wait <= retryPause {
		return &UnavailableError{RetryAfter: wait, Err: l.failure}
	}
	return l.begin(now)
}

// begin creates the next segment, durable before it is used, and drops those
// before it that hold nothing (a failed group's, a crashed process's).
func (l *Log) begin(now time.Time) error {
	l.lastTry = now
	l.number++
	h := header{number: l.number, first: l.next, created: now.UnixMilli()}
	b := appendHeader(nil, h)
	next := l.next
	if l.jump >= next {
		b = appendGap(b, next, l.jump)
		next = l.jump + 1
	}
	f, err := l.create(l.path(l.number), b)
	if err != nil {
		l.failure = err
		l.o.Metrics.WriteErrors.Inc()
		l.o.Logger.Error("log segment could not be created", "segment", l.path(l.number), "err", err)
		return &UnavailableError{RetryAfter: retryPause, Err: err}
	}
	l.jump = 0
	l.o.Metrics.WrittenBytes.Add(float64(len(b)))
	l.mu.Lock()
	var empty []segment
	for n := len(l.segments); n > 0 && l.segments[n-1].first == h.first; n-- {
		empty = append(empty, l.segments[n-1])
		l.segments = l.segments[:n-1]
	}
	l.segments = append(l.segments, segment{header: h, size: int64(len(b))})
	l.active, l.next, l.dirty = f, next, false
	l.mu.Unlock()
	for _, s := range empty {
		if err := l.remove(s.number); err != nil {
			l.o.Logger.Warn("empty log segment could not be removed", "segment", l.path(s.number), "err", err)
			l.restore(s)
		}
	}
	l.gauge()
	return nil
}

// restore puts a segment that holds nothing and stays back before the active one:
// it goes before that does, or a start would miss what lies between it and the next.
func (l *Log) restore(s segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(l.segments) - 1
	for at > 0 && l.segments[at-1].number > s.number {
		at--
	}
	l.segments = slices.Insert(l.segments, at, s)
}

// create makes a file with the given start, its name and it durable.
func (l *Log) create(path string, b []byte) (vfs.File, error) {
	f, err := l.o.FS.Create(path)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(b); err == nil {
		if err = l.fsync(f); err == nil {
			if err = l.o.FS.SyncDir(l.o.Dir); err == nil {
				return f, nil
			}
		}
	}
	_ = f.Close()
	_ = l.o.FS.Remove(path) // what stays is dropped at the next start
	return nil, err
}

// remove removes a segment for good, with what a failed repair left; one that is gone is no error.
func (l *Log) remove(number uint64) error {
	if err := l.o.FS.Remove(l.path(number) + repairSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.o.FS.Remove(l.path(number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.o.FS.SyncDir(l.o.Dir)
}
