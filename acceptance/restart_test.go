package acceptance

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// outcome is what the writer of a request knows about it.
type outcome int

const (
	kept    outcome = iota // acknowledged: it must be there
	refused                // told to come later, or never reached: it must not be there
	unknown                // no answer: it may be there, wholly
)

// attempt sends one request over a connection of its own, as it is.
func (s *server) attempt(r request) (outcome, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	a, err := s.try(&http.Client{Transport: transport, Timeout: time.Minute}, r)
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return refused, nil
	case err != nil:
		return unknown, nil
	case a.status == http.StatusNoContent:
		return kept, nil
	case a.status == http.StatusServiceUnavailable:
		return refused, nil
	}
	return unknown, fmt.Errorf("%v", a)
}

// ledger is what is known about many requests, each at a time of its own across the
// same series.
type ledger struct {
	mu       sync.Mutex
	outcomes map[int64]outcome
}

const ledgerWidth = 20

// request returns the body of the request at t.
func (l *ledger) request(t int64) []entry {
	var out []entry
	for k := range ledgerWidth {
		out = append(out, series("ledger", "k", fmt.Sprint(k)).at(t, float64(t%1000)+float64(k)))
	}
	return out
}

// note keeps the outcome of the request at t.
func (l *ledger) note(t int64, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outcomes == nil {
		l.outcomes = map[int64]outcome{}
	}
	l.outcomes[t] = o
}

// check expects of the server what the outcomes promise, in both modes.
func (l *ledger) check(t testing.TB, s *server, when string) {
	t.Helper()
	for _, mode := range modes {
		found := map[int64]int{}
		for _, rs := range s.read(t, mode, query(math.MinInt64, math.MaxInt64, eq("__name__", "ledger")))[0] {
			var k int
			fmt.Sscan(rs.labels.Get("k"), &k)
			for _, p := range rs.points {
				if p.v != float64(p.t%1000)+float64(k) {
					t.Errorf("%s, %v: %s holds %v", when, mode, rs.labels, p)
				}
				found[p.t]++
			}
		}
		lost, ghosts, half, count := 0, 0, 0, [3]int{}
		for at, o := range l.outcomes {
			count[o]++
			switch n := found[at]; {
			case n != 0 && n != ledgerWidth:
				half++
			case n == 0 && o == kept:
				lost++
			case n != 0 && o == refused:
				ghosts++
			}
			delete(found, at)
		}
		if lost+ghosts+half+len(found) > 0 {
			t.Errorf("%s, %v: of %d kept requests %d are lost, of %d refused %d are there, %d are there in part, %d are from nowhere",
				when, mode, count[kept], lost, count[refused], ghosts, half, len(found))
		}
		if mode == samplesMode {
			t.Logf("%s: %d kept, %d refused, %d unknown", when, count[kept], count[refused], count[unknown])
		}
	}
}

// write lets writers send one request after another until stop is closed.
func (l *ledger) write(t testing.TB, s *server, writers int, from int64, stop <-chan struct{}) *sync.WaitGroup {
	var wg sync.WaitGroup
	for w := range writers {
		v := version(1 + w%2)
		wg.Go(func() {
			for i := int64(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				at := from + (i*int64(writers)+int64(w))*10
				if i%3 == 1 {
					at -= 5 * minute // late
				}
				o, err := s.attempt(packed(v, encode(v, l.request(at)...)))
				if err != nil {
					t.Error(err)
				}
				l.note(at, o)
				if o != kept {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	return &wg
}

// Requests that meet a SIGTERM or a SIGKILL are kept if they were acknowledged and
// not there if they were refused.
func TestWritersAcrossStops(t *testing.T) {
	t.Parallel()
	s := start(t)
	var l ledger
	for round := range rounds(4, 40) {
		stop := make(chan struct{})
		wg := l.write(t, s, 8, nowMs()-10*hour+int64(round)*hour/8, stop)
		time.Sleep(time.Duration(60+round*37%100) * time.Millisecond)
		how := "SIGTERM"
		if round%2 == 1 {
			how = "SIGKILL"
			s.kill9(t)
		} else {
			s.term(t)
		}
		close(stop)
		wg.Wait()
		s.up(t)
		l.check(t, s, how)
	}
	s.crash(t)
	l.check(t, s, "at the end")
}

// A request whose body is on its way when SIGTERM comes is finished, or told to come
// later; and those that come after are refused.
func TestRequestsUnderWayAtSIGTERM(t *testing.T) {
	t.Parallel()
	s := start(t)
	var l ledger
	n := nowMs() - hour
	type slow struct {
		c    *net.TCPConn
		at   int64
		rest []byte
	}
	var all []slow
	for i := range int64(10) {
		at := n + i
		b := packed(v1, encode(v1, l.request(at)...)).body
		c := s.dial(t)
		defer c.Close()
		fmt.Fprintf(c, "%s%s", head(v1, fmt.Sprintf("Content-Length: %d\r\n", len(b))), b[:len(b)/2])
		all = append(all, slow{c, at, b[len(b)/2:]})
	}
	time.Sleep(50 * time.Millisecond)
	s.signalTerm(t)
	time.Sleep(100 * time.Millisecond)
	for range 5 {
		if o, err := s.attempt(packed(v1, encode(v1, l.request(n+100)...))); err != nil || o == kept {
			t.Errorf("a new request after SIGTERM: outcome %d, %v", o, err)
		} else if o == refused {
			l.note(n+100, o)
		} else {
			l.note(n+100, unknown)
		}
	}
	finished := 0
	for _, x := range all {
		x.c.Write(x.rest)
		status, text, err := reply(t, x.c)
		switch {
		case err != nil:
			l.note(x.at, unknown)
		case status == http.StatusNoContent:
			finished++
			l.note(x.at, kept)
		case status == http.StatusServiceUnavailable:
			l.note(x.at, refused)
		default:
			t.Errorf("status %d %q", status, text)
		}
	}
	if err := s.ended(t); err != nil {
		t.Errorf("rwsink after SIGTERM: %v", err)
	}
	s.up(t)
	l.check(t, s, fmt.Sprintf("%d of %d finished", finished, len(all)))
}

// SIGTERM at any moment, also while the log is replayed and twice, ends the program
// with status 0 and loses nothing.
func TestSIGTERMAtAnyMoment(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - day
	for i := range 20 {
		s.store(t, m, v1, bulk(n, i)...)
	}
	for i := range rounds(8, 50) {
		s.term(t)
		s.launch(t)
		time.Sleep([]time.Duration{25, 40, 60, 90}[i%4] * time.Millisecond)
		if i%3 == 0 {
			s.waitReady(t)
			s.store(t, m, v2, series("between").at(n+int64(i), 1))
			continue
		}
		if i%2 == 1 { // twice
			s.signalTerm(t)
		}
		// Earlier the program may not listen to the signal yet.
		if err := s.endedBy(t, syscall.SIGTERM); err != nil && !strings.Contains(err.Error(), "signal: terminated") {
			t.Errorf("SIGTERM after %d: %v", i, err)
		}
		s.launch(t)
		s.waitReady(t)
	}
	s.readBack(t, m)
}

// endedBy sends a signal and returns how the process ended.
func (s *server) endedBy(t testing.TB, sig syscall.Signal) error {
	t.Helper()
	_ = s.proc.cmd.Process.Signal(sig)
	return s.ended(t)
}

// While the log is replayed the program says so, refuses writes with 503 and takes
// them afterwards.
func TestReplayAnnouncesItself(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - 10*day
	// Enough that a replay takes some time.
	for i := range scaled(rounds(60, 300), 3) {
		var es []entry
		for k := range 50 {
			e := entry{labels: series("replay", "k", fmt.Sprint(k)).labels, samples: make([]sample, 0, 200)}
			for j := range int64(200) {
				at := n + int64((i*37)%300)*200*second + j*second // out of order between requests
				e.samples = append(e.samples, sample{t: at, v: float64(k) + float64(j)*0.37})
			}
			es = append(es, e)
		}
		s.store(t, m, v1, es...)
	}
	refusals, notReady, reason := 0, 0, ""
	// It takes a twentieth of a second: on a busy machine that may go by between two questions.
	for range 10 {
		s.kill9(t)
		s.launch(t)
		deadline := time.Now().Add(startTimeout)
		for time.Now().Before(deadline) {
			status, body, err := s.get("/-/ready")
			if err != nil {
				time.Sleep(time.Millisecond / 2)
				continue
			}
			if status == http.StatusOK {
				break
			}
			if notReady++; status != http.StatusServiceUnavailable || strings.TrimSpace(body) == "" {
				t.Errorf("ready: %d %q", status, body)
			}
			reason = body
			e := series("meanwhile").at(n+int64(refusals), 1)
			a := s.post(t, version(1+refusals%2), e)
			if a.status == http.StatusNoContent {
				m.write(e) // it became ready in between
			} else if a.is(t, http.StatusServiceUnavailable); a.status == http.StatusServiceUnavailable {
				refusals++
			}
		}
		if refusals > 0 {
			break
		}
	}
	if notReady == 0 || refusals == 0 {
		t.Errorf("the replay was never seen: %d times not ready, %d writes refused", notReady, refusals)
	}
	if !strings.Contains(strings.ToLower(reason), "repla") {
		t.Errorf("the reason is %q", reason)
	}
	s.waitReady(t)
	s.store(t, m, v2, series("afterwards").at(n, 1))
	s.readBack(t, m)
}

// A read that a stop cuts off is seen to be cut off: what decodes is complete.
func TestReadsAcrossStops(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - 10*hour
	rnd := seeded(t, 60)
	var es []entry
	for i := range 300 {
		e := series("cut", "i", fmt.Sprintf("%03d", i))
		for k := range int64(scaled(600, 3)) {
			e.samples = append(e.samples, sample{t: n + k*second, v: rnd.NormFloat64()})
		}
		if es = append(es, e); len(es) == 50 {
			s.store(t, m, v1, es...)
			es = nil
		}
	}
	want := m.all()
	for round := range rounds(4, 30) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var whole, failed atomic.Int64
		for r := range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					got, err := s.tryRead(modes[r%2], query(math.MinInt64, math.MaxInt64, everything))
					if err != nil {
						failed.Add(1)
						time.Sleep(time.Millisecond)
						continue
					}
					if d := diff(got[0], want); d != "" {
						t.Errorf("a read that looked whole, %v:\n%s", modes[r%2], d)
					}
					whole.Add(1)
				}
			})
		}
		time.Sleep(time.Duration(50+round*31%90) * time.Millisecond)
		if round%2 == 0 {
			s.kill9(t)
		} else {
			s.term(t)
		}
		close(stop)
		wg.Wait()
		t.Logf("%d whole, %d failed", whole.Load(), failed.Load())
		s.up(t)
	}
	s.holds(t, m, "at the end")
}
