package acceptance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/prometheus/prometheus/prompb"
)

// grid is a set of float samples that is known without being kept: sample k of
// series i.
type grid struct {
	from   int64
	series int
	each   int
}

func (g grid) at(_, k int) int64 { return g.from + int64(k)*15*second }

func (g grid) value(i, k int) float64 {
	switch i % 5 {
	case 0:
		return float64(k * (i + 1)) // a counter
	case 1:
		return math.Sin(float64(k)/100) * float64(i) // a gauge
	case 2:
		return float64((k*7919+i*104729)%1000) / 100 // two decimals
	case 3:
		if k%50 == 49 {
			return staleNaN
		}
		return float64(i)
	default:
		return math.Float64frombits(rand.NewPCG(uint64(i), uint64(k)).Uint64()) // any bits at all
	}
}

// send sends the samples in the given order, 2,000 a request, under a metric name.
// An order is a permutation of series × samples.
func (g grid) send(t *testing.T, s *server, metric string, order []int, v version, writers int) {
	t.Helper()
	const batch = 2000
	parts := make(chan []int)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			bySeries := make(map[int][]sample, g.series)
			for part := range parts {
				clear(bySeries)
				for _, x := range part {
					i, k := x%g.series, x/g.series
					bySeries[i] = append(bySeries[i], sample{t: g.at(i, k), v: g.value(i, k)})
				}
				var es []entry
				for i, samples := range bySeries {
					es = append(es, entry{labels: series(metric, "i", fmt.Sprintf("%04d", i)).labels, samples: samples})
				}
				s.post(t, v, es...).is(t, http.StatusNoContent)
			}
		})
	}
	for len(order) > 0 {
		n := min(batch, len(order))
		parts <- order[:n]
		order = order[n:]
	}
	close(parts)
	wg.Wait()
}

// check expects the samples under a metric name, bit for bit.
func (g grid) check(t *testing.T, s *server, metric, when string) {
	t.Helper()
	for _, mode := range modes {
		got := s.read(t, mode, query(math.MinInt64, math.MaxInt64, eq("__name__", metric)))[0]
		if len(got) != g.series {
			t.Fatalf("%s, %s, %v: %d series, want %d", metric, when, mode, len(got), g.series)
		}
		wrong := 0
		for i, rs := range got {
			if len(rs.points) != g.each {
				t.Errorf("%s, %s, %v: series %d has %d samples, want %d", metric, when, mode, i, len(rs.points), g.each)
				continue
			}
			for k, p := range rs.points {
				if p.t != g.at(i, k) || math.Float64bits(p.v) != math.Float64bits(g.value(i, k)) {
					if wrong++; wrong <= 5 {
						t.Errorf("%s, %s, %v: sample %d of series %d is %v, want %v", metric, when, mode, k, i, p, point{t: g.at(i, k), v: g.value(i, k)})
					}
				}
			}
		}
		if wrong > 5 {
			t.Errorf("%s, %s, %v: %d samples are wrong", metric, when, mode, wrong)
		}
	}
}

// A million samples in any order read back as the same million in order, in both
// modes, before and after restarts; and so when all of it is sent once more.
func TestShuffledMillionEqualsOrdered(t *testing.T) {
	g := grid{from: nowMs() - 3*day, series: 200, each: scaled(5000, 20)}
	s := start(t)
	rnd := seeded(t, 1)
	total := g.series * g.each
	ordered := make([]int, total)
	for i := range ordered {
		ordered[i] = i
	}
	shuffled := rnd.Perm(total)
	g.send(t, s, "ordered", ordered, v1, 1)
	g.send(t, s, "shuffled", shuffled, v2, 2)
	check := func(when string) {
		g.check(t, s, "ordered", when)
		g.check(t, s, "shuffled", when)
	}
	check("at once")
	s.crash(t)
	check("after SIGKILL and a start")
	// A tenth of it again, in another order and the other version: nothing changes.
	again := rnd.Perm(total)[:total/10]
	g.send(t, s, "shuffled", again, v1, runtime.NumCPU())
	g.send(t, s, "ordered", again, v2, 1)
	s.restart(t)
	check("after a tenth was sent again, SIGTERM and a start")
	// Parts of it by time, as a dashboard asks.
	q := func(metric string, a, b int) *prompb.Query {
		return query(g.at(0, a), g.at(0, b), eq("__name__", metric))
	}
	for range 20 {
		a := rnd.IntN(g.each)
		b := a + rnd.IntN(min(300, g.each-a))
		x, y := s.readBoth(t, q("ordered", a, b)), s.readBoth(t, q("shuffled", a, b))
		if len(x) != len(y) || len(x) != g.series {
			t.Fatalf("samples %d to %d: %d and %d series", a, b, len(x), len(y))
		}
		for i := range x {
			if d := diff(result{{labels: x[i].labels, points: y[i].points}}, x[i:i+1]); d != "" || len(x[i].points) != b-a+1 {
				t.Fatalf("samples %d to %d, %d of them:\n%s", a, b, len(x[i].points), d)
			}
		}
	}
}
