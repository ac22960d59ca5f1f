package query

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rwsink/rwsink/internal/metrics"
)

func TestGateBoundsBothRunnersAndWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.NewQuery(nil)
		g := newGate(2, m.InFlight, m.Waiting)
		for range 2 {
			if err := g.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2*waitersPerSlot)
		for range 2 * waitersPerSlot {
			go func() { done <- g.enter(ctx) }()
		}
		synctest.Wait()
		if err := g.enter(t.Context()); !errors.Is(err, errBusy) {
			t.Fatalf("one more than may wait: %v", err)
		}
		g.leave()
		if err := <-done; err != nil {
			t.Fatalf("a slot is free, a waiter gets %v", err)
		}
		cancel()
		for range 2*waitersPerSlot - 1 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatalf("a canceled waiter gets %v", err)
			}
		}
		g.leave()
		g.leave()
		if len(g.slots) != 0 || len(g.queue) != 0 {
			t.Errorf("%d slots and %d places in the queue are lost", len(g.slots), len(g.queue))
		}
	})
}
