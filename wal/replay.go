package wal

import (
	"fmt"
	"io"

	"github.com/rwsink/rwsink/internal/vfs"
)

// How a segment is read, in Replay:
//
//  1. Frames follow each other by LSN, from the first that the header names.
//     Reading ends at the LSN with which the next segment begins: what stands
//     behind belongs to a group that was refused, or was cut at a former start.
//  2. Bytes that are no valid frame are passed over up to the next one that is.
//     In the newest segment, with no frame behind them that begins a group,
//     they are the end of an unfinished group: the segment is cut there.
//  3. Anything else that was passed over, and an LSN that never came, is damage:
//     what is valid is copied to a repaired segment, with a gap frame where LSNs
//     are missing, so that the next start finds nothing to report; the damaged
//     file keeps existing under another name.
//  4. The newest segment is cut at its end and synced, whatever it looks like:
//     frames that a killed process had written but not synced are about to be built
//     upon, and one that it had refused and cut off must not be there after all.

// progressStep is the most bytes between two calls of Progress.
const progressStep = 8 << 20

// Frame is one batch as the log holds it. Payload is valid until the callback returns.
type Frame struct {
	LSN     LSN
	Segment uint64
	Class   byte // generation class: ClassWritten, or 0 filled
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

// Replay hands every frame to fn in order of LSN, once. fn's error ends it. p may be nil.
// After an error the log must be closed and opened again.
func (l *Log) Replay(p Progress, fn func(Frame) error) (Recovery, error) {
	l.own.Lock()
	defer l.own.Unlock()
	switch {
	case l.closed:
		return Recovery{}, ErrClosed
	case l.replayed:
		return Recovery{}, errReplayed
	}
	if p == nil {
		p = func(int64, int64) {}
	}
	r := replay{l: l, progress: p, fn: fn, total: l.Size()}
	for i := range l.segments {
		if err := r.segment(i); err != nil {
			return l.recovery, fmt.Errorf("wal: replay %s: %w", l.path(l.segments[i].number), err)
		}
	}
	if l.o.After >= l.next {
		l.jump = l.o.After
	}
	l.replayed = true
	l.gauge()
	return l.recovery, nil
}

type replay struct {
	l           *Log
	progress    Progress
	fn          func(Frame) error
	done, total int64
	told        int64
}

func (r *replay) tell(n int64) {
	r.done += n
	if r.done-r.told >= progressStep {
		r.told = r.done
		r.progress(r.done, r.total)
	}
}

// bounds returns the first LSN of a segment and that of the next one.
func (l *Log) bounds(i int) (first, bound LSN) {
	bound = anyLSN
	for _, s := range l.segments[i+1:] {
		bound = min(bound, s.first)
	}
	return l.segments[i].first, bound
}

func (r *replay) segment(i int) error {
	l, seg := r.l, &r.l.segments[i]
	f, err := l.o.FS.Open(l.path(seg.number))
	if err != nil {
		return err
	}
	defer f.Close()
	start := int64(headerSize)
	if seg.damaged != nil {
		start = 0 // a frame may stand anywhere
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	sc := newScanner(f, size, start)
	newest := i == len(l.segments)-1
	first, bound := l.bounds(i)
	l.next = min(first, bound)
	sc.last, sc.bound = l.next-1, bound
	before := r.done
	found, err := r.frames(sc, seg, newest)
	if err != nil {
		return err
	}
	repaired := false
	if seg.damaged != nil || found.damaged() {
		if repaired, err = l.repair(seg, sc, found); err != nil {
			return err
		}
	}
	if newest {
		if err := l.cutTail(seg, f, size, found.end, repaired); err != nil {
			return err
		}
	}
	r.done, r.told = before+sc.size, before+sc.size
	r.progress(r.done, r.total)
	return nil
}

// found is what a segment holds.
type found struct {
	pieces []piece
	end    int64 // of the last valid frame
	at     int64 // of the first damage
	passed int64 // damaged bytes passed over
	lost   []Lost
}

// piece is a stretch of valid frames and the loss behind it, if any.
type piece struct {
	from, to int64
	lost     Lost
}

func (f *found) damaged() bool { return f.passed > 0 || len(f.lost) > 0 }

// damage takes note of damaged bytes, and of LSNs from to to (if any) that are missing, behind the last frame.
func (f *found) damage(bytes int64, from, to LSN) {
	if !f.damaged() {
		f.at = f.end
	}
	f.passed += bytes
	if from <= to {
		f.lost = append(f.lost, Lost{from, to})
		f.pieces[len(f.pieces)-1].lost = Lost{from, to}
	}
}

// frames hands on the frames of a segment up to its bound.
func (r *replay) frames(sc *scanner, seg *segment, newest bool) (found, error) {
	l := r.l
	out := found{end: sc.end, pieces: []piece{{from: sc.end, to: sc.end}}}
	for l.next < sc.bound {
		err := sc.next()
		if err == nil && newest && sc.skipped > 0 {
			err = tornGroup(sc)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return out, err
		}
		first := sc.frame.LSN
		if sc.gapFrom != 0 {
			first = sc.gapFrom
		}
		if sc.skipped > 0 || first > l.next {
			out.damage(sc.skipped, l.next, first-1)
			out.pieces = append(out.pieces, piece{from: sc.off})
		}
		out.pieces[len(out.pieces)-1].to, out.end = sc.end, sc.end
		l.next = sc.frame.LSN + 1
		r.tell(sc.skipped + sc.end - sc.off)
		if sc.gapFrom != 0 {
			continue
		}
		sc.frame.Segment = seg.number
		l.recovery.Frames++
		l.recovery.Bytes += sc.end - sc.off
		if err := r.fn(sc.frame); err != nil {
			return out, err
		}
	}
	if !newest && l.next < sc.bound {
		out.damage(sc.size-out.end, l.next, sc.bound-1)
		l.next = sc.bound
	}
	return out, nil
}

// tornGroup returns io.EOF when neither the frame that sc found behind damage nor
// any later one begins a group.
func tornGroup(sc *scanner) error {
	ahead := newScanner(sc.f, sc.size, sc.end)
	ahead.last, ahead.bound, ahead.begins = sc.last, sc.bound, sc.begins
	for !ahead.begins {
		if err := ahead.next(); err != nil {
			return err
		}
	}
	return nil
}

// cutTail ends the newest segment at its last valid frame and makes it durable.
func (l *Log) cutTail(seg *segment, f vfs.File, size, end int64, repaired bool) error {
	if torn := size - end; torn > 0 {
		l.recovery.TornTail = torn
		l.o.Metrics.TornBytes.Add(float64(torn))
		l.o.Logger.Warn("log ends in an unfinished write, cut off",
			"segment", l.path(seg.number), "offset", end, "bytes", torn)
	}
	if repaired {
		return nil
	}
	// Also where nothing is to be seen behind the end: the process before may have
	// cut off a refused group and not come to make that durable.
	if err := f.Truncate(end); err != nil { // the first LSN of the next segment hides it as well
		l.o.Logger.Warn("unfinished write could not be cut off", "segment", l.path(seg.number), "err", err)
	} else {
		seg.size = end
	}
	return l.fsync(f)
}
