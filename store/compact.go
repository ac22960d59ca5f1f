package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/store/block"
)

const (
	// overlapMost is how many overlapping blocks of like size are merged, and
	// alike how many times larger one may be than those that came after it. So a
	// sample is written once more each time that what there is becomes eight times
	// as much, and blocks that overlap are at most seven for each such time.
	overlapMost, alike = 8, 2
	// settleAfter is how long after the newest of them overlapping blocks are merged in any case.
	settleAfter = time.Hour
	// levelFactor is how many times longer the ranges of the next level are; levelCount is how many there are above a flush.
	levelFactor, levelCount = 3, 4
	// mostOfRetention bounds the longest range: retention removes whole blocks.
	mostOfRetention = 10
)

// compact merges what the plan says, one merge after another. With all set,
// whatever overlaps, or lies within one range of a level, is merged at once.
// Called with maintenance held.
func (s *Store) compact(ctx context.Context, all bool) error {
	// Each merge leaves fewer blocks than there were.
	for range 1 + len(*s.blocks.Load()) {
		group := s.plan(all)
		if len(group) < 2 {
			return nil
		}
		if s.anyFaulty() { // one of them may belong to the group, or between two of it
			if err := s.setFaultyAside(); err != nil {
				return err
			}
			continue
		}
		if err := s.merge(ctx, group); err != nil {
			s.o.Metrics.Store.CompactionFailures.Inc()
			return fmt.Errorf("merge %d blocks: %w", len(group), err)
		}
	}
	return nil
}

// plan chooses the blocks to merge next, sorted by generation, or none:
//
//  1. of blocks that overlap each other, directly or through others, the newest
//     overlapMost that are of like size, or all when the newest has settled;
//  2. blocks that lie within an aligned range of a level, the highest first,
//     that is over;
//  3. with all set, whatever overlaps.
//
// What is taken of a group are neighbours in generation, so that no block
// outside can stand between two of them.
func (s *Store) plan(all bool) []*block.Block {
	list := slices.Clone(*s.blocks.Load())
	slices.SortFunc(list, func(a, b *block.Block) int {
		minA, _ := a.Range()
		minB, _ := b.Range()
		return cmp.Compare(minA, minB)
	})
	groups := overlapping(list)
	for _, group := range groups {
		slices.SortFunc(group, byGeneration)
	}
	if !all {
		for _, group := range groups {
			if group := s.worth(group); len(group) > 1 && !s.headBetween(group) {
				return group
			}
		}
	}
	if group := s.planLevel(groups, all); group != nil || !all {
		return group
	}
	for _, group := range groups {
		if len(group) > 1 && !s.headBetween(group) {
			return group
		}
	}
	return nil
}

// overlapping groups blocks, sorted by their begin, into those that overlap.
func overlapping(list []*block.Block) (groups [][]*block.Block) {
	var end int64
	for i, b := range list {
		minT, maxT := b.Range()
		if i == 0 || minT > end {
			groups, end = append(groups, nil), maxT
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], b)
		end = max(end, maxT)
	}
	return groups
}

// headBetween says whether the head may hold samples that stand between the
// blocks of a group in generation: the merged block would outrank them as a
// whole. That takes another block duration than the older blocks were made with.
func (s *Store) headBetween(group []*block.Block) bool {
	lo, hi, newest := int64(math.MaxInt64), int64(math.MinInt64), uint64(0)
	for _, b := range group {
		minT, maxT := b.Range()
		lo, hi = min(lo, minT), max(hi, maxT)
		if g := b.Info().Generation; g.Class != block.ClassFilled { // what was filled in ranks below the head anyway
			newest = max(newest, g.LSN)
		}
	}
	return slices.ContainsFunc(s.head.Containers(), func(c head.ContainerInfo) bool {
		return c.Lo <= hi && c.Hi >= lo && uint64(c.First) <= newest
	})
}

// worth chooses what to merge now of a group, sorted by generation.
func (s *Store) worth(group []*block.Block) []*block.Block {
	var newest time.Time
	for _, b := range group {
		if at := ulid.Time(b.Meta().ULID.Time()); at.After(newest) {
			newest = at
		}
	}
	if now, _ := s.head.Now(); now.Sub(newest) > settleAfter {
		return group
	}
	from := len(group) - 1
	for largest := group[from].Size(); from > 0 && group[from-1].Size() <= alike*largest; from-- {
		largest = max(largest, group[from-1].Size())
	}
	if len(group)-from < overlapMost {
		return nil
	}
	return group[from:]
}

// planLevel chooses blocks for an aligned range of the highest level that at
// least two of them lie within, once the range is over, or at once with all
// set. Groups of overlapping blocks are taken whole or, while they may still
// grow, not at all.
func (s *Store) planLevel(groups [][]*block.Block, all bool) []*block.Block {
	now, _ := s.head.Now()
	for _, length := range s.levels() {
		for i := 0; i < len(groups); {
			begin := floor(begins(groups[i]), length)
			j := i
			for j < len(groups) && (len(groups[j]) == 1 || all) && within(groups[j], begin, length) {
				j++
			}
			if group := slices.Concat(groups[i:j]...); len(group) > 1 {
				// Half a block of grace: what is flushed late belongs in.
				over := begin+length+s.blockMs() < now.UnixMilli() && !s.headWithin(begin, length)
				if over || all && !s.headBetween(group) {
					slices.SortFunc(group, byGeneration)
					return group
				}
			}
			i = max(j, i+1)
		}
	}
	return nil
}

// levels returns the lengths of the ranges above a block's, in milliseconds, the longest first.
func (s *Store) levels() (out []int64) {
	length := s.blockMs()
	for range levelCount {
		length *= levelFactor
		if keep := s.o.Head.Accept.Retention; keep > 0 && length > keep.Milliseconds()/mostOfRetention {
			break
		}
		out = append(out, length)
	}
	slices.Reverse(out)
	return out
}

// begins returns the first timestamp of a group.
func begins(group []*block.Block) int64 {
	begin := int64(math.MaxInt64)
	for _, b := range group {
		minT, _ := b.Range()
		begin = min(begin, minT)
	}
	return begin
}

// within says whether a group lies in [begin, begin+length).
func within(group []*block.Block, begin, length int64) bool {
	return !slices.ContainsFunc(group, func(b *block.Block) bool {
		minT, maxT := b.Range()
		return minT < begin || maxT-begin >= length || maxT < begin
	})
}

// headWithin says whether the head still holds some of [begin, begin+length).
func (s *Store) headWithin(begin, length int64) bool {
	for _, c := range s.head.Containers() {
		if c.Lo < begin+length && c.Hi >= begin {
			return true
		}
	}
	return false
}

// floor returns the begin of the aligned range of that length which t lies in.
func floor(t, length int64) int64 {
	mod := t % length
	if mod < 0 {
		mod += length
	}
	return t - mod
}

// merge makes one block of a group, sorted by generation, and puts it in their
// place: without what is deleted, and none at all where that is everything.
func (s *Store) merge(ctx context.Context, group []*block.Block) error {
	if err := s.removeLeft(); err != nil && s.inherits(group) {
		return err
	}
	started := time.Now()
	w, err := s.begin()
	if err != nil {
		return err
	}
	m := newMerger(s.o.Head, group)
	if err := m.run(ctx, w); err != nil {
		return s.abandon(w, err)
	}
	if w.Samples() == 0 { // nothing takes their place
		if err := s.rememberRemoval(math.MinInt64, group...); err != nil {
			return s.abandon(w, err)
		}
	}
	info := mergedInfo(group)
	info.Logs = s.reached(info.Logs)
	b, err := s.publish(ctx, w, info, group)
	if err == nil {
		err = s.discardAll(group)
	}
	if err != nil {
		return err
	}
	s.o.Metrics.Store.CompactionSeconds.Observe(time.Since(started).Seconds())
	if b == nil {
		s.log.Info("nothing is left of blocks whose samples were deleted", "blocks", len(group))
		return nil
	}
	s.log.Info("merged", "blocks", len(group), "into", b.Name(), "samples", b.Meta().Stats.NumSamples,
		"bytes", b.Size(), "copied_chunks", m.copied, "sealed_chunks", m.sealed, "took", time.Since(started).Round(time.Millisecond))
	return nil
}

// mergedInfo is what is known of a merge before its samples: the highest
// generation and all log ranges.
func mergedInfo(group []*block.Block) block.CommitInfo {
	var ci block.CommitInfo
	for _, b := range group {
		info, meta := b.Info(), b.Meta()
		if ci.Generation.Less(info.Generation) {
			ci.Generation = info.Generation
		}
		ci.Deletes = max(ci.Deletes, b.After())
		ci.Logs = append(ci.Logs, info.Logs...)
		ci.Level = max(ci.Level, meta.Compaction.Level+1)
		ci.Sources = append(ci.Sources, meta.Compaction.Sources...)
		ci.Parents = append(ci.Parents, b.Name())
	}
	if ci.Deletes == ci.Generation.LSN {
		ci.Deletes = 0
	}
	if len(group) == 1 { // cleaned
		ci.Level--
	}
	slices.SortFunc(ci.Sources, ulid.ULID.Compare)
	ci.Sources = slices.Compact(ci.Sources)
	return ci
}
