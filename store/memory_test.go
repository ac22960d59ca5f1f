package store_test

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
)

// TestReplayTakesNoMoreMemory: what a log of in order and late samples, half and half,
// comes to in memory is about the same after a start as before.
func TestReplayTakesNoMoreMemory(t *testing.T) {
	o := store.Options{Path: filepath.Join(fixture.QuickDir(t), "data"), Head: head.Options{Accept: head.Accept{
		Window: -1, TrustClock: true, Now: func() time.Time { return time.UnixMilli(7_200_000) }}}}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s := start(t, o)
	const series, batches = 1000, 30
	for k := range int64(batches) {
		for i := range series {
			at := 1000 * (k*3 + 1)
			if k%2 == 1 { // late
				at = 1000 * ((k * 7) % (k * 3))
			}
			commit(t, s, i, at, 5, float64(k))
		}
	}
	running := heap() - before
	closeStore(t, s)
	s = start(t, o)
	replayed := heap() - before
	t.Logf("%d KiB while running, %d KiB after a start", running>>10, replayed>>10)
	if replayed > running*5/4 {
		t.Errorf("%d bytes while running, %d after a start", running, replayed)
	}
	closeStore(t, s)
}
