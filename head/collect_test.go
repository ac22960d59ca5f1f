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
