package head_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

func deleteOf(lo, hi int64, series string) head.Delete {
	return head.Delete{MinT: lo, MaxT: hi, Matchers: []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"), labels.MustNewMatcher(labels.MatchRegexp, "i", series),
	}}
}

func (p *process) delete(t tester, list ...head.Delete) {
	t.Helper()
	if lsn, err := p.head.Delete(context.Background(), list); err != nil || lsn == 0 {
		t.Fatalf("delete: frame %d, %v", lsn, err)
	}
}

func (p *process) is(t tester, want ...sample) {
	t.Helper()
	m := oracle{}
	m.add(want...)
	p.holds(t, m)
}

// TestDeleteTakesWhatWasThere deletes from near and cold containers, open and
// frozen: what is written later stays, into the same place, late, in order, and
// to a series that was gone; a restart changes nothing.
func TestDeleteTakesWhatWasThere(t *testing.T) {
	for name, base := range map[string]int64{"cold": nowMs - 100*hourMs, "near": nowMs} {
		for _, frozen := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				fs, o := memfs.New(1), options()
				p := mustStart(t, fs, o)
				var all []sample
				for k := range int64(300) {
					all = append(all, float(0, base+1000*k, float64(k)), ints(1, base+1000*k, int(k)))
				}
				p.stored(t, all...)
				p.stored(t, float(0, base+10_500, 1), float(2, base, 2)) // late
				if frozen {
					if _, err := p.head.Freeze(context.Background(), func(head.ContainerInfo) bool { return true }); err != nil {
						t.Fatal(err)
					}
				}
				p.delete(t, deleteOf(base+10_000, base+250_000, "0|1"), deleteOf(math.MinInt64, math.MaxInt64, "2"))
				stay := slices.DeleteFunc(all, func(s sample) bool { return s.t >= base+10_000 && s.t <= base+250_000 })
				p.is(t, stay...)
				later := []sample{float(0, base+20_000, 7), float(0, base+400_000, 8), float(2, base, 9), floats(1, base+30_000, 3)}
				p.stored(t, later...)
				p.is(t, append(stay, later...)...)
				if err := p.stop(); err != nil {
					t.Fatal(err)
				}
				p = mustStart(t, fs, o)
				p.is(t, append(stay, later...)...)
				if got := p.head.Replayed(); len(got) != 2 || got[0].LSN != 3 || got[1].MinT != math.MinInt64 || len(got[0].Matchers) != 2 {
					t.Errorf("replayed deletes: %+v", got)
				}
				if err := p.stop(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestDeleteUnderAReader deletes all of a series between the moment when a reader
// lists where its samples are and the one when it reads them.
func TestDeleteUnderAReader(t *testing.T) {
	for name, at := range map[string]int64{"cold": nowMs - 100*hourMs, "near": nowMs} {
		for _, frozen := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				p := run(t, options())
				p.stored(t, float(0, at, 1), float(0, at+1, 2))
				if frozen {
					if _, err := p.head.Freeze(context.Background(), func(head.ContainerInfo) bool { return true }); err != nil {
						t.Fatal(err)
					}
				}
				layers := p.head.View().NewReader().AppendLayers(nil, p.series(0), at, at+1)
				if len(layers) != 1 {
					t.Fatalf("%d layers, want 1", len(layers))
				}
				p.delete(t, deleteOf(at, at+1, "0"))
				if err := layers[0].Read(at, at+1, func(run *chunkenc.Samples) error {
					t.Errorf("read %d deleted samples", run.Len())
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestDeletedSeriesGoes: a series of which nothing is left is no longer found,
// nor in a frozen container flushed; its exemplars stay, as in Prometheus.
func TestDeletedSeriesGoes(t *testing.T) {
	p := run(t, options())
	p.stored(t, float(0, nowMs, 1), float(1, nowMs, 1))
	b := p.batch()
	b.Exemplar(p.series(0), nowMs, 1, labels.FromStrings("trace", "a"))
	if _, err := p.head.Commit(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	p.delete(t, deleteOf(nowMs, nowMs, "0"))
	found, err := p.head.View().Select(context.Background(), math.MinInt64, math.MaxInt64, labels.MustNewMatcher(labels.MatchEqual, "i", "0"))
	if err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
	frozen, err := p.head.Freeze(context.Background(), func(head.ContainerInfo) bool { return true })
	if err != nil || len(frozen) != 1 {
		t.Fatal(frozen, err)
	}
	p.delete(t, deleteOf(math.MinInt64, nowMs, "1"))
	if found, err := p.head.View().Select(context.Background(), math.MinInt64, math.MaxInt64, labels.MustNewMatcher(labels.MatchEqual, "i", "1")); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v: the container is frozen", found, err)
	}
	err = frozen[0].Each(context.Background(), func(ls labels.Labels, list []chunkenc.Chunk) error {
		if len(list) != 0 {
			t.Errorf("%v has %d chunks", ls, len(list))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b = p.batch()
	b.Exemplar(p.series(0), nowMs-1, 1, labels.FromStrings("trace", "b"))
	if res, err := p.head.Commit(context.Background(), b); err != nil || res.Exemplars != 0 {
		t.Errorf("the exemplar went with its series: %+v, %v", res, err)
	}
}

// TestDeleteOnADiskThatFails deletes nothing.
func TestDeleteOnADiskThatFails(t *testing.T) {
	fs := memfs.New(1)
	p := mustStart(t, fs, options())
	p.stored(t, float(0, nowMs, 1))
	fs.Fail(memfs.OpWrite, 0, 1, syscall.ENOSPC)
	lsn, err := p.head.Delete(context.Background(), []head.Delete{deleteOf(math.MinInt64, math.MaxInt64, ".*")})
	var unavailable *head.UnavailableError
	if lsn != 0 || !errors.As(err, &unavailable) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("frame %d, %v", lsn, err)
	}
	p.is(t, float(0, nowMs, 1))
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p = mustStart(t, fs, options())
	defer p.stop()
	p.is(t, float(0, nowMs, 1))
}

// TestRememberedDeletes are applied at their place of the log even where the log lost them.
func TestRememberedDeletes(t *testing.T) {
	fs := memfs.New(1)
	p := mustStart(t, fs, options())
	p.stored(t, float(0, nowMs, 1), float(0, nowMs+1, 1)) // frame 1
	p.stored(t, float(0, nowMs, 2))                       // frame 2
	p.stored(t, float(1, nowMs, 3))                       // frame 3
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	for lsn, want := range map[int][]sample{
		1: {float(0, nowMs, 2), float(1, nowMs, 3)},
		2: {float(1, nowMs, 3)},
		3: {},
	} {
		q, err := startRemembering(fs.Clone(1), options(), deleteOf(0, math.MaxInt64, ".*"), lsn)
		if err != nil {
			t.Fatal(err)
		}
		q.is(t, want...)
		if err := q.stop(); err != nil {
			t.Fatal(err)
		}
	}
}
