package head_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"go.uber.org/goleak"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(string, ...any)
}

const nowMs = 1_700_000_000_000

// staleNaN is the stale marker.
var staleNaN = math.Float64frombits(value.StaleNaN)

// fakeClock is a clock that a test moves.
type fakeClock struct{ ms atomic.Int64 }

func newClock() *fakeClock {
	c := &fakeClock{}
	c.ms.Store(nowMs)
	return c
}

func (c *fakeClock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// sample is one sample of a numbered series.
type sample struct {
	series int
	t, st  int64
	v      float64
	h      *histogram.Histogram
	fh     *histogram.FloatHistogram
}

func float(series int, t int64, v float64) sample { return sample{series: series, t: t, v: v} }

// ints returns an integer histogram of n observations, floats a float histogram;
// a negative n makes a stale marker.
func ints(series int, t int64, n int) sample {
	h := &histogram.Histogram{Sum: staleNaN}
	if n >= 0 {
		h = &histogram.Histogram{
			Count: uint64(n), Sum: float64(n), PositiveSpans: []histogram.Span{{Offset: 1, Length: 1}}, PositiveBuckets: []int64{int64(n)},
		}
	}
	return sample{series: series, t: t, h: h}
}

func floats(series int, t int64, n int) sample {
	h := &histogram.FloatHistogram{Sum: staleNaN}
	if n >= 0 {
		h = &histogram.FloatHistogram{
			Count: float64(n), Sum: float64(n), PositiveSpans: []histogram.Span{{Offset: 1, Length: 1}}, PositiveBuckets: []float64{float64(n)},
		}
	}
	return sample{series: series, t: t, fh: h}
}

func (s sample) stale() bool {
	switch {
	case s.h != nil:
		return value.IsStaleNaN(s.h.Sum)
	case s.fh != nil:
		return value.IsStaleNaN(s.fh.Sum)
	}
	return value.IsStaleNaN(s.v)
}

// String writes all that must survive.
func (s sample) String() string {
	switch {
	case s.h != nil:
		return fmt.Sprintf("%d@%d st %d h %d %x %v", s.series, s.t, s.st, s.h.Count, math.Float64bits(s.h.Sum), s.h.Copy().Compact(0).PositiveBuckets)
	case s.fh != nil:
		return fmt.Sprintf("%d@%d st %d fh %g %x %v", s.series, s.t, s.st, s.fh.Count, math.Float64bits(s.fh.Sum), s.fh.Copy().Compact(0).PositiveBuckets)
	}
	return fmt.Sprintf("%d@%d st %d v %x", s.series, s.t, s.st, math.Float64bits(s.v))
}

// oracle is the rule for equal timestamps, kept naively: by series and
// timestamp the last number if there is one, else the last stale marker.
type oracle map[int]map[int64]sample

func (m oracle) add(list ...sample) {
	for _, s := range list {
		if m[s.series] == nil {
			m[s.series] = map[int64]sample{}
		}
		if have, ok := m[s.series][s.t]; !ok || !s.stale() || have.stale() {
			m[s.series][s.t] = s
		}
	}
}

// addBatch adds what one request holds: of one series and timestamp the histograms come last.
func (m oracle) addBatch(list []sample) {
	for _, hists := range []bool{false, true} {
		for _, s := range list {
			if hists == (s.h != nil || s.fh != nil) {
				m.add(s)
			}
		}
	}
}

func (m oracle) clone() oracle {
	out := oracle{}
	for i, s := range m {
		out[i] = maps.Clone(s)
	}
	return out
}

// lines returns what a read of [mint, maxt] must say.
func (m oracle) lines(mint, maxt int64) []string {
	var out []string
	for _, i := range slices.Sorted(maps.Keys(m)) {
		for _, t := range slices.Sorted(maps.Keys(m[i])) {
			if t >= mint && t <= maxt {
				out = append(out, m[i][t].String())
			}
		}
	}
	return out
}

// process is a head on a log, as one run of the program has it.
type process struct {
	log  *wal.Log
	head *head.Head
}

// options are those of tests: a clock that stands still, everything accepted.
func options() head.Options {
	return head.Options{Exemplars: 100, Accept: head.Accept{Window: -1, MaxFuture: 10 * time.Minute, Now: newClock().now}}
}

// nearOptions accept what is far in the future: so nothing is long over, and
// goes to near containers.
func nearOptions() head.Options {
	o := options()
	o.Accept.MaxFuture = 100_000 * time.Hour
	return o
}

// start opens the log in /wal of fs and replays it.
func start(fs vfs.FS, o head.Options, w wal.Options) (*process, error) {
	return startWith(fs, o, w, nil, nil)
}

// startRemembering starts with a delete that the log does not have.
func startRemembering(fs vfs.FS, o head.Options, d head.Delete, lsn int) (*process, error) {
	d.LSN = wal.LSN(lsn)
	return startWith(fs, o, wal.Options{SegmentBytes: 1 << 12}, []head.Delete{d}, nil)
}

func startWith(fs vfs.FS, o head.Options, w wal.Options, remembered []head.Delete, covered coverage) (*process, error) {
	w.FS, w.Dir = fs, "/wal"
	log, err := wal.Open(w)
	if err != nil {
		return nil, err
	}
	o.Log = log
	h, err := head.New(o)
	if err != nil {
		return nil, err
	}
	h.Remember(remembered)
	if err := h.Replay(context.Background(), covered); err != nil {
		h.Close()
		_ = log.Close()
		return nil, err
	}
	return &process{log, h}, nil
}

func mustStart(t tester, fs vfs.FS, o head.Options) *process {
	t.Helper()
	return mustStartCovered(t, fs, o, nil)
}

// coverage says what blocks hold, as Replay asks for it.
type coverage = func(t int64, lsn wal.LSN) (from wal.LSN, ok bool)

// mustStartCovered is mustStart beside blocks that hold something.
func mustStartCovered(t tester, fs vfs.FS, o head.Options, covered coverage) *process {
	t.Helper()
	p, err := startWith(fs, o, wal.Options{SegmentBytes: 1 << 12}, nil, covered)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return p
}

// run starts a head on a fresh disk; it ends with the test.
func run(t *testing.T, o head.Options) *process {
	t.Helper()
	p := mustStart(t, memfs.New(1), o)
	t.Cleanup(func() { p.stop() })
	return p
}

// stop ends the process; the error is of the log.
func (p *process) stop() error {
	p.head.Close()
	return p.log.Close()
}

func key(i int) head.Key { return head.Key{Hi: 7, Lo: uint64(i)} }

// series finds or creates the series {__name__="m", i="<i>"}.
func (p *process) series(i int) *head.Series {
	if s, _ := p.head.Lookup(key(i)); s != nil {
		return s
	}
	s, _, err := p.head.Resolve(key(i), []head.Label{
		{Name: []byte("i"), Value: fmt.Append(nil, i)},
		{Name: []byte(labels.MetricName), Value: []byte("m")},
	})
	if err != nil {
		panic(err)
	}
	return s
}

// batch makes one of the samples.
func (p *process) batch(list ...sample) *head.Batch {
	b := p.head.NewBatch()
	for _, s := range list {
		if s.h != nil || s.fh != nil {
			b.Histogram(p.series(s.series), s.t, s.st, s.h, s.fh)
		} else {
			b.Float(p.series(s.series), s.t, s.st, s.v)
		}
	}
	return b
}

// write commits the samples as one batch.
func (p *process) write(list ...sample) (head.Result, error) {
	b := p.batch(list...)
	defer b.Release()
	return p.head.Commit(context.Background(), b)
}

// stored writes samples of which all must be counted as written.
func (p *process) stored(t tester, list ...sample) {
	t.Helper()
	res, err := p.write(list...)
	if err != nil || res.Samples+res.Histograms != len(list) || res.Refused.Any() {
		t.Fatalf("write %v: %+v, %v, refused: %s", list, res, err, res.Refused.Error())
	}
}

// lines reads all series in [mint, maxt], in the form of oracle.lines.
func (p *process) lines(t tester, mint, maxt int64) []string {
	t.Helper()
	v := p.head.View()
	found, err := v.Select(context.Background(), mint, maxt, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
	if err != nil {
		t.Fatalf("select: %v", err)
	}
	number := func(s *head.Series) (i int) {
		fmt.Sscan(s.Labels().Get("i"), &i)
		return i
	}
	slices.SortFunc(found, func(a, b *head.Series) int { return number(a) - number(b) })
	var out []string
	r := v.NewReader()
	for _, s := range found {
		first, last := true, int64(0)
		err := r.Read(s, mint, maxt, func(run *chunkenc.Samples) error {
			for k, ts := range run.T {
				if !first && ts <= last {
					t.Fatalf("series %d: timestamp %d after %d", number(s), ts, last)
				}
				first, last = false, ts
				out = append(out, sampleOf(number(s), run, k).String())
			}
			return nil
		})
		if err != nil {
			t.Fatalf("read: %v", err)
		}
	}
	return out
}

// sampleOf returns sample k of a run.
func sampleOf(series int, run *chunkenc.Samples, k int) sample {
	s := sample{series: series, t: run.T[k]}
	if len(run.ST) > 0 {
		s.st = run.ST[k]
	}
	switch run.Kind {
	case chunkenc.KindFloat:
		s.v = run.V[k]
	case chunkenc.KindHistogram:
		s.h = run.H[k]
	case chunkenc.KindFloatHistogram:
		s.fh = run.FH[k]
	}
	return s
}

// holds fails unless the head holds just what the model says.
func (p *process) holds(t tester, m oracle) {
	t.Helper()
	p.holdsIn(t, m, math.MinInt64, math.MaxInt64)
}

func (p *process) holdsIn(t tester, m oracle, mint, maxt int64) {
	t.Helper()
	got, want := p.lines(t, mint, maxt), m.lines(mint, maxt)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("read [%d, %d]: %d samples, want %d; from %d on\n got %q\nwant %q", mint, maxt, len(got), len(want), i,
				got[min(i, len(got)):min(i+3, len(got))], want[min(i, len(want)):min(i+3, len(want))])
		}
	}
}

// readOne returns the value of a series that has one float.
func readOne(t tester, v *head.View, s *head.Series) float64 {
	t.Helper()
	var out []float64
	err := v.NewReader().Read(s, math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
		out = append(out, run.V...)
		return nil
	})
	if err != nil || len(out) != 1 {
		t.Fatalf("%v has %v, %v", s.Labels(), out, err)
	}
	return out[0]
}
