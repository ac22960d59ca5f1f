package wal

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/rwsink/rwsink/internal/vfs"
)

// A repair, in steps that may each be the last before a crash:
//
//  1. <segment>.repair is written and synced, the directory too.
//  2. The segment is renamed to <segment>.damaged.
//  3. <segment>.repair is renamed to the segment's name; the directory is synced.
//
// Open drops an unfinished .repair beside its segment, and does step 3 where the
// segment has gone.

// repair counts and logs the damage and puts a repaired segment in the place of
// the damaged one. When that fails, all that was valid has still been read: it is
// logged, and the next start finds the damage again. The error is of the last sync.
func (l *Log) repair(seg *segment, sc *scanner, d found) (done bool, err error) {
	var frames LSN
	for _, lost := range d.lost {
		frames += lost.To - lost.From + 1
	}
	l.recovery.Lost = append(l.recovery.Lost, d.lost...)
	l.o.Metrics.LostFrames.Add(float64(frames))
	l.o.Metrics.DamagedSegments.Inc()
	l.o.Logger.Error("log segment is damaged", "segment", l.path(seg.number), "offset", d.at,
		"damaged_bytes", d.passed, "lost_frames", frames, "lost", d.lost, "header_err", seg.damaged)
	aside, size, err := l.replace(seg, sc, d.pieces)
	if err != nil {
		l.o.Logger.Error("damaged log segment could not be repaired and stays", "segment", l.path(seg.number), "err", err)
		return false, nil
	}
	seg.size = size
	l.recovery.SetAside = append(l.recovery.SetAside, aside)
	l.o.Logger.Warn("damaged log segment set aside", "kept_as", aside)
	return true, l.o.FS.SyncDir(l.o.Dir)
}

// replace does the steps up to the last sync.
func (l *Log) replace(seg *segment, sc *scanner, pieces []piece) (aside string, size int64, err error) {
	path := l.path(seg.number)
	if aside, err = l.asideName(seg.number); err != nil {
		return "", 0, err
	}
	g, err := l.create(path+repairSuffix, appendHeader(nil, seg.header))
	if err != nil {
		return "", 0, err
	}
	size, err = copyPieces(g, sc, pieces)
	if err == nil {
		err = l.fsync(g)
	}
	if cerr := g.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = l.o.FS.Remove(path + repairSuffix) // or dropped at the next start
		return "", 0, err
	}
	// A rename that reports an error may have happened: the .repair stays until a start sees which.
	if err = l.o.FS.Rename(path, aside); err != nil {
		return "", 0, err
	}
	if err = l.o.FS.Rename(path+repairSuffix, path); err != nil {
		_ = l.o.FS.Rename(aside, path)
		return "", 0, err
	}
	return aside, size, nil
}

// copyPieces appends the valid stretches to dst and a gap frame for each loss; it
// returns the size of the file.
func copyPieces(dst vfs.File, src *scanner, pieces []piece) (size int64, err error) {
	size = headerSize
	for _, p := range pieces {
		for off := p.from; off < p.to; {
			b, err := src.at(off, min(readSize, p.to-off))
			if err != nil {
				return 0, err
			}
			if _, err := dst.Write(b); err != nil {
				return 0, err
			}
			off += int64(len(b))
		}
		size += p.to - p.from
		if p.lost.From != 0 {
			gap := appendGap(nil, p.lost.From, p.lost.To)
			if _, err := dst.Write(gap); err != nil {
				return 0, err
			}
			size += int64(len(gap))
		}
	}
	return size, nil
}

// setAside gives a segment in which nothing is valid a name under which it is kept but not read.
func (l *Log) setAside(s segment) error {
	to, err := l.asideName(s.number)
	if err != nil {
		return err
	}
	if err := l.o.FS.Rename(l.path(s.number), to); err != nil {
		return err
	}
	l.recovery.SetAside = append(l.recovery.SetAside, to)
	l.o.Metrics.DamagedSegments.Inc()
	l.o.Logger.Error("log segment is damaged and nothing in it can be read",
		"segment", l.path(s.number), "bytes", s.size, "header_err", s.damaged, "kept_as", to)
	return l.o.FS.SyncDir(l.o.Dir)
}

// asideName returns a free name for a damaged segment.
func (l *Log) asideName(number uint64) (string, error) {
	names, err := l.o.FS.ReadDir(l.o.Dir)
	if err != nil {
		return "", err
	}
	base := segmentName(number) + damagedSuffix
	name := base
	for i := 2; slices.Contains(names, name); i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	return filepath.Join(l.o.Dir, name), nil
}
