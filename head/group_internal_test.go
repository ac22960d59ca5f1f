package head

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

// groupHead returns a head without its goroutine, so that a test decides which
// batches make a group.
func groupHead(t testing.TB, o Options) (*Head, *committer) {
	t.Helper()
	log, err := wal.Open(wal.Options{FS: memfs.New(1), Dir: "/wal"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Replay(nil, func(wal.Frame) error { return nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	o.Log = log
	if o.Accept.Now == nil {
		o.Accept.Now = func() time.Time { return time.UnixMilli(testNow) }
	}
	return testHead(t, o)
}

const testNow = 1_700_000_000_000

// commitGroup carries batches through that were taken from the queue at once.
func (c *committer) commitGroup(batches ...*Batch) {
	c.batches = append(c.batches[:0], batches...)
	c.commit()
	for _, b := range batches {
		<-b.done
	}
}

func floatBatch(h *Head, s *Series, t int64, v float64) *Batch {
	b := h.NewBatch()
	b.Float(s, t, 0, v)
	return b
}

// TestDuplicateInGroup has the same sample in two batches of one group, under a
// window of 0: the second is a duplicate, as it would be in the next group.
func TestDuplicateInGroup(t *testing.T) {
	h, c := groupHead(t, Options{Accept: Accept{Window: 0}})
	s := testSeries(h, "m")
	first, again, other := floatBatch(h, s, 1000, 1), floatBatch(h, s, 1000, 1), floatBatch(h, s, 1000, 2)
	c.commitGroup(first, again, other)
	for i, b := range []*Batch{first, again, other} {
		if want := [...]int{1, 1, 0}[i]; b.err != nil || b.result.Samples != want {
			t.Errorf("batch %d: %d written, want %d; %v, %s", i, b.result.Samples, want, b.err, b.result.Refused.Error())
		}
	}
}

// TestSuspectBatchLeavesNoTrace has a batch refused for now, whole: what it
// would have stored does not make a sample of the same group late.
func TestSuspectBatchLeavesNoTrace(t *testing.T) {
	h, c := groupHead(t, Options{Accept: Accept{Window: 0}})
	h.clock.mono = func() time.Duration { return time.Hour }
	s := testSeries(h, "m")
	bad, good := floatBatch(h, s, 1000, 1), floatBatch(h, s, 999, 1)
	bad.Float(s, testNow+1, 0, 1)
	c.commitGroup(bad, good)
	if bad.err != ErrClockSuspect || good.err != nil || good.result.Samples != 1 {
		t.Errorf("got %v; %v, %+v", bad.err, good.err, good.result)
	}
}

// counted returns the value of a metric of the head, or of all with its name.
func counted(t testing.TB, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// TestReplayIsNotAcceptance restarts: what is read from the log is not counted as accepted again.
func TestReplayIsNotAcceptance(t *testing.T) {
	fs := memfs.New(1)
	for _, first := range []bool{true, false} {
		log, err := wal.Open(wal.Options{FS: fs, Dir: "/wal"})
		if err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		h, _ := testHead(t, Options{Log: log, Metrics: metrics.NewHead(reg), Accept: Accept{
			Window: -1, Now: func() time.Time { return time.UnixMilli(1000) },
		}})
		if err := h.Replay(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{
			"rwsink_head_series": 1, "rwsink_head_containers": 1, "rwsink_head_chunks": 2, "rwsink_head_samples_accepted_total": 0,
			"rwsink_head_sample_disorder_seconds": 0, "rwsink_head_samples_duplicate_total": 0, "rwsink_head_groups_total": 0,
		}
		if first {
			s := testSeries(h, "m")
			for i := range int64(1000) {
				b := floatBatch(h, s, i, 1)
				b.Float(s, i, 0, 1)
				if _, err := h.Commit(context.Background(), b); err != nil {
					t.Fatal(err)
				}
			}
			want["rwsink_head_samples_accepted_total"], want["rwsink_head_sample_disorder_seconds"] = 2000, 2000
			want["rwsink_head_samples_duplicate_total"], want["rwsink_head_groups_total"] = 1000, 1000
		}
		h.Close()
		for name, n := range want {
			if got := counted(t, reg, name); got != n {
				t.Errorf("first start %v: %s is %g, want %g", first, name, got, n)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRequestOverAFrame has a batch in a group that no frame can hold: it alone
// is refused, for good, and the series that it would have named are named by the next.
func TestRequestOverAFrame(t *testing.T) {
	h, c := groupHead(t, Options{Accept: Accept{Window: -1}})
	c.maxPayload = 100
	m, n := testSeries(h, "m"), testSeries(h, "nn")
	big := h.NewBatch()
	for i := range int64(50) {
		big.Float(n, i, 0, math.Pi)
	}
	big.Histogram(n, 1, 0, &histogram.Histogram{}, nil)
	big.Exemplar(n, 1, 1, labels.EmptyLabels())
	big.Metadata("f", "counter", "", "")
	good, later := floatBatch(h, m, 1, 1), floatBatch(h, n, 1, 1)
	c.commitGroup(big, good, later)
	if good.err != nil || later.err != nil || good.result.Samples != 1 || later.result.Samples != 1 {
		t.Errorf("beside it: %v, %+v; %v, %+v", good.err, good.result, later.err, later.result)
	}
	r := &big.result
	if big.err != nil || r.Samples+r.Histograms+r.Exemplars != 0 || r.Refused.Len(ItemSample) != 50 ||
		r.Refused.Len(ItemHistogram) != 1 || r.Refused.Len(ItemExemplar) != 1 || r.Refused.Len(ItemMetadata) != 1 {
		t.Errorf("got %v, %+v", big.err, big.result)
	}
	if n.loggedIn == 0 || len(h.Metadata()) != 0 {
		t.Errorf("logged in %d, metadata %v", n.loggedIn, h.Metadata())
	}
	if got := readAll(t, h, n, 0, 100); len(got) != 1 {
		t.Errorf("read %v", got)
	}
}
