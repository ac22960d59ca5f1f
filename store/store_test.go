package store_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store"
)

// quickChecks is how many histories a property test draws unless -rapid.checks says more.
const quickChecks = "15"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", quickChecks); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// open opens and replays a store; it is closed with the test unless closed before.
func open(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	o.Head.Accept.Window = -1
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replay(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// fataler is a test, rapid's or Go's.
type fataler interface {
	Helper()
	Fatal(...any)
}

// resolve finds or creates the series {__name__="m", i="<i>"}.
func resolve(t fataler, h *head.Head, i int) *head.Series {
	t.Helper()
	key := head.Key{Hi: 1, Lo: uint64(i)}
	if s, _ := h.Lookup(key); s != nil {
		return s
	}
	s, _, err := h.Resolve(key, []head.Label{
		{Name: []byte("i"), Value: fmt.Append(nil, i)},
		{Name: []byte(labels.MetricName), Value: []byte("m")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns "i t bits" of all series named m.
func read(t fataler, s *store.Store) []string {
	t.Helper()
	v := s.View()
	defer v.Close()
	out, err := readView(v, math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readView(v *store.View, mint, maxt int64) (out []string, err error) {
	series, err := v.Select(context.Background(), mint, maxt, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
	if err != nil {
		return nil, err
	}
	r := v.NewReader()
	for i := range series {
		err := r.Read(&series[i], mint, maxt, func(run *chunkenc.Samples) error {
			for k, ts := range run.T {
				out = append(out, fmt.Sprintf("%s %d %x", series[i].Labels.Get("i"), ts, math.Float64bits(run.V[k])))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// flipOnDisk flips a bit of a file.
func flipOnDisk(t testing.TB, name string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := []byte{0}
	if _, err := f.ReadAt(b, offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
}

// TestKeepsWhatItAcknowledged writes from several goroutines, closes, opens
// again with other flags, and reads the same.
func TestKeepsWhatItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, store.Options{Path: dir, Segment: 1 << 12})
	now := time.Now().UnixMilli()
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 100 {
				b := s.Head().NewBatch()
				for k := range 5 {
					b.Float(resolve(t, s.Head(), 5*w+k), now-int64((i*7919)%100)*1000, 0, float64(i))
				}
				res, err := s.Head().Commit(context.Background(), b)
				if err != nil || res.Samples != 5 || res.Refused.Any() {
					t.Errorf("commit: %+v, %v", res, err)
				}
				b.Release()
			}
		})
	}
	writers.Wait()
	want := read(t, s)
	if len(want) != 20*100 {
		t.Fatalf("%d samples read, 2000 written", len(want))
	}
	closeStore(t, s)
	for _, o := range []store.Options{
		{Path: dir},
		{Path: dir, Head: head.Options{BlockDuration: time.Minute, ChunkSamples: 16}},
	} {
		s = open(t, o)
		if got := read(t, s); !slices.Equal(got, want) {
			t.Fatalf("%d samples read after a restart, %d before", len(got), len(want))
		}
		closeStore(t, s)
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, store.Options{Path: dir})
	if other, err := store.Open(store.Options{Path: dir}); err == nil {
		closeStore(t, other)
		t.Fatal("a second store opened the same directory")
	}
	closeStore(t, s)
	closeStore(t, open(t, store.Options{Path: dir}))
}

// TestDirectoryOfSomethingElse is refused and left as it is; what a file system or a
// start that was killed leaves in an empty one is no matter.
func TestDirectoryOfSomethingElse(t *testing.T) {
	for name, ours := range map[string]bool{
		"README.md": false, "wal/": false, "blocks/": false, "chunks_head/": false, "ID": false,
		"lost+found/": true, ".snapshot/": true, "LOCK": true, "VERSION.tmp": true,
	} {
		dir := t.TempDir()
		if path := filepath.Join(dir, name); strings.HasSuffix(name, "/") {
			must(t, os.Mkdir(path, 0o700))
		} else {
			must(t, os.WriteFile(path, nil, 0o600))
		}
		s, err := store.Open(store.Options{Path: dir})
		if ours {
			must(t, err)
			must(t, s.Close())
			continue
		}
		want := dir + " has " + strings.TrimSuffix(name, "/") + " in it and no VERSION"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
}

func TestUnknownLayoutIsRefused(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, store.Options{Path: dir}))
	fs := vfs.OS{}
	if err := fs.Remove(dir + "/VERSION"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(store.Options{Path: dir}); err == nil {
		t.Fatal("a log without a VERSION was opened")
	}
	f, err := fs.Create(dir + "/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("2\n")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(store.Options{Path: dir}); err == nil {
		t.Fatal("a directory of a newer layout was opened")
	}
}

// TestTheLongestAndShortestDurations: the bounds on time are what the flags take at most,
// and at least: nothing overflows on the way from accepting to retention.
func TestTheLongestAndShortestDurations(t *testing.T) {
	const year, now = 365 * 24 * 3600 * 1000, int64(1_700_000_000_000)
	for _, tc := range []struct {
		d    time.Duration
		want []int64 // of what is sent, in years from now
	}{
		{math.MaxInt64, []int64{-290, -50, 0, 50, 290}},
		{time.Millisecond, []int64{0}},
	} {
		o := store.Options{Head: head.Options{Accept: head.Accept{
			Retention: tc.d, MaxFuture: tc.d, Now: func() time.Time { return time.UnixMilli(now) },
		}}}
		s, _, o := rig(t, o)
		o.Head.Accept.Window = tc.d
		closeStore(t, s)
		s = start(t, o)
		for _, y := range []int64{-300, -290, -50, 0, 50, 290, 300} {
			b := s.Head().NewBatch()
			b.Float(resolve(t, s.Head(), 0), now+y*year, 0, 1)
			_, err := s.Head().Commit(context.Background(), b)
			must(t, err)
			b.Release()
		}
		must(t, s.Round(context.Background()))
		must(t, s.Flush(context.Background()))
		must(t, s.Round(context.Background()))
		var want []string
		for _, y := range tc.want {
			want = append(want, fmt.Sprintf("0 %d %x", now+y*year, bits(1)))
		}
		if got := sorted(read(t, s)); !slices.Equal(got, sorted(want)) {
			t.Errorf("%v: got %q, want %q", tc.d, got, want)
		}
		closeStore(t, s)
	}
}
