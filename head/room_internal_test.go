package head

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rwsink/rwsink/wal"
)

// TestRowsStayWithinTheirMemory writes samples of long ago beyond what the head
// may hold of them while nobody flushes: they wait and are unavailable, others
// are taken at once, and room lets them in again.
func TestRowsStayWithinTheirMemory(t *testing.T) {
	const most = 64 << 10
	now := time.UnixMilli(1e12)
	log, err := wal.Open(wal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Options{Log: log, Limits: Limits{ColdBytes: most}, Accept: Accept{Window: -1, TrustClock: true, Now: func() time.Time { return now }}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Replay(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer func() { h.Close(); _ = log.Close() }()
	h.roomWait = 50 * time.Millisecond
	s, rng := testSeries(h, "m"), rand.New(rand.NewPCG(1, 2))
	write := func(from time.Time, n int) error {
		b := h.NewBatch()
		defer b.Release()
		for i := range n {
			b.Float(s, from.UnixMilli()+int64(i), 0, rng.Float64()) // which no chunk makes smaller
		}
		_, err := h.Commit(t.Context(), b)
		return err
	}
	old := now.Add(-1000 * time.Hour)
	var refused error
	for i := 0; i < 100 && refused == nil; i++ {
		refused = write(old.Add(time.Duration(i)*time.Minute), 1000)
	}
	var unavailable *UnavailableError
	if !errors.Is(refused, ErrFull) || !errors.As(refused, &unavailable) {
		t.Fatalf("memory full: %v", refused)
	}
	if got := h.ColdBytes(); got > most+1000*16*2 { // a batch, and what memory grows by
		t.Errorf("%d bytes held of %d", got, most)
	}
	if err := write(now, 10); err != nil {
		t.Errorf("samples of now beside it: %v", err)
	}
	done := make(chan error, 1)
	h.roomWait = time.Minute
	go func() { done <- write(old, 10) }()
	frozen, err := h.Freeze(t.Context(), func(c ContainerInfo) bool { return c.Cold })
	for _, f := range frozen {
		err = errors.Join(err, h.Drop(t.Context(), f))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("with room again: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.coldBytes.Add(most)
	defer h.coldBytes.Add(-most)
	b := h.NewBatch()
	defer b.Release()
	b.Float(s, old.UnixMilli(), 0, 1)
	if _, err := h.Commit(ctx, b); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that is gone: %v", err)
	}
}
