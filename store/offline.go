package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/store/block"
)

// OpenOffline opens a directory that no process serves, to move samples in or
// out: the log is read as a start does, with its repairs, but nothing flushes,
// merges or removes. Close the store with CloseOffline.
func OpenOffline(ctx context.Context, o Options) (*Store, error) {
	s, err := Open(o)
	if err != nil {
		return nil, err
	}
	if err := s.replayHead(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// CloseOffline closes a store of OpenOffline. Blocks that reads found damaged meanwhile
// are set aside first, and what is sound in them is written anew, as where rwsink serves:
// whoever comes next goes on without what is damaged.
func (s *Store) CloseOffline() error {
	s.maintenance.Lock()
	err := s.setFaultyAside()
	s.maintenance.Unlock()
	return errors.Join(err, s.Close())
}

// Exists returns nil when path is a data directory, or what is missing of one.
func Exists(path string) error {
	if _, err := os.Stat(filepath.Join(path, versionName)); err != nil {
		return fmt.Errorf("%s is no data directory of rwsink: %w", path, err)
	}
	return nil
}

// Owns says whether a path, there or not, is one that the store alone writes to,
// or lies below one, and how that is called.
func (s *Store) Owns(path string) (name string, ours bool) {
	for _, name := range []string{lockName, versionName, idName, walName, blocksName, quarantineName, snapshotsName} {
		own, err := os.Stat(filepath.Join(s.o.Path, name))
		if err != nil {
			continue
		}
		at, err := filepath.Abs(path)
		for above := ""; err == nil && at != above; above, at = at, filepath.Dir(at) {
			if st, err := os.Stat(at); err == nil && os.SameFile(st, own) {
				return name, true
			}
		}
	}
	return "", false
}

// Reach returns the first and the last millisecond that blocks or containers may hold
// samples of; ok is false where there is neither.
func (s *Store) Reach() (lo, hi int64, ok bool) {
	lo, hi = math.MaxInt64, math.MinInt64
	s.reaches(func(from, to int64) { lo, hi, ok = min(lo, from), max(hi, to), true })
	return lo, hi, ok
}

// reaches calls f with the ranges of blocks and containers, both ends included.
func (s *Store) reaches(f func(lo, hi int64)) {
	for _, b := range *s.blocks.Load() {
		f(b.Range())
	}
	for _, c := range s.head.Containers() {
		f(c.Lo, c.Hi)
	}
}

// maxRanges bounds what AlignedRanges returns, to 32 MiB: the range of one container
// or block may be as long as its age.
const maxRanges = 4 << 20

// AlignedRanges returns the begins of the aligned ranges of that length, in
// milliseconds, that blocks or containers reach into within [from, to], ascending.
// More than maxRanges are an error.
func (s *Store) AlignedRanges(from, to, length int64) (begins []int64, err error) {
	s.reaches(func(lo, hi int64) {
		lo, hi = max(lo, from), min(hi, to)
		for lo <= hi && err == nil {
			begin, end := RangeOf(lo, length)
			if begins = append(begins, begin); len(begins) > 2*maxRanges {
				begins, err = fewRanges(begins)
			}
			if end >= hi {
				return
			}
			lo = end + 1
		}
	})
	if err != nil {
		return nil, err
	}
	return fewRanges(begins)
}

// fewRanges returns each begin once, ascending.
func fewRanges(begins []int64) ([]int64, error) {
	slices.Sort(begins)
	if begins = slices.Compact(begins); len(begins) > maxRanges {
		return nil, fmt.Errorf("the samples are spread over more than %d ranges: leave out a part of the time, or make the ranges longer", maxRanges)
	}
	return begins, nil
}

// Stamp returns a text that changes with whatever reads of [lo, hi] answer:
// which blocks reach into it, what was deleted of them, and, where the head
// does, the last frame of the log, and which log that is.
func (s *Store) Stamp(lo, hi int64) string {
	h := fnv.New128a()
	blocks := slices.Clone(*s.blocks.Load())
	slices.SortFunc(blocks, func(a, b *block.Block) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, b := range blocks {
		if minT, maxT := b.Range(); minT > hi || maxT < lo {
			continue
		}
		io.WriteString(h, b.Name())
		h.Write(b.EncodedTombstones())
	}
	inHead := func(c head.ContainerInfo) bool { return c.Lo <= hi && c.Hi >= lo }
	if slices.ContainsFunc(s.head.Containers(), inHead) {
		fmt.Fprint(h, s.wal.Last())
		// Another directory may have come as far.
		if segments := s.wal.Segments(); len(segments) > 0 {
			fmt.Fprint(h, " ", segments[len(segments)-1].Created.UnixNano())
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// SelectAny returns the series that match all matchers of any of the lists, as
// Select does, each once. No lists: every series.
func (v *View) SelectAny(ctx context.Context, mint, maxt int64, lists [][]*labels.Matcher) (all []Series, err error) {
	if len(lists) == 0 {
		lists = [][]*labels.Matcher{{everything}}
	}
	for _, ms := range lists {
		found, err := v.Select(ctx, mint, maxt, ms...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(lists) == 1 {
		return all, nil
	}
	slices.SortStableFunc(all, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return slices.CompactFunc(all, func(a, b Series) bool { return labels.Equal(a.Labels, b.Labels) }), nil
}

// everything matches every series.
var everything = labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".*")
