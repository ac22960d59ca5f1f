package seldom_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rwsink/rwsink/internal/seldom"
)

// TestGate lets the first line through, one in Every after it, and the first of new
// trouble; each says how many were held since the one before.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g seldom.Gate
		pass := func(want bool, wantHeld int64) {
			t.Helper()
			if held, ok := g.Pass(); ok != want || held != wantHeld {
				t.Errorf("passed %t with %d held, want %t and %d", ok, held, want, wantHeld)
			}
		}
		pass(true, 0)
		pass(false, 0)
		time.Sleep(seldom.Every - 1)
		pass(false, 0)
		time.Sleep(1)
		pass(true, 2)
		pass(false, 0)
		if held := g.Open(); held != 1 {
			t.Errorf("%d held, want 1", held)
		}
		pass(true, 0)
	})
}

// TestGateOfManyGoroutines loses count of no line.
func TestGateOfManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines, rounds = 100, 5
		var g seldom.Gate
		var passed, held atomic.Int64
		for range rounds {
			var wg sync.WaitGroup
			for range lines {
				wg.Go(func() {
					if n, ok := g.Pass(); ok {
						passed.Add(1)
						held.Add(n)
					}
				})
			}
			wg.Wait()
			time.Sleep(seldom.Every)
		}
		if held.Add(g.Open()); passed.Load() != rounds || held.Load() != rounds*(lines-1) {
			t.Errorf("%d lines passed and %d were held, want %d and %d", passed.Load(), held.Load(), rounds, rounds*(lines-1))
		}
	})
}
