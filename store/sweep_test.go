package store_test

import (
	"context"
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
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
)

// plain is what must be readable: the last value of a series and timestamp.
type plain map[[2]int64]float64

func (m plain) lines() []string {
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, fmt.Sprintf("%d %d %x", k[0], k[1], bits(v)))
	}
	slices.Sort(out)
	return out
}

func (m plain) clone() plain { return maps.Clone(m) }

func sorted(lines []string) []string { slices.Sort(lines); return lines }

func bits(v float64) uint64 { return math.Float64bits(v) }

// sweep runs a store step by step: at each step it takes what a kill, and what
// a power cut, would leave, and opens it elsewhere.
type sweep struct {
	t       *testing.T
	fs      *stepFS
	dir     string
	now     int64
	o       store.Options
	s       *store.Store
	want    plain
	less    func(got []string) bool // what else may be read; nil is nothing
	damaged bool                    // a block is damaged
	blocks  int                     // how many there are in the end; 0 is any number
	state   bool                    // writeState was called
	steps   int
	opens   int
}

func newSweep(t *testing.T) *sweep {
	w := &sweep{t: t, dir: filepath.Join(fixture.QuickDir(t), "data"), now: 20_000, want: plain{}}
	w.fs = &stepFS{graves: filepath.Join(filepath.Dir(w.dir), "graves")}
	if err := os.Mkdir(w.fs.graves, 0o755); err != nil {
		t.Fatal(err)
	}
	w.o = store.Options{Path: w.dir, FS: w.fs, Segment: 600, Head: head.Options{
		BlockDuration: time.Second, ChunkSamples: 8, Exemplars: 10,
		Accept: head.Accept{Window: -1, MaxFuture: time.Minute, TrustClock: true, Now: func() time.Time { return time.UnixMilli(w.now) }},
	}}
	w.s = w.open(w.o)
	t.Cleanup(func() { closeStore(t, w.s) })
	return w
}

func (w *sweep) open(o store.Options) *store.Store {
	w.t.Helper()
	s, err := store.Open(o)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.ReplayOnly(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// write commits n samples of series i from time t on, a second of 10 samples each.
func (w *sweep) write(i int, t, n int64, v float64) {
	w.t.Helper()
	commit(w.t, w.s, i, t, n, v)
	for k := range n {
		w.want[[2]int64{int64(i), t + 100*k}] = v
	}
}

func commit(t testing.TB, s *store.Store, i int, from, n int64, v float64) {
	t.Helper()
	b := s.Head().NewBatch()
	defer b.Release()
	for k := range n {
		b.Float(resolve(t, s.Head(), i), from+100*k, 0, v)
	}
	if res, err := s.Head().Commit(context.Background(), b); err != nil || res.Samples != int(n) {
		t.Fatalf("commit: %+v, %v", res, err)
	}
}

// during calls f and crashes at every step of it, or with -short, as under the race detector,
// at every fifth.
func (w *sweep) during(what string, f func() error) {
	w.t.Helper()
	from := w.steps
	w.fs.step = func(op, name string) error {
		if !testing.Short() || w.steps%5 == 0 {
			w.crash(fmt.Sprintf("%s, step %d, before %s %s", what, w.steps-from, op, strings.TrimPrefix(name, w.dir)))
		}
		w.steps++
		return nil
	}
	err := f()
	w.fs.step = nil
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	w.crash(what + ", at its end")
	if w.steps == from {
		w.t.Fatalf("%s: no step was seen", what)
	}
}

// crash opens what each kind of crash leaves now.
func (w *sweep) crash(at string) {
	w.t.Helper()
	for c := range numCuts {
		if c > all && len(w.fs.pending) < 2 || c > none && len(w.fs.pending) == 0 {
			continue
		}
		dir := filepath.Join(filepath.Dir(w.dir), "copy")
		w.fs.copyTo(w.t, w.dir, dir, c)
		w.sound(fmt.Sprintf("%s (cut %d)", at, c), dir)
		w.reopen(fmt.Sprintf("%s (cut %d)", at, c), dir)
		w.checkSnapshots(at, dir)
		if err := os.RemoveAll(dir); err != nil {
			w.t.Fatal(err)
		}
	}
}

// checkSnapshots checks that the snapshots of a copy that was opened are whole.
func (w *sweep) checkSnapshots(at, dir string) {
	w.t.Helper()
	names, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil {
		return
	}
	for _, n := range names {
		path := filepath.Join(dir, "snapshots", n.Name())
		w.sound(at+": "+n.Name(), path)
		o := w.o
		o.FS, o.Path = nil, path
		s := w.open(o)
		w.check(at+": "+n.Name(), s)
		closeStore(w.t, s)
	}
}

// reopen opens a copy and checks what is in it. Now and then it also writes over
// a sample and opens once more: were a frame's number used again, replay would
// pass over what was written.
func (w *sweep) reopen(at, dir string) {
	w.t.Helper()
	o := w.o
	o.FS, o.Path = nil, dir
	s := w.open(o)
	if v := s.View(); w.damaged {
		// Found by the first who reads; the next start has it from the log.
		_, err := readView(v, math.MinInt64, math.MaxInt64)
		v.Close()
		if err != nil {
			if err := s.Round(context.Background()); err != nil {
				w.t.Errorf("%s: %v", at, err)
			}
			closeStore(w.t, s)
			s = w.open(o)
		}
	} else {
		v.Close()
	}
	w.check(at, s)
	w.checkState(at, s)
	w.tidy(at, s, dir)
	if n := len(s.BlockDirs()); w.blocks > 0 && n != w.blocks {
		w.t.Errorf("%s: %d blocks, want %d", at, n, w.blocks)
	}
	w.opens++
	if w.opens%4 != 0 {
		closeStore(w.t, s)
		return
	}
	const t, v = 12_300, 1234
	want := w.want.clone()
	want[[2]int64{0, t}] = v
	commit(w.t, s, 0, t, 1, v)
	closeStore(w.t, s)
	s = w.open(o)
	defer closeStore(w.t, s)
	if got := sorted(read(w.t, s)); w.less == nil && !slices.Equal(got, want.lines()) || !slices.Contains(got, fmt.Sprintf("0 %d %x", t, bits(v))) {
		w.t.Errorf("%s, then written to and opened again: got %v\nwant %v", at, got, want.lines())
	}
}

func (w *sweep) check(at string, s *store.Store) {
	w.t.Helper()
	got := sorted(read(w.t, s))
	if slices.Equal(got, w.want.lines()) || w.less != nil && w.less(got) {
		return
	}
	w.t.Errorf("%s: %d samples read, %d acknowledged:\n got %v\nwant %v", at, len(got), len(w.want), got, w.want.lines())
}

// writeState commits what is not samples: metadata and an exemplar.
func (w *sweep) writeState() {
	w.t.Helper()
	w.state = true
	b := w.s.Head().NewBatch()
	defer b.Release()
	b.Metadata("m", model.MetricTypeGauge, "s", "help")
	b.Exemplar(resolve(w.t, w.s.Head(), 0), 12_000, 1, labels.FromStrings("trace", "a"))
	if res, err := w.s.Head().Commit(context.Background(), b); err != nil || res.Exemplars != 1 {
		w.t.Fatalf("commit: %+v, %v", res, err)
	}
}

// checkState looks for what writeState wrote. The ring refuses an exemplar that
// is older than one it holds of the series.
func (w *sweep) checkState(at string, s *store.Store) {
	w.t.Helper()
	if !w.state {
		return
	}
	if got := s.Head().Metadata()["m"]; got != (head.Metadata{Type: model.MetricTypeGauge, Unit: "s", Help: "help"}) {
		w.t.Errorf("%s: metadata %+v", at, got)
	}
	b := s.Head().NewBatch()
	defer b.Release()
	b.Exemplar(resolve(w.t, s.Head(), 0), 11_000, 1, labels.FromStrings("trace", "b"))
	if res, err := s.Head().Commit(context.Background(), b); err != nil || res.Exemplars != 0 {
		w.t.Errorf("%s: the exemplar is lost: %+v, %v", at, res, err)
	}
}

// tidy checks that nothing is left beside the open blocks.
func (w *sweep) tidy(at string, s *store.Store, dir string) {
	w.t.Helper()
	names, err := os.ReadDir(filepath.Join(dir, "blocks"))
	if err != nil {
		w.t.Fatal(err)
	}
	if aside, err := os.ReadDir(filepath.Join(dir, "quarantine")); err == nil && (!w.damaged || len(aside) > 1) {
		w.t.Errorf("%s: set aside: %v", at, aside)
	}
	open := s.BlockDirs()
	for _, n := range names {
		path := filepath.Join(dir, "blocks", n.Name())
		if !slices.Contains(open, path) && !slices.Contains([]string{"removed.json", "removed.json.tmp", "deletes.json", "deletes.json.tmp"}, n.Name()) {
			w.t.Errorf("%s: %s is left", at, n.Name())
		}
	}
}

func flushOf(w *sweep, lo, hi int64) func() error {
	return func() error {
		return w.s.FlushSome(context.Background(), func(c head.ContainerInfo) bool { return c.Lo <= hi && c.Hi >= lo })
	}
}

// TestCrashAtEveryStep crashes at every step of flushes, merges, log cuts and
// of the removal of blocks by retention.
func TestCrashAtEveryStep(t *testing.T) {
	w := newSweep(t)
	w.writeState()
	for i := range 3 {
		w.write(i, 12_000, 10, float64(i))
		w.write(i, 19_000, 10, float64(i))
	}
	w.during("first flush", flushOf(w, 12_000, 12_999))
	w.write(0, 12_500, 7, 7)
	w.write(1, 5_000, 7, 8)
	w.during("flush of late samples", flushOf(w, 0, 12_999))
	w.write(2, 12_100, 5, 9)
	w.during("flush of everything, merge and log cut", func() error { return w.s.Flush(context.Background()) })
	w.write(2, 19_300, 3, 10)
	w.write(0, 20_000, 3, 11)
	if err := flushOf(w, 0, 20_999)(); err != nil {
		t.Fatal(err)
	}
	for k := range int64(12) {
		w.write(1, 20_300, 10, float64(k))
	}
	if err := flushOf(w, 0, 22_000)(); err != nil {
		t.Fatal(err)
	}
	w.during("log cut", func() error { return w.s.CutLog(context.Background()) })
	w.during("one more flush", func() error { return w.s.Flush(context.Background()) })
	t.Logf("%d steps, %d openings", w.steps, w.opens)
}

// TestCrashWhileRetentionRemoves crashes at every step of a removal: a block is
// there as a whole, or not at all, and what retention removed stays away.
func TestCrashWhileRetentionRemoves(t *testing.T) {
	w := newSweep(t)
	w.write(0, 3_000, 10, 1)
	w.write(1, 12_000, 10, 2)
	w.write(1, 19_000, 10, 3)
	if err := flushOf(w, 0, 12_999)(); err != nil {
		t.Fatal(err)
	}
	w.o.MaxSize = 1 // of the next one that is opened
	closeStore(t, w.s)
	w.s = w.open(w.o)
	before, after := w.want.lines(), w.want.clone()
	for k := range int64(10) {
		delete(after, [2]int64{0, 3_000 + 100*k})
	}
	w.less = func(got []string) bool { return slices.Equal(got, before) || slices.Equal(got, after.lines()) }
	w.during("removal", w.s.Retain)
	w.want, w.less = after, nil
	w.check("after the removal", w.s)
	w.crash("after the removal")
	b := w.s.Head().NewBatch()
	defer b.Release()
	b.Float(resolve(t, w.s.Head(), 0), 3_000, 0, 1)
	if res, err := w.s.Head().Commit(context.Background(), b); err != nil || res.Samples != 0 {
		t.Errorf("a sample that retention by size removed was taken again: %+v, %v", res, err)
	}
}

// TestCrashWhileSetAside crashes at every step in which a damaged block is set
// aside. Its samples come back from the log at the next start, and rank below
// those that younger blocks hold.
func TestCrashWhileSetAside(t *testing.T) {
	w := newSweep(t)
	w.o.Segment = 1 << 20 // nothing of the log goes
	closeStore(t, w.s)
	w.s = w.open(w.o)
	ctx := context.Background()
	w.write(0, 12_000, 10, 1)
	w.write(1, 12_000, 3, 1)
	if err := flushOf(w, 12_000, 12_999)(); err != nil {
		t.Fatal(err)
	}
	damaged := w.s.BlockDirs()[0]
	w.write(0, 12_200, 3, 2)
	if err := flushOf(w, 12_000, 12_999)(); err != nil {
		t.Fatal(err)
	}
	w.write(0, 12_300, 3, 3)
	flipOnDisk(t, filepath.Join(damaged, "chunks", "000001"), 20)
	v := w.s.View()
	if _, err := readView(v, 12_000, 12_999); err == nil {
		t.Fatal("a damaged chunk was read")
	}
	v.Close()
	w.damaged = true
	w.during("set aside", func() error { return w.s.Round(ctx) })
	if got := w.s.BlockDirs(); slices.Contains(got, damaged) {
		t.Fatal("the damaged block is still in use")
	}
	names, err := os.ReadDir(filepath.Join(w.dir, "quarantine"))
	if err != nil || len(names) != 1 || !strings.HasSuffix(names[0].Name(), ".damaged") {
		t.Fatalf("quarantine holds %v, %v", names, err)
	}
	closeStore(t, w.s)
	w.s, w.damaged = w.open(w.o), false
	w.check("after the next start", w.s)
	if err := w.s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	w.check("flushed and merged", w.s)
}

// TestCrashWhileRescued crashes at every step in which what is sound in a damaged block
// is written anew, of a time that the log does not reach back to. There is the old
// block, which the next who reads it finds damaged, or the new one, never both; all is
// there in the end but the chunk, and what was deleted since the damage was met.
func TestCrashWhileRescued(t *testing.T) {
	w := newSweep(t)
	for i := range 4 {
		w.write(i, 12_000, 10, float64(i))
	}
	if err := flushOf(w, 12_000, 12_999)(); err != nil {
		t.Fatal(err)
	}
	damaged := w.s.BlockDirs()[0]
	for k := range int64(12) {
		w.write(1, 19_000, 10, float64(k))
	}
	if err := flushOf(w, 0, 19_999)(); err != nil {
		t.Fatal(err)
	}
	must(t, w.s.CutLog(context.Background()))
	flipOnDisk(t, filepath.Join(damaged, "chunks", "000001"), 20)
	meetDamage(t, w.s)
	deleteOf(t, w.s, 12_000, 12_000, "1")
	all, left := len(w.want), read(t, w.s)
	maps.DeleteFunc(w.want, func(at [2]int64, v float64) bool { return !slices.Contains(left, plain{at: v}.lines()[0]) })
	if lost := all - len(w.want); lost < 2 || lost > 11 {
		t.Fatalf("%d of %d samples are deleted, or in the damaged chunk", lost, all)
	}
	w.damaged, w.blocks = true, len(w.s.BlockDirs())
	w.during("rescue", func() error { return w.s.Round(context.Background()) })
	aside, err := filepath.Glob(filepath.Join(w.dir, "quarantine", "*.damaged*"))
	if err != nil || len(aside) != 1 || slices.Contains(w.s.BlockDirs(), damaged) {
		t.Errorf("in quarantine %q, %v; in use %q", aside, err, w.s.BlockDirs())
	}
}
