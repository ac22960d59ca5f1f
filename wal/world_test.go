package wal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// few is n, and with -short, as under the race detector, a tenth: the lives of a sweep differ
// in where they end and not in what runs at once.
func few(n int) int {
	if testing.Short() {
		return (n + 9) / 10
	}
	return n
}

// world is a log on a modelled disk beside what is known of it.
type world struct {
	fs  *memfs.FS
	l   *wal.Log
	o   wal.Options
	now time.Time
	rnd *rand.Rand

	acked   []string // by LSN-1: the payloads whose Commit returned nil, or that a replay has given
	maybe   []string // of the group that was under way when the power failed: they may follow acked after a restart
	removed wal.LSN  // RemoveBefore was called with it
	serial  int      // makes every payload unique
	thrice  bool     // operations fail three times in a row: a refused group that could be neither cut off nor hidden may come back
	damage  bool     // lost frames and files set aside are expected
	last    wal.Recovery
}

func newWorld(seed uint64) *world {
	w := &world{fs: memfs.New(seed), rnd: rand.New(rand.NewPCG(seed, 1)), now: time.UnixMilli(1e12), removed: 1}
	w.o = wal.Options{FS: w.fs, Dir: "/data/wal", SegmentBytes: 300, Now: func() time.Time { return w.now }}
	// The directories above the log's are the caller's.
	if err := errors.Join(w.fs.MkdirAll("/data"), w.fs.SyncDir("/")); err != nil {
		panic(err)
	}
	return w
}

// start opens and replays, and checks what came: everything acknowledged, once,
// in order, and nothing else but frames of the group that was under way.
func (w *world) start() error {
	l, err := wal.Open(w.o)
	if err != nil {
		return err
	}
	var got []wal.Frame
	w.last, err = l.Replay(nil, func(f wal.Frame) error {
		f.Payload = append([]byte(nil), f.Payload...)
		got = append(got, f)
		return nil
	})
	if err != nil {
		_ = l.Close()
		return err
	}
	w.l = l
	return w.check(got)
}

type brokenError struct{ what string }

func (e *brokenError) Error() string { return e.what }

func broken(format string, args ...any) error { return &brokenError{fmt.Sprintf(format, args...)} }

func (w *world) check(got []wal.Frame) error {
	next := wal.LSN(len(w.acked)) + 1
	if len(got) > 0 {
		next = got[0].LSN
	}
	if next > w.removed {
		return broken("first LSN %d, removed up to %d", next, w.removed)
	}
	for _, f := range got {
		i := int(f.LSN) - 1
		if f.LSN != next {
			return broken("LSN %d, want %d", f.LSN, next)
		}
		next++
		switch p := string(f.Payload); {
		case i < len(w.acked) && p != w.acked[i]:
			return broken("LSN %d: got %s, want %s", f.LSN, p, w.acked[i])
		case i < len(w.acked):
		case len(w.maybe) > 0 && p == w.maybe[0]:
			w.acked, w.maybe = append(w.acked, p), w.maybe[1:]
		default:
			return broken("LSN %d: %s was never acknowledged, nor was it under way", f.LSN, p)
		}
		if want := byte(len(f.Payload) % 2); f.Class != want {
			return broken("LSN %d: class %d, want %d", f.LSN, f.Class, want)
		}
	}
	if int(next)-1 < len(w.acked) {
		return broken("ends at LSN %d, %d were acknowledged", next-1, len(w.acked))
	}
	// What is left of creating a segment whose sync failed, too, may be half a header: that
	// is told as damage, and costs nothing.
	if !w.damage && (len(w.last.Lost) > 0 || len(w.last.SetAside) > 0 && !w.thrice) {
		return broken("damage where there was none: %+v", w.last)
	}
	w.maybe = nil
	return nil
}

// group writes one group of one to four frames.
func (w *world) group() error {
	if _, err := w.l.Begin(); err != nil {
		if u := new(wal.UnavailableError); errors.As(err, &u) {
			w.now = w.now.Add(u.RetryAfter)
		}
		return err
	}
	var payloads []string
	for range 1 + w.rnd.IntN(4) {
		w.serial++
		p := fmt.Sprint("p", w.serial, " ", strings.Repeat("x", w.rnd.IntN(60)))
		lsn, err := w.l.Write(byte(len(p)%2), []byte(p))
		if err != nil {
			return err
		}
		if want := len(w.acked) + len(payloads) + 1; int(lsn) != want {
			return broken("Write gave LSN %d, want %d", lsn, want)
		}
		payloads = append(payloads, p)
	}
	w.maybe = payloads
	if err := w.l.Commit(); err != nil {
		if !errors.Is(err, memfs.ErrPowerCut) && !errors.Is(err, memfs.ErrStale) && !w.thrice {
			w.maybe = nil // it was told that nothing of it is stored
		}
		return err
	}
	w.acked, w.maybe = append(w.acked, payloads...), nil
	return nil
}

// groups starts and writes n groups, nothing else.
func (w *world) groups(t testing.TB, n int) {
	t.Helper()
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := w.group(); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) removeOld() error {
	if len(w.acked) < 10 {
		return nil
	}
	w.removed = max(w.removed, wal.LSN(len(w.acked)-w.rnd.IntN(10)))
	return w.l.RemoveBefore(w.removed)
}

// live is some life of a process: groups, a removal now and then, a clean restart.
// With persist it goes on after errors, otherwise it ends with the first.
func (w *world) live(groups int, persist bool) error {
	for i := range groups {
		var err error
		switch {
		case w.l == nil:
			err = w.start()
		case i%5 == 4:
			err = w.removeOld()
		case i%9 == 8:
			err = w.l.Close()
			w.l = nil
		default:
			err = w.group()
		}
		if b := new(brokenError); errors.As(err, &b) {
			return err
		}
		if err != nil && !persist {
			return err
		}
	}
	return nil
}

// crash cuts the power, kill ends the process; the next live starts again.
func (w *world) crash() { w.end(w.fs.Crash) }
func (w *world) kill()  { w.end(w.fs.Kill) }

func (w *world) end(how func()) {
	how()
	if w.l != nil {
		_ = w.l.Close()
		w.l = nil
	}
}

// settle opens the log after whatever was done to it and lives on: a new group,
// a clean stop, another start.
func (w *world) settle() error {
	if err := w.start(); err != nil {
		return err
	}
	for range 3 {
		if err := w.group(); err != nil {
			return err
		}
	}
	if err := w.l.Close(); err != nil {
		return err
	}
	w.l = nil
	err := w.start()
	if err == nil {
		err = w.l.Close()
	}
	w.l = nil
	return err
}

func (w *world) files(t testing.TB, contains string) []string {
	t.Helper()
	names, err := w.fs.ReadDir(w.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range names {
		if strings.Contains(n, contains) {
			out = append(out, n)
		}
	}
	return out
}
