package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

// eventually waits for what a background goroutine does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 10_000 {
		if done() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func TestIntervalMakesDurable(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(seed)
		w.o.Sync, w.o.Interval = wal.SyncInterval, time.Millisecond
		if err := w.start(); err != nil {
			t.Fatal(err)
		}
		if err := w.group(); err != nil {
			t.Fatal(err)
		}
		before := w.fs.Calls(memfs.OpSync)
		if err := w.group(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a background sync", func() bool { return w.fs.Calls(memfs.OpSync) > before })
		if err := w.l.Sync(); err != nil { // waits for the one under way
			t.Fatal(err)
		}
		w.crash()
		if err := w.settle(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestIntervalErrorSurfacesAtTheNextCommit(t *testing.T) {
	w := newWorld(1)
	w.o.Sync, w.o.Interval = wal.SyncInterval, time.Millisecond
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.l.Begin(); err != nil { // the segment is made before syncs fail
		t.Fatal(err)
	}
	before := w.fs.Calls(memfs.OpSync)
	w.fs.Fail(memfs.OpSync, 0, 1, syscall.EIO)
	if err := w.group(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a background sync", func() bool { return w.fs.Calls(memfs.OpSync) > before })
	eventually(t, "its error", func() bool { return errors.Is(w.l.Sync(), syscall.EIO) })
	acked := len(w.acked)
	if err := w.group(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v", err)
	}
	w.now = w.now.Add(time.Second)
	if err := w.group(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.l.Segments()); n != 2 {
		t.Fatalf("got %d segments, want the failed one and its successor", n)
	}
	w.kill()
	if err := w.settle(); err != nil {
		t.Fatal(err)
	}
	if acked == 0 || len(w.acked) <= acked {
		t.Fatal("nothing was written")
	}
}

// Under SyncNever a power cut may take what was acknowledged, but only from the
// newest segment, and never puts anything else in its place.
func TestNeverLosesOnlyTheEnd(t *testing.T) {
	lost := 0
	for seed := range uint64(300) {
		w := newWorld(seed)
		w.o.Sync = wal.SyncNever
		w.groups(t, 8)
		segments := w.l.Segments()
		synced := int(segments[len(segments)-1].First) - 1
		im := &image{acked: w.acked}
		w.crash()
		got, rec := im.replayed(t, w)
		if len(got) < synced {
			t.Fatalf("seed %d: got %d frames, the %d of closed segments are durable", seed, len(got), synced)
		}
		for i, lsn := range got[:synced] {
			if int(lsn) != i+1 {
				t.Fatalf("seed %d: got %v", seed, got)
			}
		}
		if len(got) < len(w.acked) {
			lost++
		}
		im.account(t, int(seed), got, rec)
		if again, _ := im.replayed(t, w); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatalf("seed %d: got %v, then %v", seed, got, again)
		}
	}
	if lost == 0 {
		t.Fatal("no power cut took anything")
	}
}

func TestSyncUnderEveryPolicy(t *testing.T) {
	for _, policy := range []wal.SyncPolicy{wal.SyncAlways, wal.SyncInterval, wal.SyncNever} {
		for seed := range uint64(50) {
			w := newWorld(seed)
			w.o.Sync, w.o.Interval = policy, time.Hour
			if err := w.live(8, false); err != nil {
				t.Fatal(err)
			}
			if err := w.l.Sync(); err != nil {
				t.Fatal(err)
			}
			w.crash()
			if err := w.settle(); err != nil {
				t.Fatalf("policy %d seed %d: %v", policy, seed, err)
			}
		}
	}
}

func TestCloseMakesDurable(t *testing.T) {
	for _, policy := range []wal.SyncPolicy{wal.SyncInterval, wal.SyncNever} {
		for seed := range uint64(50) {
			w := newWorld(seed)
			w.o.Sync, w.o.Interval = policy, time.Hour
			if err := w.live(4, false); err != nil {
				t.Fatal(err)
			}
			if err := w.l.Close(); err != nil {
				t.Fatal(err)
			}
			w.crash()
			if err := w.settle(); err != nil {
				t.Fatalf("policy %d seed %d: %v", policy, seed, err)
			}
		}
	}
}

func TestOneTryASecond(t *testing.T) {
	w := newWorld(1)
	w.fs.SetCapacity(1)
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	start := w.now
	for _, test := range []struct {
		after time.Duration
		tries int
	}{{0, 1}, {0, 1}, {999 * time.Millisecond, 1}, {time.Second, 2}, {1500 * time.Millisecond, 2}, {-time.Hour, 3}} {
		w.now = start.Add(test.after)
		_, err := w.l.Begin()
		var u *wal.UnavailableError
		if !errors.As(err, &u) || !errors.Is(err, syscall.ENOSPC) || u.RetryAfter <= 0 || u.RetryAfter > time.Second {
			t.Fatalf("at %v: got %v", test.after, err)
		}
		if n := w.fs.Calls(memfs.OpCreate); n != test.tries {
			t.Fatalf("at %v: %d tries, want %d", test.after, n, test.tries)
		}
	}
	w.fs.SetCapacity(0)
	w.now = w.now.Add(time.Second)
	if err := w.group(); err != nil {
		t.Fatal(err)
	}
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOutOfTurn(t *testing.T) {
	w := newWorld(1)
	l, err := wal.Open(w.o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Begin(); err != wal.ErrNotReplayed {
		t.Errorf("Begin before Replay: %v", err)
	}
	if _, err := l.Replay(nil, nil); err != nil {
		t.Error(err)
	}
	if _, err := l.Replay(nil, nil); err == nil {
		t.Error("a second Replay went through")
	}
	if _, err := l.Write(1, nil); err == nil {
		t.Error("Write without Begin went through")
	}
	if err := l.Commit(); err == nil {
		t.Error("Commit without Begin went through")
	}
	if _, err := l.Begin(); err != nil {
		t.Error(err)
	}
	if _, err := l.Write(0x7f, nil); err == nil {
		t.Error("a class that is ours went through")
	}
	if _, err := l.Write(1, make([]byte, wal.MaxPayload+1)); err == nil {
		t.Error("a payload too large went through")
	}
	if err := l.Commit(); err != nil {
		t.Errorf("Commit of an empty group: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if err := l.Commit(); err != wal.ErrClosed {
		t.Errorf("Commit after Close: %v", err)
	}
	if _, err := l.Replay(nil, nil); err != wal.ErrClosed {
		t.Errorf("Replay after Close: %v", err)
	}
}

// LSNs go on above what blocks know, in a new directory and in one with frames, through crashes.
func TestAfter(t *testing.T) {
	for seed := range uint64(60) {
		after := []wal.LSN{1000, 1 << 40}[seed/2%2]
		w := newWorld(seed)
		if seed%2 == 0 {
			w.groups(t, 6)
			w.crash()
		}
		w.o.After = after
		for life := range 4 {
			l, rec, got := open(t, w.o)
			if len(got) != len(w.acked)+life || len(rec.Lost) > 0 || len(rec.SetAside) > 0 {
				t.Fatalf("seed %d life %d: got %q %+v", seed, life, got, rec)
			}
			if lsn := commit(t, l, "x")[0]; lsn != after+wal.LSN(1+life) {
				t.Fatalf("seed %d life %d: got LSN %d", seed, life, lsn)
			}
			w.fs.Crash()
			_ = l.Close()
		}
	}
}

func TestReplayErrorOfTheCallerEndsIt(t *testing.T) {
	w := newWorld(1)
	if err := w.live(4, false); err != nil {
		t.Fatal(err)
	}
	w.kill()
	l, err := wal.Open(w.o)
	if err != nil {
		t.Fatal(err)
	}
	boom, n := errors.New("boom"), 0
	if _, err := l.Replay(nil, func(wal.Frame) error { n++; return boom }); !errors.Is(err, boom) || n != 1 {
		t.Errorf("got %v after %d frames", err, n)
	}
	if _, err := l.Begin(); err != wal.ErrNotReplayed {
		t.Errorf("Begin after it: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestProgressAndMemory(t *testing.T) {
	w := newWorld(1)
	w.o.SegmentBytes = 20 << 20
	l, _, _ := open(t, w.o)
	payload := string(bytes.Repeat([]byte("x"), 5000))
	for range 100 {
		frames := make([]string, 100)
		for i := range frames {
			frames[i] = payload
		}
		commit(t, l, frames...)
	}
	size := l.Size()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var calls, last int64
	frames := 0
	allocs := testing.AllocsPerRun(1, func() {
		l, err := wal.Open(w.o)
		if err != nil {
			t.Fatal(err)
		}
		calls, last, frames = 0, 0, 0
		if _, err := l.Replay(func(done, total int64) {
			if done < last || done-last > 9<<20 || total != size {
				t.Errorf("progress %d after %d of %d, want %d in all", done, last, total, size)
			}
			calls, last = calls+1, done
		}, func(f wal.Frame) error {
			frames++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if frames != 10_000 || last != size || calls < 6 {
		t.Errorf("%d frames, %d of %d bytes in %d calls", frames, last, size, calls)
	}
	if allocs > 500 {
		t.Errorf("%v allocations for %d frames", allocs, frames)
	}
}

func TestCommitAllocatesNothing(t *testing.T) {
	o := wal.Options{Dir: filepath.Join(t.TempDir(), "wal"), Sync: wal.SyncNever}
	l, _, _ := open(t, o)
	defer l.Close()
	payload := make([]byte, 20_000)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := l.Begin(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := l.Write(1, payload); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Commit(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a group", allocs)
	}
}

// Everything but the committer's three may come from anywhere, at any time.
func TestConcurrentUse(t *testing.T) {
	w := newWorld(1)
	w.o.Sync, w.o.Interval = wal.SyncInterval, time.Millisecond
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				segments := w.l.Segments()
				if n := len(segments); n > 2 {
					if err := w.l.RemoveBefore(segments[n-2].First); err != nil {
						t.Error(err)
					}
				}
				if err := w.l.Sync(); err != nil {
					t.Error(err)
				}
				_ = w.l.Size()
			}
		})
	}
	for range 300 {
		if err := w.group(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	w.removed = wal.LSN(len(w.acked))
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	w.crash()
	if err := w.settle(); err != nil {
		t.Fatal(err)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	im := newImage(t, 20)
	name := im.names[0]
	data := bytes.Clone(im.data[name])
	data[im.frames[1].from+20] ^= 1
	w, _ := im.with(t, 1, name, data)
	newest, _ := w.fs.ReadFile("/data/wal/" + im.newest())
	if err := w.fs.WriteFile("/data/wal/"+im.newest(), append(newest, 1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	w.o.Metrics = metrics.NewWAL(reg)
	l, _, _ := open(t, w.o)
	commit(t, l, "x")
	w.fs.Fail(memfs.OpWrite, 0, 1, syscall.EIO)
	if _, err := l.Begin(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write(1, []byte("y")); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[strings.TrimPrefix(f.GetName(), "rwsink_wal_")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	want := map[string]float64{
		"written_bytes_total": 36 + 18, "segments": float64(len(im.names)) + 1, "size_bytes": float64(l.Size()), "write_errors_total": 1,
		"lost_frames_total": 1, "damaged_segments_total": 1, "torn_bytes_total": 3,
	}
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s: got %v, want %v", name, got[name], v)
		}
	}
	if got["fsync_duration_seconds"] < 4 {
		t.Errorf("fsync_duration_seconds: %v syncs", got["fsync_duration_seconds"])
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
