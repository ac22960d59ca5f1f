package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
)

// event is a series and a timestamp.
type event struct{ series, t int64 }

// wanted is what must be readable: "st bits", or "st h n" of a histogram.
type wanted map[event]string

// put applies the rule for equal timestamps: the last number, or else the last stale marker.
func (m wanted) put(e event, s string) {
	if old, ok := m[e]; ok && strings.HasSuffix(s, staleSuffix) && !strings.HasSuffix(old, staleSuffix) {
		return
	}
	m[e] = s
}

var staleSuffix = fmt.Sprintf(" %x", value.StaleNaN)

func (m wanted) lines() []string {
	out := make([]string, 0, len(m))
	for e, s := range m {
		out = append(out, fmt.Sprintf("%d %d %s", e.series, e.t, s))
	}
	slices.Sort(out)
	return out
}

// runLines appends what a run of series i holds.
func runLines(out []string, i string, run *chunkenc.Samples) []string {
	for k, t := range run.T {
		st := int64(0)
		if len(run.ST) > 0 {
			st = run.ST[k]
		}
		var s string
		switch run.Kind {
		case chunkenc.KindFloat:
			s = float(st, run.V[k])
		case chunkenc.KindHistogram:
			s = fmt.Sprintf("%d h %d %v", st, run.H[k].Count, run.H[k].PositiveBuckets)
		case chunkenc.KindFloatHistogram:
			s = fmt.Sprintf("%d fh %g %v", st, run.FH[k].Count, run.FH[k].PositiveBuckets)
		}
		out = append(out, fmt.Sprintf("%s %d %s", i, t, s))
	}
	return out
}

func float(st int64, v float64) string { return fmt.Sprintf("%d %x", st, math.Float64bits(v)) }

func testHistogram(n int) *histogram.Histogram {
	return &histogram.Histogram{
		Count: uint64(n), Sum: float64(n), ZeroThreshold: 0.001,
		PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{int64(n)},
	}
}

// TestAnyAgeAnyOrder writes samples of any age and kind in random order; between
// that it deletes, cleans, flushes, merges, restarts, kills, cuts the power and the log, makes
// snapshots and lets retention remove blocks, while views are open, and reads what
// was acknowledged and not deleted since.
func TestAnyAgeAnyOrder(t *testing.T) {
	parent := fixture.QuickDir(t)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		w := &world{t: t, parent: filepath.Join(parent, fmt.Sprint(n)), now: 10_000, keepFrom: math.MinInt64, want: wanted{}, exemplars: map[int64]int64{}}
		defer os.RemoveAll(w.parent)
		w.dir = w.newDir()
		if rapid.Bool().Draw(t, "retention") {
			w.retention = 12_000
		}
		w.open()
		defer func() { _ = w.s.Close() }() // where a check has ended the run
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w.step()
		}
		w.closeViews()
		w.check()
		w.close()
		w.open()
		w.check()
	})
}

type world struct {
	t         *rapid.T
	parent    string
	dir       string
	dirs      int
	now       int64
	retention int64 // ms, 0 keeps everything
	keepFrom  int64 // what retention by size has removed lies below
	fs        *stepFS
	s         *store.Store
	want      wanted
	help      string
	views     []openView
	exemplars map[int64]int64 // the newest of each series
}

// openView is a view, what it was opened on, and what was written since.
type openView struct {
	*store.View
	want wanted
	late map[event]bool
}

func (w *world) newDir() string {
	w.dirs++
	return filepath.Join(w.parent, fmt.Sprint(w.dirs))
}

func (w *world) open() {
	t := w.t
	w.fs = &stepFS{graves: w.newDir()}
	if err := os.MkdirAll(w.fs.graves, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(store.Options{Path: w.dir, FS: w.fs, Segment: 2000, Head: head.Options{
		BlockDuration: rapid.SampledFrom([]time.Duration{time.Second, time.Second, time.Second, 700 * time.Millisecond, 3 * time.Second}).Draw(t, "duration"),
		ChunkSamples:  rapid.SampledFrom([]int{8, 3, 30}).Draw(t, "chunk"),
		Encoding:      rapid.SampledFrom([]chunkenc.Encoding{chunkenc.EncDelta, chunkenc.EncRaw}).Draw(t, "encoding"),
		Exemplars:     1000,
		Accept: head.Accept{
			Window: -1, Retention: time.Duration(w.retention) * time.Millisecond, MaxFuture: time.Minute,
			Now: func() time.Time { return time.UnixMilli(w.now) }, TrustClock: true,
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ReplayOnly(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.s = s
}

func (w *world) close() {
	if err := w.s.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) step() {
	t, ctx := w.t, context.Background()
	var err error
	switch rapid.IntRange(0, 22).Draw(t, "what") {
	case 0:
		w.closeViews()
		w.close()
		w.open()
	case 1: // what a kill or a power cut leaves is opened elsewhere
		w.closeViews()
		dir := w.newDir()
		w.fs.copyTo(t, w.dir, dir, cut(rapid.IntRange(0, int(numCuts)-1).Draw(t, "cut")))
		w.close()
		w.dir = dir
		w.open()
	case 2:
		err = w.s.Flush(ctx)
	case 3:
		at := rapid.Int64Range(0, 20).Draw(t, "flush") * 1000
		err = w.s.FlushSome(ctx, func(c head.ContainerInfo) bool { return c.Lo <= at && at <= c.Hi })
	case 4:
		w.now += rapid.Int64Range(0, 3000).Draw(t, "pass")
	case 5:
		w.check()
	case 6:
		err = w.s.CutLog(ctx)
	case 7:
		err = w.s.CompactSome(ctx, rapid.Bool().Draw(t, "all"))
	case 8:
		w.retain()
	case 9:
		w.views = append(w.views, openView{w.s.View(), maps.Clone(w.want), map[event]bool{}})
	case 10:
		w.closeViews()
	case 11, 12:
		w.delete()
	case 13:
		err = w.s.CleanTombstones(ctx)
	case 14:
		w.snapshot()
	case 15: // what is in blocks alone leaves the head
		err = errors.Join(w.s.Head().Collect(ctx), w.s.Head().Collect(ctx))
	default:
		w.write()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// floor returns from where on samples are taken.
func (w *world) floor() int64 {
	if w.retention == 0 {
		return w.keepFrom
	}
	return max(w.keepFrom, w.now-w.retention)
}

func (w *world) write() {
	t, h := w.t, w.s.Head()
	b := h.NewBatch()
	defer b.Release()
	// Floats come before histograms.
	n, taken := rapid.IntRange(1, 30).Draw(t, "samples"), 0
	hists := rapid.IntRange(0, 3).Draw(t, "histograms") * rapid.IntRange(0, 1).Draw(t, "some")
	for k := range n {
		e := event{rapid.Int64Range(0, 3).Draw(t, "series"), 10 * rapid.Int64Range(0, 2000).Draw(t, "t")}
		v := rapid.IntRange(0, 6).Draw(t, "v")
		st := rapid.Int64Range(0, 1).Draw(t, "st") * rapid.Int64Range(0, 1).Draw(t, "st") * 77
		s, line := resolve(t, h, int(e.series)), ""
		switch {
		case k >= n-hists && v < 4:
			b.Histogram(s, e.t, st, testHistogram(v), nil)
			line = fmt.Sprintf("%d h %d [%d]", st, v, v)
		case k >= n-hists:
			b.Histogram(s, e.t, st, nil, testHistogram(v).ToFloat(nil))
			line = fmt.Sprintf("%d fh %d [%d]", st, v, v)
		case v == 6:
			b.Float(s, e.t, st, math.Float64frombits(value.StaleNaN))
			line = float(st, math.Float64frombits(value.StaleNaN))
		default:
			b.Float(s, e.t, st, float64(v))
			line = float(st, float64(v))
		}
		if e.t < w.floor() {
			continue
		}
		taken++
		w.want.put(e, line)
		for _, v := range w.views {
			v.late[e] = true
		}
	}
	if rapid.Bool().Draw(t, "exemplar") {
		i := rapid.Int64Range(0, 3).Draw(t, "series")
		w.exemplars[i] += 10
		b.Exemplar(resolve(t, h, int(i)), w.exemplars[i], 1, labels.FromStrings("trace", "a"))
	}
	w.help = fmt.Sprint(n)
	b.Metadata("m", model.MetricTypeGauge, "", w.help)
	res, err := h.Commit(context.Background(), b)
	if err != nil || res.Samples+res.Histograms != taken {
		t.Fatalf("commit: %+v, %v; %d are to be taken", res, err, taken)
	}
}

// delete removes a range of some series.
func (w *world) delete() {
	t := w.t
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	if rapid.IntRange(0, 3).Draw(t, "range") > 0 {
		lo = 10 * rapid.Int64Range(0, 2000).Draw(t, "from")
		hi = lo + 10*rapid.Int64Range(0, 500).Draw(t, "length")
	}
	ms := labels.MustNewMatcher(labels.MatchRegexp, "i", rapid.SampledFrom([]string{"0", "1|2", "3", ".*"}).Draw(t, "which"))
	if err := w.s.Delete(context.Background(), lo, hi, []*labels.Matcher{ms}); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(w.want, func(e event, _ string) bool {
		if e.t < lo || e.t > hi || !ms.Matches(fmt.Sprint(e.series)) {
			return false
		}
		for _, v := range w.views { // which may show it or not
			v.late[e] = true
		}
		return true
	})
	for _, v := range w.views {
		for e := range v.want {
			if e.t >= lo && e.t <= hi && ms.Matches(fmt.Sprint(e.series)) {
				v.late[e] = true
			}
		}
	}
}

// snapshot makes a snapshot and opens what it is restored to.
func (w *world) snapshot() {
	t, skip := w.t, rapid.Bool().Draw(w.t, "skip head")
	name, err := w.s.Snapshot(context.Background(), skip)
	if err != nil {
		t.Fatal(err)
	}
	from, to := filepath.Join(w.dir, "snapshots", name), w.newDir()
	copyDir(t, from, to)
	checked, err := store.Check(context.Background(), to, store.CheckOptions{
		Fault: func(err error) { t.Errorf("the snapshot: %v", err) }, Note: func(string) {},
	})
	if err != nil || checked.Faults > 0 {
		t.Fatalf("check of the snapshot: %v, %v", checked, err)
	}
	restored := world{t: t, parent: w.parent, dirs: 1000 + w.dirs, dir: to, now: w.now, retention: w.retention, want: w.want}
	restored.open()
	v := restored.s.View()
	if got, want := w.read(v), w.want.lines(); !skip && !slices.Equal(got, want) {
		t.Fatalf("%d samples read of a snapshot, %d acknowledged:\n got %v\nwant %v", len(got), len(want), got, want)
	}
	v.Close()
	restored.close()
	for _, dir := range []string{from, to} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// retain flushes and merges everything, so that no two blocks overlap, and lets
// retention remove what it does: of that nothing may be read any more.
func (w *world) retain() {
	t := w.t
	if err := w.s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := w.s.BlockRanges()
	size := rapid.Bool().Draw(t, "by size")
	if size {
		w.s.SetMaxSize(w.s.Total() * rapid.Int64Range(50, 100).Draw(t, "percent") / 100)
	}
	if err := w.s.Retain(); err != nil {
		t.Fatal(err)
	}
	w.s.SetMaxSize(0)
	after := w.s.BlockRanges()
	bound := min(w.now, newest(before)) - w.retention
	for name, r := range before {
		_, stays := after[name]
		old := w.retention > 0 && r[1] < bound
		if stays && old || !stays && !old && !size {
			t.Fatalf("block [%d, %d]: stays %v, retention begins at %d", r[0], r[1], stays, bound)
		}
		if stays {
			continue
		}
		if !old {
			w.keepFrom = max(w.keepFrom, r[1]+1)
		}
		maps.DeleteFunc(w.want, func(e event, _ string) bool { return r[0] <= e.t && e.t <= r[1] })
	}
	if len(before) > 0 && size && len(after) == 0 && w.retention == 0 {
		t.Fatal("retention by size removed the last block")
	}
	w.check()
}

func newest(ranges map[string][2]int64) int64 {
	t := int64(math.MinInt64)
	for _, r := range ranges {
		t = max(t, r[1])
	}
	return t
}

func (w *world) check() {
	v := w.s.View()
	defer v.Close()
	got := w.read(v)
	if want := w.want.lines(); !slices.Equal(got, want) {
		w.t.Fatalf("%d samples read, %d acknowledged:\n got %v\nwant %v", len(got), len(want), got, want)
	}
	if w.help != "" && w.s.Head().Metadata()["m"].Help != w.help {
		w.t.Fatalf("metadata %+v, want %s", w.s.Head().Metadata(), w.help)
	}
	w.checkExemplars()
}

// checkExemplars offers one that is older than the newest of each series: who
// still has that does not take it.
func (w *world) checkExemplars() {
	for i, newest := range w.exemplars {
		b := w.s.Head().NewBatch()
		b.Exemplar(resolve(w.t, w.s.Head(), int(i)), newest-1, 1, labels.FromStrings("trace", "older"))
		res, err := w.s.Head().Commit(context.Background(), b)
		b.Release()
		if err != nil || res.Exemplars != 0 {
			w.t.Fatalf("the exemplar of series %d at %d is lost: %+v, %v", i, newest, res, err)
		}
	}
}

// closeViews reads the open views: what was not written over since must be in them, unchanged.
func (w *world) closeViews() {
	for _, v := range w.views {
		late := func(line string) bool {
			var e event
			if _, err := fmt.Sscan(line, &e.series, &e.t); err != nil {
				w.t.Fatal(err)
			}
			return v.late[e]
		}
		got := slices.DeleteFunc(w.read(v.View), late)
		if want := slices.DeleteFunc(v.want.lines(), late); !slices.Equal(got, want) {
			w.t.Fatalf("%d samples read in an old view, %d were there:\n got %v\nwant %v", len(got), len(want), got, want)
		}
		v.Close()
	}
	w.views = nil
}

func (w *world) read(v *store.View) (out []string) {
	series, err := v.Select(context.Background(), math.MinInt64, math.MaxInt64,
		labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
	if err != nil {
		w.t.Fatal(err)
	}
	r := v.NewReader()
	for i := range series {
		err := r.Read(&series[i], math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
			out = runLines(out, series[i].Labels.Get("i"), run)
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	slices.Sort(out)
	return out
}
