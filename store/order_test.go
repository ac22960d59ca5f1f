package store_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/store"
)

// TestMergeWaitsForWhatStandsBetween makes two blocks that overlap while the head
// holds a sample of the time of the first that was written between them: merged
// without it they would outrank it. Containers and blocks only come to stand so
// once the block duration has changed.
func TestMergeWaitsForWhatStandsBetween(t *testing.T) {
	o := store.Options{Path: quickDir(t), Head: head.Options{Accept: head.Accept{
		MaxFuture: time.Minute, Now: func() time.Time { return time.UnixMilli(0) }, TrustClock: true,
	}}}
	ctx := context.Background()
	all := func(head.ContainerInfo) bool { return true }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	o.Head.BlockDuration = 3 * time.Second
	s := openIdle(t, o)
	commit(t, s, 0, 500, 1, 1)
	commit(t, s, 0, 2500, 1, 1)
	must(s.FlushSome(ctx, all)) // a block of [500, 2500]
	closeStore(t, s)

	o.Head.BlockDuration = time.Second
	s = openIdle(t, o)
	defer func() { closeStore(t, s) }()
	commit(t, s, 0, 500, 1, 2)
	commit(t, s, 0, 1500, 1, 3)
	must(s.FlushSome(ctx, func(c head.ContainerInfo) bool { return c.Lo == 1000 })) // a newer block of [1500, 1500]
	must(s.CompactSome(ctx))
	if n := len(s.BlockDirs()); n != 2 {
		t.Errorf("%d blocks, want 2: the head holds what stands between them", n)
	}
	must(s.FlushSome(ctx, all))
	want := fmt.Sprint([]string{
		fmt.Sprintf("0 500 %x", math.Float64bits(2)), fmt.Sprintf("0 1500 %x", math.Float64bits(3)), fmt.Sprintf("0 2500 %x", math.Float64bits(1)),
	})
	if got := fmt.Sprint(read(t, s)); got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	must(s.CompactSome(ctx))
	if n := len(s.BlockDirs()); n != 1 {
		t.Errorf("%d blocks, want 1: nothing stands between them any more", n)
	}
	if got := fmt.Sprint(read(t, s)); got != want {
		t.Errorf("merged: read %s, want %s", got, want)
	}
}

// openIdle opens a store that does only what the test asks for.
func openIdle(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	o.Head.Accept.Window = -1
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ReplayOnly(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}
