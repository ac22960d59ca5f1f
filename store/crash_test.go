package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/store"
)

// inMemory are the options of a store on fs.
func inMemory(fs *memfs.FS) store.Options {
	return store.Options{
		Path: "/srv/data", FS: fs, Segment: 1 << 11,
		Head: head.Options{Accept: head.Accept{Window: -1, Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) }}},
	}
}

func openReplayed(o store.Options) (*store.Store, error) {
	s, err := store.Open(o)
	if err != nil {
		return nil, err
	}
	if err := s.Replay(context.Background()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// writeOne commits sample n of series n%3.
func writeOne(t testing.TB, s *store.Store, n int) error {
	b := s.Head().NewBatch()
	defer b.Release()
	b.Float(resolve(t, s.Head(), n%3), int64(1000*n), 0, float64(n))
	_, err := s.Head().Commit(context.Background(), b)
	return err
}

func line(n int) string { return fmt.Sprintf("%d %d %x", n%3, 1000*n, math.Float64bits(float64(n))) }

// TestPowerCutAtEveryStep cuts the power in the k-th file operation of a store
// that is opened for the first time and written to, then opens it again:
// everything acknowledged is there, and at most the one that was being written.
func TestPowerCutAtEveryStep(t *testing.T) {
	for k := range 150 {
		if testing.Short() && k%5 > 0 {
			continue
		}
		fs := memfs.New(uint64(k))
		fs.CutAfter(k)
		var acknowledged []string
		s, err := openReplayed(inMemory(fs))
		if err == nil {
			for n := range 40 {
				if err := writeOne(t, s, n); err != nil {
					break
				}
				acknowledged = append(acknowledged, line(n))
			}
			_ = s.Close()
		}
		fs.Crash()
		if s, err = openReplayed(inMemory(fs)); err != nil {
			t.Fatalf("cut %d: %v", k, err)
		}
		got := read(t, s)
		if len(got) == len(acknowledged)+1 {
			acknowledged = append(acknowledged, line(len(acknowledged)))
		}
		slices.Sort(got)
		slices.Sort(acknowledged)
		if !slices.Equal(got, acknowledged) {
			t.Fatalf("cut %d: %d samples read, %d acknowledged", k, len(got), len(acknowledged))
		}
		if err := writeOne(t, s, 1000); err != nil {
			t.Fatalf("cut %d: %v", k, err)
		}
		closeStore(t, s)
	}
}

// TestEveryOperationFailsOnce makes each kind of file operation fail once while
// a store is opened: it opens the next time, and holds what it held.
func TestEveryOperationFailsOnce(t *testing.T) {
	for op := range memfs.NumOps {
		for k := range 6 {
			fs := memfs.New(uint64(k))
			s, err := openReplayed(inMemory(fs))
			if err != nil {
				t.Fatal(err)
			}
			if err := writeOne(t, s, 1); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			fs.Fail(op, k, 1, syscall.EIO)
			if s, err = openReplayed(inMemory(fs)); err != nil {
				fs.Fail(op, 0, 0, nil)
				if s, err = openReplayed(inMemory(fs)); err != nil {
					t.Fatalf("%v %d: %v", op, k, err)
				}
			}
			if got := read(t, s); !slices.Equal(got, []string{line(1)}) {
				t.Fatalf("%v %d: read %v", op, k, got)
			}
			_ = s.Close()
		}
	}
}
