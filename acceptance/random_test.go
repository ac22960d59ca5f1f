package acceptance

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
)

// world is a server, the models that it may equal, and what a random test needs.
// As a rule there is one model; a request without an answer doubles them, and the
// next look at the server decides.
type world struct {
	s       *server
	rnd     *rand.Rand
	maybe   []*model
	now     int64 // newest time in use
	used    []int64
	last    [][]entry
	history []string
}

// did notes a step for the message of a failure.
func (w *world) did(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// write notes an acknowledged request.
func (w *world) write(es []entry) {
	for _, m := range w.maybe {
		m.write(es...)
	}
}

// mayHaveWritten notes a request without an answer: it is there wholly or not at all.
func (w *world) mayHaveWritten(es []entry) {
	for _, m := range w.maybe[:len(w.maybe):len(w.maybe)] {
		c := m.clone()
		c.write(es...)
		w.maybe = append(w.maybe, c)
	}
}

// look reads in both modes and keeps the models that equal what is there.
func (w *world) look(t testing.TB, when string) {
	t.Helper()
	got := w.s.readAll(t, samplesMode)
	if d := diff(w.s.readAll(t, streamedMode), got); d != "" {
		t.Fatalf("%s: the modes differ (got streamed):\n%s\nsteps: %s", when, d, strings.Join(w.history, "; "))
	}
	var fits []*model
	for _, m := range w.maybe {
		if diff(got, m.all()) == "" {
			fits = append(fits, m)
		}
	}
	if len(fits) == 0 {
		t.Fatalf("%s: what is there is none of the %d states it may be in; against the first:\n%s\nsteps: %s",
			when, len(w.maybe), diff(got, w.maybe[0].all()), strings.Join(w.history, "; "))
	}
	w.maybe = fits[:1]
}

// entries returns a random request: some series of a few, with samples of the kinds
// that at decides the times of.
func (w *world) entries(at func() int64) (es []entry) {
	for range 1 + w.rnd.IntN(4) {
		k := w.rnd.IntN(12)
		e := series(fmt.Sprintf("random_%d", k%4), "k", fmt.Sprint(k))
		for range 1 + w.rnd.IntN(25) {
			when := at()
			w.used = append(w.used, when)
			switch x := w.rnd.IntN(20); {
			case k >= 9 && x < 12:
				e = e.hist(when, randomHistogram(w.rnd))
			case k >= 10 && x < 15:
				e = e.fhist(when, randomHistogram(w.rnd).ToFloat(nil))
			case k >= 9 && x == 19:
				e = e.hist(when, &histogram.Histogram{Sum: staleNaN})
			case x >= 17:
				e = e.at(when, staleNaN)
			case x == 16 || x == 15: // with a start, where the version has it
				e.samples = append(e.samples, sample{t: when, st: when - w.rnd.Int64N(3)*second, v: float64(w.rnd.IntN(5))})
			case x == 14:
				e = e.at(when, plainNaN)
			default:
				e = e.at(when, float64(w.rnd.IntN(5)))
			}
		}
		es = append(es, e)
	}
	return es
}

// times of samples: newer than all, anywhere in the last hours, on what is there already.
func (w *world) ahead() int64 { w.now += 1 + w.rnd.Int64N(2*second); return w.now }
func (w *world) behind() int64 {
	return w.now - w.rnd.Int64N([]int64{minute, hour, 5 * hour, 3 * day}[w.rnd.IntN(4)])
}

// near is a time that is in use, or one beside it; mostly one of the last.
func (w *world) near() int64 {
	if len(w.used) == 0 {
		return w.ahead()
	}
	back := 1 + w.rnd.IntN(min(len(w.used), []int{20, 200, 5000}[w.rnd.IntN(3)]))
	return w.used[len(w.used)-back] + w.rnd.Int64N(5)/4
}

// send sends a request that must be taken.
func (w *world) send(t testing.TB, es []entry) {
	t.Helper()
	v := version(1 + w.rnd.IntN(2))
	if a := w.s.post(t, v, es...); a.status != http.StatusNoContent {
		t.Fatalf("%v\nsteps: %s", a, strings.Join(w.history, "; "))
	}
	w.write(es)
	w.last = append(w.last, es)
}

// killUnder kills the program while requests are under way. Those without an answer
// do not overlap, so each may be there or not by itself.
func (w *world) killUnder(t testing.TB, term bool) {
	t.Helper()
	type sent struct {
		es []entry
		o  outcome
	}
	var mu sync.Mutex
	var all []sent
	var wg sync.WaitGroup
	for r := range 3 {
		es := w.entries(w.ahead)
		for i := range es { // series of its own
			es[i].labels = series("under", "r", fmt.Sprint(r), "i", fmt.Sprint(i)).labels
		}
		v := version(1 + w.rnd.IntN(2))
		wg.Go(func() {
			o, err := w.s.attempt(packed(v, encode(v, es...)))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, sent{es, o})
		})
	}
	time.Sleep(time.Duration(w.rnd.IntN(3000)) * time.Microsecond)
	if term {
		w.s.term(t)
	} else {
		w.s.kill9(t)
	}
	wg.Wait()
	w.s.up(t)
	for _, x := range all {
		switch x.o {
		case kept:
			w.write(x.es)
		case unknown:
			w.mayHaveWritten(x.es)
		}
		w.did("outcome %d", x.o)
	}
}

// step does one random thing.
func (w *world) step(t testing.TB) {
	t.Helper()
	switch x := w.rnd.IntN(100); {
	case x < 25:
		w.did("in order")
		w.send(t, w.entries(w.ahead))
	case x < 45:
		w.did("late")
		w.send(t, w.entries(w.behind))
	case x < 70:
		w.did("on what is there")
		w.send(t, w.entries(w.near))
	case x < 80 && len(w.last) > 0:
		w.did("again")
		w.send(t, w.last[w.rnd.IntN(len(w.last))])
	case x < 82:
		w.did("flush")
		w.s.flush(t)
	case x < 83:
		w.did("clean")
		if status, body := w.s.admin(t, "POST", "clean_tombstones", nil); status != http.StatusNoContent {
			t.Fatalf("clean_tombstones: %d %s", status, body)
		}
	case x < 85:
		lo, k := w.behind(), w.rnd.IntN(4)
		hi := lo + w.rnd.Int64N(2*hour)
		w.did("delete")
		w.s.deleteSeries(t, newModel(), lo, hi, fmt.Sprint("random_", k))
		for _, m := range w.maybe {
			m.delete(lo, hi, fmt.Sprint("random_", k))
		}
	case x < 87:
		w.did("restart")
		w.s.restart(t)
	case x < 88:
		w.did("crash")
		w.s.crash(t)
	case x < 92:
		w.did("crash under writes")
		w.killUnder(t, false)
		w.look(t, "after SIGKILL under writes")
	case x < 95:
		w.did("SIGTERM under writes")
		w.killUnder(t, true)
		w.look(t, "after SIGTERM under writes")
	default:
		w.look(t, "in between")
	}
}

// Whatever is done in whatever order, what is readable is what was acknowledged:
// once, in order, by the rule for equal timestamps.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	for i := range rounds(6, 60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := &world{rnd: seeded(t, uint64(100+i)), maybe: []*model{newModel()}, now: nowMs() - 12*hour}
			w.s = start(t, [][]string{
				nil,
				{"--storage.block-duration=10m", "--storage.chunk-samples=20"}, // many seams
				{"--storage.chunk-encoding=raw", "--storage.wal-sync=never"},
			}[i%3]...)
			for range scaled(rounds(60, 400), 2) {
				w.step(t)
			}
			w.look(t, "at the end")
			w.s.crash(t)
			w.look(t, "at the end, after SIGKILL and a start")
			w.s.restart(t)
			w.look(t, "at the end, after SIGTERM and a start")
		})
	}
}
