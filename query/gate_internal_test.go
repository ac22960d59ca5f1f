package query

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rwsink/rwsink/internal/metrics"
)

func TestGateBoundsRunnersAndWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, waiters = 2, 2 * waitersPerSlot
		m := metrics.NewQuery(nil)
		g := newGate(slots, m.InFlight, m.Waiting)
		for range slots + waiters {
			if err := g.admit(); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.admit(); !errors.Is(err, errBusy) {
			t.Fatalf("one more than has a place: %v", err)
		}
		for range slots {
			if err := g.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, waiters)
		for range waiters {
			go func() { done <- g.wait(ctx) }()
		}
		synctest.Wait()
		g.leave()
		if err := <-done; err != nil {
			t.Fatalf("a slot is free, a waiter gets %v", err)
		}
		cancel()
		for range waiters - 1 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatalf("a canceled waiter gets %v", err)
			}
			g.dismiss()
		}
		g.leave()
		g.leave()
		if len(g.slots) != 0 || len(g.places) != 0 {
			t.Errorf("%d slots and %d places are lost", len(g.slots), len(g.places))
		}
	})
}
