package acceptance

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// Under every policy of syncing and every encoding what was acknowledged outlives
// the program; only the machine's own end is a matter of the policy.
func TestEveryPolicyOutlivesTheProgram(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{
		{"--storage.wal-sync=interval"}, {"--storage.wal-sync=never"}, {"--storage.wal-sync=always", "--storage.chunk-encoding=raw"},
		{"--storage.wal-sync=interval", "--storage.chunk-samples=5", "--storage.block-duration=1m"}, {"--storage.exemplars=0", "--storage.chunk-samples=1"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			s, m := start(t, flags...), newModel()
			n := nowMs() - 3*hour
			rnd := seeded(t, 40)
			for i := range 100 {
				var es []entry
				for k := range 5 {
					e := series("policy", "k", fmt.Sprint(k))
					for range 20 {
						e = e.at(n+rnd.Int64N(2*hour), float64(i))
					}
					es = append(es, e.hist(n+rnd.Int64N(2*hour), randomHistogram(rnd)))
				}
				s.store(t, m, version(1+i%2), es...)
				if i == 60 {
					s.crash(t)
				}
			}
			s.crash(t)
			s.readBack(t, m)
		})
	}
}

// With the store of exemplars off, samples and histograms beside them are written
// and no exemplar is claimed.
func TestExemplarsOff(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--storage.exemplars=0"), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		e := series("off", "v", v.String()).at(n, 1).hist(n+1, intHistogram(1)).exemplar(n, 1, "trace_id", "x")
		s.survives(t, m, packed(v, encode(v, e))).wrote(t, v, 1, 1, 0)
		m.write(e)
	})
	s.readBack(t, m)
}

// A clock that is behind what is stored refuses nothing for good: what fails by time
// alone is told to come later, the rest is taken, and the program says why.
func TestClockBehindWhatIsStored(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--limits.max-future=2h"), newModel()
	n := nowMs()
	s.store(t, m, v1, series("clock").at(n, 1), series("clock").at(n+hour, 2))
	s.term(t)
	s.flags = []string{"--limits.max-future=10m"}
	s.up(t)
	if _, body, err := s.get("/-/ready"); err != nil || !strings.Contains(body, "clock") {
		t.Errorf("ready says %q, %v", body, err)
	}
	both(t, func(t *testing.T, v version) {
		at := n + int64(v)
		s.store(t, m, v, series("clock").at(at, 3), series("other").at(at, 3))
		for _, bad := range []int64{n + 30*minute, n + day, n - 20*day} {
			a := s.post(t, v, series("clock").at(at+100, 4), series("clock").at(bad, 5))
			a.is(t, http.StatusServiceUnavailable)
			a.names(t, "clock")
		}
		a := s.post(t, v, series("clock").at(at+200, 6), series("twice", "a", "1", "a", "2").at(n, 1))
		a.is(t, http.StatusBadRequest).wrote(t, v, 1, 0, 0)
		m.write(series("clock").at(at+200, 6))
	})
	s.holds(t, m, "while the clock is suspect")
	s.term(t)
	s.flags = append(s.flags, "--storage.trust-clock")
	s.up(t)
	s.post(t, v2, series("clock").at(n+30*minute, 5)).is(t, http.StatusBadRequest)
	s.store(t, m, v2, series("clock").at(n+5*minute, 7))
	s.readBack(t, m)
}

// The limit of samples is told before anything is sent, and a stream has none.
func TestSampleLimitOfReads(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--read.sample-limit=100"), newModel()
	n := nowMs() - hour
	e := series("limited")
	for i := range int64(101) {
		e = e.at(n+i, float64(i))
	}
	s.store(t, m, v1, e)
	resp, body, err := s.fetch([]mode{samplesMode}, query(n, n+100, everything))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "100") {
		t.Errorf("over the limit: status %d, %q", resp.StatusCode, body)
	}
	if got := s.read(t, samplesMode, query(n, n+99, everything))[0]; len(got) != 1 || len(got[0].points) != 100 {
		t.Errorf("at the limit: %v", got)
	}
	// The limit is a query's.
	if got := s.read(t, samplesMode, query(n, n+99, everything), query(n+1, n+100, everything)); len(got[0][0].points)+len(got[1][0].points) != 200 {
		t.Errorf("two queries at the limit: %v", got)
	}
	if d := diff(s.readAll(t, streamedMode), m.all()); d != "" {
		t.Errorf("a stream:\n%s", d)
	}
}

// Reads beyond the limit of concurrent ones wait for their turn, or are told at once
// to come later when too many wait; none is answered with less than all.
func TestConcurrentReadsWaitTheirTurn(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--read.concurrent-limit=1"), newModel()
	n := nowMs() - hour
	for i := range 50 {
		e := series("turn", "i", fmt.Sprint(i))
		for k := range int64(100) {
			e = e.at(n+k*second, float64(k))
		}
		s.store(t, m, v1, e)
	}
	want := m.all()
	var wg sync.WaitGroup
	var whole, later atomic.Int64
	for r := range 16 {
		wg.Go(func() {
			for range 3 {
				got, err := s.tryRead(modes[r%2], query(math.MinInt64, math.MaxInt64, everything))
				if err != nil {
					if later.Add(1); !strings.Contains(err.Error(), "status 503") {
						t.Error(err)
					}
					continue
				}
				whole.Add(1)
				if d := diff(got[0], want); d != "" {
					t.Errorf("%v:\n%s", modes[r%2], d)
				}
			}
		})
	}
	wg.Wait()
	if t.Logf("%d whole, %d told to come later", whole.Load(), later.Load()); whole.Load() < 5 {
		t.Error("hardly a read was served")
	}
	s.holds(t, m, "afterwards")
}

// A series too large for a frame is answered as samples where the reader takes
// them, and otherwise cut into frames that follow one another.
func TestSeriesTooLargeForAFrame(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	s, m := start(t, fmt.Sprintf("--read.max-frame-bytes=%d", limit)), newModel()
	n := nowMs() - 2*day
	rnd := seeded(t, 62)
	for _, name := range []string{"large", "small"} {
		e := series(name)
		count := map[string]int{"large": 40_000, "small": 100}[name]
		for i := range count {
			e.samples = append(e.samples, sample{t: n + int64(i)*second, v: rnd.NormFloat64()})
		}
		s.store(t, m, v1, e)
	}
	q := query(math.MinInt64, math.MaxInt64, everything)
	resp, body, err := s.fetch([]mode{streamedMode, samplesMode}, q)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeSamples(resp.Header, body, []*prompb.Query{q})
	if err != nil {
		t.Fatalf("a reader of both: %v", err)
	}
	if d := diff(got[0], m.all()); d != "" {
		t.Errorf("a reader of both:\n%s", d)
	}
	if _, body, err = s.fetch([]mode{streamedMode}, q); err != nil {
		t.Fatal(err)
	}
	var joined result
	frames := 0
	for len(body) > 0 {
		var frame *prompb.ChunkedReadResponse
		before := len(body)
		if frame, body, err = decodeFrame(body); err != nil {
			t.Fatal(err)
		}
		if frames++; before-len(body) > limit+10 {
			t.Errorf("a frame of %d bytes", before-len(body))
		}
		rs, err := decodeChunkedSeries(frame.ChunkedSeries[0], q)
		if err != nil {
			t.Fatal(err)
		}
		if k := len(joined) - 1; k >= 0 && labels.Equal(joined[k].labels, rs.labels) {
			joined[k].points = append(joined[k].points, rs.points...)
		} else {
			joined = append(joined, rs)
		}
	}
	if d := diff(joined, m.all()); d != "" || frames < 5 {
		t.Errorf("%d frames:\n%s", frames, d)
	}
}
