package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/store/block"
)

func byI(which string) []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "i", which)}
}

func deleteOf(t testing.TB, s *store.Store, lo, hi int64, which string) {
	t.Helper()
	if err := s.Delete(context.Background(), lo, hi, byI(which)); err != nil {
		t.Fatal(err)
	}
}

// deleteNone deletes the k-th n series that there are not, at once.
func deleteNone(t testing.TB, s *store.Store, k, n int) {
	t.Helper()
	list := make([][]*labels.Matcher, n)
	for i := range list {
		list[i] = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "i", fmt.Sprint("none", k*n+i))}
	}
	must(t, s.Delete(context.Background(), 0, 10, list...))
}

// without is w.want without a range of series i.
func (w *sweep) without(i, lo, hi int64) plain {
	out := w.want.clone()
	for k := range out {
		if k[0] == i && k[1] >= lo && k[1] <= hi {
			delete(out, k)
		}
	}
	return out
}

// deleting deletes a range of a series at every step of which it crashes: what
// is read then is as before or as after, and after the answer it is as after.
func (w *sweep) deleting(what string, i, lo, hi int64) {
	w.t.Helper()
	before, after := w.want.lines(), w.without(i, lo, hi)
	w.less = func(got []string) bool { return slices.Equal(got, before) || slices.Equal(got, after.lines()) }
	w.during(what, func() error { return w.s.Delete(context.Background(), lo, hi, byI(fmt.Sprint(i))) })
	w.want, w.less = after, nil
	w.check(what+", when done", w.s)
	w.crash(what + ", when done")
}

// TestCrashWhileDeleting crashes at every step of deletes of what is in blocks,
// in the head, and in both, and of the cleaning of tombstones.
func TestCrashWhileDeleting(t *testing.T) {
	w := newSweep(t)
	ctx := context.Background()
	for i := range 3 {
		w.write(i, 12_000, 10, float64(i))
		w.write(i, 5_000, 10, float64(i))
	}
	if err := flushOf(w, 0, 12_999)(); err != nil {
		t.Fatal(err)
	}
	w.write(0, 12_050, 5, 7) // late
	w.deleting("delete of blocks and head", 0, 12_000, 12_500)
	w.write(0, 12_300, 2, 8)
	w.deleting("delete of what is in the head only", 1, 19_000, 20_000)
	w.write(1, 19_000, 5, 9)
	w.deleting("delete of a whole block's series", 2, math.MinInt64, math.MaxInt64)
	w.during("flush of what is left and log cut", func() error { return errors.Join(flushOf(w, 0, 21_000)(), w.s.CutLog(ctx)) })
	w.deleting("delete of all of a range", 0, 5_000, 5_999)
	w.deleting("delete of the rest of a block", 1, 5_000, 5_999)
	w.deleting("delete of a part", 1, 12_200, 12_400)
	blocks := len(w.s.BlockDirs())
	w.during("clean tombstones", func() error { return w.s.CleanTombstones(ctx) })
	if got := len(w.s.BlockDirs()); got >= blocks {
		t.Errorf("%d blocks before, %d after: one has nothing left", blocks, got)
	}
	w.check("cleaned", w.s)
	for _, dir := range w.s.BlockDirs() {
		if st, err := os.Stat(filepath.Join(dir, "tombstones")); err != nil || st.Size() != 9 {
			t.Errorf("tombstones of %s are left: %v", dir, err)
		}
	}
	t.Logf("%d steps, %d openings", w.steps, w.opens)
}

// TestCrashWhileASnapshotIsMade crashes at every step of one: the data directory
// is sound, and of the snapshot nothing is left, or all of it.
func TestCrashWhileASnapshotIsMade(t *testing.T) {
	w := newSweep(t)
	w.write(0, 12_000, 10, 1)
	w.write(1, 19_000, 10, 2)
	if err := w.s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	deleteOf(t, w.s, 12_000, 12_400, "0")
	w.want = w.without(0, 12_000, 12_400)
	w.write(1, 19_050, 3, 3)
	var name string
	w.during("snapshot", func() (err error) { name, err = w.s.Snapshot(context.Background(), false); return err })
	// What comes later does not change it.
	deleteOf(t, w.s, 0, 20_000, "1")
	if err := w.s.CleanTombstones(context.Background()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(w.dir, "snapshots", name)
	w.sound("the snapshot", dir)
	o := w.o
	o.FS, o.Path = nil, dir
	s := w.open(o)
	w.check("the snapshot", s)
	closeStore(t, s)
}

// TestDeleteAgainstWritesAndFlushes: each writer writes to a series of its own
// and deletes what it has written, while the store flushes, merges, cleans and makes snapshots:
// it always reads what it wrote and did not delete.
func TestDeleteAgainstWritesAndFlushes(t *testing.T) {
	s, _, _ := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data"), Segment: 4000})
	defer closeStore(t, s)
	ctx, rounds := context.Background(), 60
	if testing.Short() {
		rounds = 10
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	for i := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			want := map[int64]bool{}
			for k := range int64(rounds) {
				from := 1000 * (12 + (k*7+int64(i))%8)
				commit(t, s, i, from, 10, float64(k))
				for n := range int64(10) {
					want[from+100*n] = true
				}
				if k%3 == 0 {
					lo, hi := from+100*(k%5), from+100*(k%5)+1500
					if err := s.Delete(ctx, lo, hi, byI(fmt.Sprint(i))); err != nil {
						t.Error(err)
						return
					}
					for at := range want {
						if at >= lo && at <= hi {
							delete(want, at)
						}
					}
				}
				if got := samplesOf(t, s, i); got != len(want) {
					t.Errorf("series %d, round %d: %d samples, want %d", i, k, got, len(want))
					return
				}
			}
		}()
	}
	go func() { wg.Wait(); close(done) }()
	for k := 0; ; k++ {
		select {
		case <-done:
			return
		default:
		}
		var err error
		switch k % 4 {
		case 0, 1:
			err = s.FlushSome(ctx, everything)
		case 2:
			err = errors.Join(s.CompactSome(ctx, k%8 == 2), s.CutLog(ctx))
		case 3:
			err = s.CleanTombstones(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func samplesOf(t testing.TB, s *store.Store, i int) int {
	v := s.View()
	defer v.Close()
	lines, err := readView(v, math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Error(err)
	}
	n := 0
	for _, l := range lines {
		if strings.HasPrefix(l, fmt.Sprint(i, " ")) {
			n++
		}
	}
	return n
}

// TestDeletesAreRemembered: what was deleted is known to who fills gaps, over
// restarts, as far as retention reaches; what a newer delete includes is not kept.
func TestDeletesAreRemembered(t *testing.T) {
	s, _, o := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data")})
	m := func(i string) labels.Labels { return labels.FromStrings("__name__", "m", "i", i) }
	deleteOf(t, s, 1000, 2000, "1")
	deleteOf(t, s, 5000, 6000, "1|2")
	deleteOf(t, s, 500, 2000, "1")
	want := tombstones.Intervals{{Mint: 500, Maxt: 2000}, {Mint: 5000, Maxt: 6000}}
	for range 2 {
		if got := s.Deleted(m("1")); !slices.Equal(got, want) {
			t.Errorf("deleted of 1: %v, want %v", got, want)
		}
		if got := s.Deleted(m("2")); len(got) != 1 || len(s.Deleted(m("3"))) != 0 {
			t.Errorf("deleted of 2: %v", got)
		}
		closeStore(t, s)
		s = start(t, o)
	}
	data, err := os.ReadFile(filepath.Join(o.Path, "blocks", "deletes.json"))
	if err != nil || bytes.Count(data, []byte(`"lsn"`)) != 2 {
		t.Errorf("%s, %v", data, err)
	}
	s.ForgetDeletes(4000)
	if got := s.Deleted(m("1")); len(got) != 1 || got[0].Mint != 5000 {
		t.Errorf("after retention passed the first: %v", got)
	}
	for i := range 10_010 {
		s.RememberDelete(head.Delete{LSN: 100, MinT: int64(i), MaxT: int64(i), Matchers: byI("9")})
	}
	if got := s.Deleted(m("9")); len(got) != 1 || got[0] != (tombstones.Interval{Mint: 10, Maxt: 10_009}) {
		t.Errorf("the oldest are to be forgotten first: %v", got)
	}
	closeStore(t, s)
}

// TestManyDeletes: what is written of deletes beside the log grows about as their
// number does, and a restart knows also those that were not saved.
func TestManyDeletes(t *testing.T) {
	s, fs, o := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data")})
	commit(t, s, 1, 12_000, 10, 1)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	lists := 0
	fs.step = func(op, name string) error {
		if op == "create" && strings.Contains(name, "deletes.json") {
			lists++
		}
		return nil
	}
	const n = 1000
	for i := range int64(n) {
		deleteOf(t, s, 2*i, 2*i, "2")
	}
	deleteOf(t, s, 12_000, 12_500, "1")
	if lists < 16 || lists > n/8 {
		t.Errorf("the list was written %d times", lists)
	}
	for range 2 {
		if got := s.Deleted(labels.FromStrings("i", "2")); len(got) != n || samplesOf(t, s, 1) != 4 {
			t.Errorf("%d ranges are deleted, %d samples left", len(got), samplesOf(t, s, 1))
		}
		closeStore(t, s)
		s = start(t, o)
	}
	closeStore(t, s)
}

// TestDeletesOutliveTheirBlocks: what retention has passed is remembered while a
// block that began before still needs it.
func TestDeletesOutliveTheirBlocks(t *testing.T) {
	s, _, _ := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data")})
	defer closeStore(t, s)
	commit(t, s, 1, 12_000, 10, 1)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	deleteOf(t, s, 10_000, 11_000, "1")
	deleteOf(t, s, 12_000, 12_100, "1")
	s.ForgetDeletes(12_500)
	want := tombstones.Intervals{{Mint: 12_000, Maxt: 12_100}}
	if got := s.Deleted(labels.FromStrings("__name__", "m", "i", "1")); !slices.Equal(got, want) {
		t.Errorf("remembered %v, want %v", got, want)
	}
}

// TestDamagedListOfDeletes: the log still has what the list lost; one of a newer version is refused.
func TestDamagedListOfDeletes(t *testing.T) {
	s, _, o := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data")})
	commit(t, s, 1, 12_000, 10, 1)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	deleteOf(t, s, 0, 12_500, "1")
	closeStore(t, s)
	name := filepath.Join(o.Path, "blocks", "deletes.json")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "{", strings.Replace(string(data), `"version":1`, `"version":5`, 1), strings.Replace(string(data), "12500", "12400", 1), strings.Replace(string(data), "rwsink-deletes", "other", 1)} {
		if err := os.WriteFile(name, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		checked, err := store.Check(context.Background(), o.Path, store.CheckOptions{Fault: func(error) {}, Note: func(string) {}})
		if err != nil || checked.Faults != 1 {
			t.Errorf("check: %v, %v", checked, err)
		}
		s := start(t, o)
		if got := s.Deleted(labels.FromStrings("i", "1")); len(got) != 1 || samplesOf(t, s, 1) != 4 {
			t.Errorf("deleted %v, %d samples", got, samplesOf(t, s, 1))
		}
		closeStore(t, s)
	}
	newer := newer(t, "rwsink-deletes", 2)
	if err := os.WriteFile(name, []byte(newer), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(o); err == nil || !strings.Contains(err.Error(), "use a newer rwsink") {
		t.Errorf("open: %v", err)
	}
	if got, _ := os.ReadFile(name); string(got) != newer {
		t.Error("the newer file was changed")
	}
}

// TestDeleteWhereTombstonesCannotBeSaved is durable in the log and seen at once;
// a restart finds it, and the log is not cut before it is saved.
func TestDeleteWhereTombstonesCannotBeSaved(t *testing.T) {
	s, fs, o := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data"), Segment: 500})
	commit(t, s, 1, 12_000, 10, 1)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	full := func(op, name string) error {
		if op == "create" && (strings.Contains(name, "tombstones") || strings.Contains(name, "deletes.json")) {
			return &os.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
		}
		return nil
	}
	fs.step = full
	deleteOf(t, s, 0, 12_500, "1")
	if n := samplesOf(t, s, 1); n != 4 {
		t.Errorf("%d samples", n)
	}
	for k := range 20 {
		commit(t, s, 2, 12_000, 10, float64(k))
	}
	if err := s.Flush(context.Background()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the log was cut: %v", err)
	}
	closeStore(t, s)
	s = start(t, o)
	if n := samplesOf(t, s, 1); n != 4 {
		t.Errorf("%d samples after a restart", n)
	}
	fs.step = nil
	if err := s.Round(context.Background()); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if err := os.RemoveAll(filepath.Join(o.Path, "wal")); err != nil { // the tombstones are enough now
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(o.Path, "wal"), 0o755); err != nil {
		t.Fatal(err)
	}
	s = start(t, o)
	if n := samplesOf(t, s, 1); n != 4 {
		t.Errorf("%d samples without the log", n)
	}
	closeStore(t, s)
}

// TestASetAsideBlockBringsNothingDeletedBack: its samples come back from the log, as far as they were not deleted.
func TestASetAsideBlockBringsNothingDeletedBack(t *testing.T) {
	s, _, o := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data")})
	commit(t, s, 1, 12_000, 10, 1)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	deleteOf(t, s, 0, 12_500, "1")
	commit(t, s, 1, 12_100, 1, 2)
	dir := s.BlockDirs()[0]
	closeStore(t, s)
	flipOnDisk(t, filepath.Join(dir, "rwsink.json"), 5)
	s = start(t, o)
	if n := samplesOf(t, s, 1); n != 5 {
		t.Errorf("%d samples, want the 4 after and the one written since", n)
	}
	closeStore(t, s)
}

// TestWhatIsFoundDamagedIsGoneAtOnce: the read that meets damage fails, the next does
// without the chunk, or where more than chunks is damaged, without the block.
func TestWhatIsFoundDamagedIsGoneAtOnce(t *testing.T) {
	for file, blocks := range map[string]int{"chunks/000001": 1, "index": 0} {
		s, _, _ := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data")})
		commit(t, s, 1, 12_000, 10, 1)
		must(t, s.Flush(context.Background()))
		commit(t, s, 2, 12_000, 10, 1)
		dir := s.BlockDirs()[0]
		truncate(t, filepath.Join(dir, file), 0)
		meetDamage(t, s)
		if got := read(t, s); len(got) != 10 || len(s.BlockDirs()) != blocks {
			t.Errorf("%s: %d samples, %d blocks", file, len(got), len(s.BlockDirs()))
		}
		must(t, s.Round(context.Background()))
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the block is still there: %v", file, err)
		}
		closeStore(t, s)
	}
}

func TestDeleteRefuses(t *testing.T) {
	s, _, _ := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data")})
	defer closeStore(t, s)
	for name, ms := range map[string][]*labels.Matcher{
		"no matcher": {},
		"UTF-8":      {labels.MustNewMatcher(labels.MatchNotEqual, "i", "\xff")},
		"too long":   {labels.MustNewMatcher(labels.MatchEqual, "i", strings.Repeat("x", 1<<17))},
	} {
		var bad *store.BadDeleteError
		if err := s.Delete(context.Background(), 0, 1, ms); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var bad *store.BadDeleteError
	many := make([][]*labels.Matcher, 100)
	for i := range many {
		many[i] = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "i", strings.Repeat("x", 1<<16-100))}
	}
	if err := s.Delete(context.Background(), 0, 1, many...); !errors.As(err, &bad) || !strings.Contains(err.Error(), "4194304 bytes") {
		t.Errorf("too many at once: %v", err)
	}
}

// TestCheckAndDumpOfTombstones: check verifies them, dump prints them.
func TestCheckAndDumpOfTombstones(t *testing.T) {
	s, _, o := rig(t, store.Options{Path: filepath.Join(fixture.QuickDir(t), "data")})
	commit(t, s, 1, 12_000, 10, 1)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	deleteOf(t, s, 12_050, 12_450, "1")
	deleteOf(t, s, 12_900, 99_000, "1")
	name := filepath.Join(s.BlockDirs()[0], "tombstones")
	closeStore(t, s)
	check := func() (faults []string) {
		_, err := store.Check(context.Background(), o.Path, store.CheckOptions{Fault: func(err error) { faults = append(faults, err.Error()) }, Note: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		return faults
	}
	if f := check(); len(f) != 0 {
		t.Errorf("faults: %q", f)
	}
	var out bytes.Buffer
	if err := block.Dump(&out, name); err != nil || strings.Count(out.String(), "from ") != 2 || !strings.Contains(out.String(), "from 12050 (1970-01-01T00:00:12.050Z) to 12450") {
		t.Errorf("%v\n%s", err, out.String())
	}
	flipOnDisk(t, name, 7)
	if f := check(); len(f) != 1 || !strings.Contains(f[0], "tombstones") {
		t.Errorf("faults of a flipped bit: %q", f)
	}
}

// TestTheNewestDeletesAreRemembered deletes more at once than is remembered: the
// newest 10,000 are, also after a restart.
func TestTheNewestDeletesAreRemembered(t *testing.T) {
	s, _, o := rig(t, store.Options{})
	deleteNone(t, s, 0, 10_400)
	for range 2 {
		for i, want := range map[int]int{0: 0, 399: 0, 400: 1, 10_399: 1} {
			if got := s.Deleted(labels.FromStrings("i", fmt.Sprint("none", i))); len(got) != want {
				t.Errorf("of delete %d there is %v, want %d", i, got, want)
			}
		}
		closeStore(t, s)
		s = start(t, o)
	}
	closeStore(t, s)
}

// BenchmarkDelete deletes 1,000 selections at once where as many deletes are
// remembered as may be.
func BenchmarkDelete(b *testing.B) {
	const n = 1000
	s := start(b, store.Options{Path: b.TempDir()})
	defer closeStore(b, s)
	k := 0
	for ; k*n <= 10_000; k++ {
		deleteNone(b, s, k, n)
	}
	b.ReportAllocs()
	for ; b.Loop(); k++ {
		deleteNone(b, s, k, n)
	}
}
