package store_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
)

// TestMergeWaitsForWhatStandsBetween makes two blocks that overlap while the head
// holds a sample of the time of the first that was written between them: merged
// without it they would outrank it. Containers and blocks only come to stand so
// once the block duration has changed.
func TestMergeWaitsForWhatStandsBetween(t *testing.T) {
	o := store.Options{Path: fixture.QuickDir(t), Head: head.Options{Accept: head.Accept{
		MaxFuture: time.Minute, Now: func() time.Time { return time.UnixMilli(0) }, TrustClock: true,
	}}}
	ctx := context.Background()
	o.Head.BlockDuration = 3 * time.Second
	s := openIdle(t, o)
	commit(t, s, 0, 500, 1, 1)
	commit(t, s, 0, 2500, 1, 1)
	flushAll(t, s) // a block of [500, 2500]
	closeStore(t, s)

	o.Head.BlockDuration = time.Second
	s = openIdle(t, o)
	defer func() { closeStore(t, s) }()
	commit(t, s, 0, 500, 1, 2)
	commit(t, s, 0, 1500, 1, 3)
	must(t, s.FlushSome(ctx, func(c head.ContainerInfo) bool { return c.Lo == 1000 })) // a newer block of [1500, 1500]
	must(t, s.CompactSome(ctx, true))
	if n := len(s.BlockDirs()); n != 2 {
		t.Errorf("%d blocks, want 2: the head holds what stands between them", n)
	}
	flushAll(t, s)
	want := fmt.Sprint([]string{
		fmt.Sprintf("0 500 %x", math.Float64bits(2)), fmt.Sprintf("0 1500 %x", math.Float64bits(3)), fmt.Sprintf("0 2500 %x", math.Float64bits(1)),
	})
	if got := fmt.Sprint(read(t, s)); got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	must(t, s.CompactSome(ctx, true))
	if n := len(s.BlockDirs()); n != 1 {
		t.Errorf("%d blocks, want 1: nothing stands between them any more", n)
	}
	if got := fmt.Sprint(read(t, s)); got != want {
		t.Errorf("merged: read %s, want %s", got, want)
	}
}

// TestOverlapsMergeInTiers flushes one range again and again: a sample is written
// once more each time that what there is becomes eight times as much, and the
// blocks that overlap stay few. Of one timestamp the last sample counts all the while.
func TestOverlapsMergeInTiers(t *testing.T) {
	const flushes, each, span = 128, 400, 100_000
	o := store.Options{Path: fixture.QuickDir(t), Head: head.Options{BlockDuration: span * 100 * time.Millisecond, Accept: head.Accept{
		MaxFuture: time.Minute, Now: func() time.Time { return time.UnixMilli(0) }, TrustClock: true,
	}}}
	o.Head.Accept.MaxFuture = o.Head.BlockDuration
	ctx := context.Background()
	s := openIdle(t, o)
	defer closeStore(t, s)
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[int64]float64{}
	most, first := 0, 0.0
	for k := range flushes {
		b := s.Head().NewBatch()
		for range each {
			at, v := 100*rng.Int64N(span), rng.Float64()
			b.Float(resolve(t, s.Head(), 0), at, 0, v)
			want[at] = v
		}
		if _, err := s.Head().Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
		b.Release()
		before := s.Written()
		flushAll(t, s)
		first += s.Written() - before
		if err := s.CompactSome(ctx, false); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(s.BlockDirs()))
		if k%16 == 15 {
			checkRead(t, s, want)
		}
	}
	if most > 16 {
		t.Errorf("%d blocks overlapped", most)
	}
	if times := s.Written() / first; times > 3.5 {
		t.Errorf("every byte was written %.1f times", times)
	}
}

// checkRead compares what is read of one series.
func checkRead(t *testing.T, s *store.Store, want map[int64]float64) {
	t.Helper()
	var lines []string
	for _, at := range slices.Sorted(maps.Keys(want)) {
		lines = append(lines, fmt.Sprintf("0 %d %x", at, math.Float64bits(want[at])))
	}
	if got := read(t, s); !slices.Equal(got, lines) {
		t.Fatalf("%d samples read, want %d, or others", len(got), len(lines))
	}
}

// openIdle opens a store that takes samples of any age and does only what the test asks for.
func openIdle(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	o.Head.Accept.Window = -1
	return start(t, o)
}
