package head_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
)

// TestSeriesOfRefusedSamplesMakeRoom fills the limit of series with ones whose
// samples are all refused. They go with the second collection, and one with
// samples stays.
func TestSeriesOfRefusedSamplesMakeRoom(t *testing.T) {
	o := options()
	o.Accept.Retention = time.Hour
	o.Limits.Series = 50
	p := run(t, o)
	p.stored(t, float(0, nowMs, 1))
	old := nowMs - 2*time.Hour.Milliseconds()
	for i := 1; i < 50; i++ {
		if res, err := p.write(float(i, old, 1)); err != nil || res.Samples != 0 || !res.Refused.Any() {
			t.Fatalf("an old sample: %+v, %v", res, err)
		}
	}
	resolve := func(name string) error {
		_, _, err := p.head.Resolve(head.Key{Hi: 9, Lo: uint64(len(name))}, []head.Label{{Name: []byte("__name__"), Value: []byte(name)}})
		return err
	}
	if err := resolve("m"); err == nil {
		t.Fatal("a series above the limit was taken")
	}
	for range 2 {
		if err := p.head.Collect(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := resolve("mm"); err != nil {
		t.Fatalf("there is no room: %v", err)
	}
	if s, _ := p.head.Lookup(key(0)); s == nil {
		t.Error("the series with samples was collected")
	}
	p.stored(t, float(1, nowMs, 2))
	if got := len(p.lines(t, math.MinInt64, math.MaxInt64)); got != 2 {
		t.Errorf("%d samples, want 2", got)
	}
}

// TestSeriesUsedBetweenCollections has a collection find a series without samples; some
// come, and are flushed before the next. It goes with the one after that.
func TestSeriesUsedBetweenCollections(t *testing.T) {
	p := run(t, options())
	p.series(0)
	for round, stays := range []bool{true, true, false} {
		if round == 1 {
			p.stored(t, float(0, nowMs, 1))
			flushed(t, p, 1)
		}
		if err := p.head.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, _ := p.head.Lookup(key(0)); (s != nil) != stays {
			t.Fatalf("collection %d: the series is there: %t", round, s != nil)
		}
	}
}

// TestManySeriesAreDropped freezes and drops a range of more series than are seen to at a
// time, while another range is written: all of the one goes, all of the other stays.
func TestManySeriesAreDropped(t *testing.T) {
	p := run(t, nearOptions())
	const many = 10_000
	var list []sample
	for i := range many {
		list = append(list, float(i, nowMs, 1))
	}
	p.stored(t, list...)
	stop, stopped := make(chan struct{}), make(chan struct{})
	want := oracle{}
	go func() {
		defer close(stopped)
		for k := 0; ; k++ {
			select {
			case <-stop:
				return
			default:
			}
			s := float(many/2+k%many, nowMs+24*hourMs+int64(k), float64(k))
			if _, err := p.write(s); err != nil {
				t.Error(err)
				return
			}
			want.add(s)
		}
	}()
	frozen, err := p.head.Freeze(t.Context(), func(c head.ContainerInfo) bool { return c.Lo <= nowMs && nowMs <= c.Hi })
	if err != nil || len(frozen) != 1 {
		t.Fatal(len(frozen), err)
	}
	p.stored(t, float(1, nowMs, 2)) // opens a successor
	if err := p.head.Drop(t.Context(), frozen[0]); err != nil {
		t.Fatal(err)
	}
	close(stop)
	<-stopped
	want.add(float(1, nowMs, 2))
	p.holds(t, want)
	for range 2 {
		if err := p.head.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		if s, _ := p.head.Lookup(key(i)); (s != nil) != (want[i] != nil) {
			t.Fatalf("series %d is there: %v, want %v", i, s != nil, want[i] != nil)
		}
	}
	p.holds(t, want)
}

// TestFlushedSeriesMakeRoom fills the limit of series, and flushes: those that are in
// blocks alone do not keep others out until somebody collects. Far from the limit they stay.
func TestFlushedSeriesMakeRoom(t *testing.T) {
	for _, limit := range []int{40, 400} {
		o := options()
		o.Limits.Series = limit
		p := run(t, o)
		day := 24 * time.Hour.Milliseconds()
		for i := range 40 {
			p.stored(t, float(i, nowMs-9*day, 1))
		}
		p.stored(t, float(0, nowMs-5*day, 1))
		flushed(t, p, 41)
		for i := range 40 {
			if s, _ := p.head.Lookup(key(i)); (s != nil) != (limit == 400 || i == 0) {
				t.Errorf("limit %d: series %d is there: %t", limit, i, s != nil)
			}
		}
		p.stored(t, float(40, nowMs, 1))
	}
}
