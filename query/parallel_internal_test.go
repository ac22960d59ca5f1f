package query

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

// TestSeriesDoNotShareMemory: many series whose samples stand in chunks, in the
// tail and in the late buffer, the whole reply decoded before it is compared.
func TestSeriesDoNotShareMemory(t *testing.T) {
	const series, n = 500, 50
	r := newRig(t, Options{Concurrency: 16})
	rng := rand.New(rand.NewPCG(2, 2))
	var want []answer
	for i := range series {
		ls := labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i))
		all := floatPoints(hourAgo(), 15_000, n, float64(i))
		switch i % 3 {
		case 1, 2:
			for k := range all {
				h := newCounts(rand.New(rand.NewPCG(uint64(i), 1)))
				h.bounds, h.schema = nil, 1
				h.pos = map[int32]int64{int32(i % 7): int64(i + k + 1)}
				if i%3 == 1 {
					all[k] = point{t: all[k].t, h: h.int()}
				} else {
					all[k] = point{t: all[k].t, fh: h.float()}
				}
			}
		}
		want = append(want, answer{0, ls, all})
	}
	late := map[int]bool{}
	for len(late) < n/10 {
		late[rng.IntN(n-20)] = true
	}
	for i, a := range want {
		var now, later []point
		for k, p := range a.points {
			if late[k] {
				later = append(later, p)
			} else {
				now = append(now, p)
			}
		}
		r.write(t, want[i].labels, now...)
		r.write(t, want[i].labels, later...)
	}
	for _, mode := range bothModes {
		checkAnswers(t, r.ask(t, mode, everything(eq("__name__", "m"))), want)
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			checkAnswers(t, r.ask(t, bothModes[i%2], everything(eq("__name__", "m"))), want)
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
}

// TestReadersBesideAWriter: every reply holds what was acknowledged before it was
// asked for, of every series its own values, while a writer appends and inserts.
func TestReadersBesideAWriter(t *testing.T) {
	const series, rounds, readers = 50, 60, 16
	r := newRig(t, Options{Concurrency: readers})
	base := hourAgo()
	var acked atomic.Int64 // rounds
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for k := range int64(rounds) {
			b := r.store.Head().NewBatch()
			for i := range series {
				s := r.series(t, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
				b.Float(s, base+2000*k, 0, float64(i))
				if k >= 10 { // a late one, ten rounds back
					b.Float(s, base+2000*(k-10)+1000, 0, float64(i))
				}
			}
			r.commit(t, b)
			b.Release()
			acked.Store(k + 1)
		}
	})
	for i := range readers {
		wg.Go(func() {
			for done := false; !done; {
				select {
				case <-stop:
					done = true // once more
				default:
				}
				least := acked.Load()
				got := r.ask(t, bothModes[i%2], everything(eq("__name__", "m")))
				if least > 0 && len(got) != series {
					t.Errorf("%d series", len(got))
				}
				for _, a := range got {
					if n := int64(len(a.points)); n < least+max(0, least-10) {
						t.Errorf("%s has %d samples after %d rounds", a.labels, n, least)
					}
					for _, p := range a.points {
						if fmt.Sprint(p.v) != a.labels.Get("i") {
							t.Errorf("%s has the value %v", a.labels, p.v)
						}
					}
				}
			}
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
}
