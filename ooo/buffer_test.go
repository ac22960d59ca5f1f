package ooo_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// Buffers under random operations against a slice.
func TestBufferAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds, starts := drawShape(t)
		var b, dst ooo.Buffer
		var want, moved []event
		inside := func(lo, hi int64) (in, out []event) {
			for _, e := range want {
				if lo <= e.t && e.t <= hi {
					in = append(in, e)
				} else {
					out = append(out, e)
				}
			}
			return in, out
		}
		for range rapid.IntRange(1, 12).Draw(t, "ops") {
			lo, hi := drawTime(t), drawTime(t)
			if rapid.IntRange(0, 2).Draw(t, "whole") == 0 {
				lo, hi = math.MinInt64, math.MaxInt64
			}
			switch rapid.IntRange(0, 7).Draw(t, "op") {
			case 4:
				new(ooo.Merger).Sort(&b)
				slices.SortStableFunc(want, func(a, b event) int { return cmp.Compare(a.t, b.t) })
			case 0:
				b.Reset()
				want = want[:0]
			case 1:
				in, out := inside(lo, hi)
				b.Take(&dst, lo, hi)
				moved, want = append(moved, in...), out
			case 2:
				in, _ := inside(lo, hi)
				b.CopyRange(&dst, lo, hi)
				moved = append(moved, in...)
			case 3:
				dst.Reset()
				moved = nil
			default:
				for _, e := range drawLate(t, kinds, starts) {
					e.add(&b)
					want = append(want, e)
				}
			}
			in, _ := inside(lo, hi)
			if got := b.Count(lo, hi); got != len(in) {
				t.Fatalf("Count(%d, %d) = %d, want %d", lo, hi, got, len(in))
			}
			check(t, "buffer", &b, want)
			check(t, "moved", &dst, moved)
		}
	})
}

// check compares a buffer with the arrivals that it should hold: by its
// figures, and by what a merge makes of a copy.
func check(t *rapid.T, what string, b *ooo.Buffer, want []event) {
	t.Helper()
	mint, maxt := int64(math.MaxInt64), int64(math.MinInt64)
	all := model{}
	for _, e := range want {
		mint, maxt = min(mint, e.t), max(maxt, e.t)
		all.arrive(e)
	}
	if lo, hi := b.Bounds(); b.Len() != len(want) || lo != mint || hi != maxt {
		t.Fatalf("%s: %d samples in [%d, %d], want %d in [%d, %d]", what, b.Len(), lo, hi, len(want), mint, maxt)
	}
	hists := slices.ContainsFunc(want, func(e event) bool { return e.h != nil || e.fh != nil })
	if floats := b.Floats(); floats && hists || !floats && len(want) == 0 {
		t.Fatalf("%s: Floats is %t of %d samples, histograms among them %t", what, floats, len(want), hists)
	}
	var c ooo.Buffer
	b.CopyRange(&c, math.MinInt64, math.MaxInt64)
	var m ooo.Merger
	runs, gotStats := m.Merge(nil, &c)
	events, stats := all.answer()
	if err := same(eventsOf(runs), events); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if gotStats != stats {
		t.Fatalf("%s: stats %+v, want %+v", what, gotStats, stats)
	}
}

// A plain float takes 16 bytes, and what is beside it comes and is counted only once needed.
func TestBufferBytes(t *testing.T) {
	var b ooo.Buffer
	if b.Bytes() != 0 {
		t.Errorf("an empty buffer holds %d bytes", b.Bytes())
	}
	for i := range int64(64) {
		b.Float(i, 0, 1)
	}
	if got := b.Bytes(); got != 16*64 {
		t.Errorf("64 floats hold %d bytes", got)
	}
	b.Float(64, 7, 1)
	starts := b.Bytes()
	if starts < 24*65 {
		t.Errorf("65 floats with a start timestamp hold %d bytes", starts)
	}
	b.Histogram(65, 0, &histogram.Histogram{PositiveBuckets: make([]int64, 1000)}, nil)
	if got := b.Bytes(); got < starts+8000 {
		t.Errorf("a histogram of 8000 bytes raised the bytes from %d to %d", starts, got)
	}
	var out ooo.Buffer
	b.Take(&out, 65, 65)
	if got := b.Bytes(); got >= starts+8000 {
		t.Errorf("the histogram is gone and %d bytes are left", got)
	}
	if out.Bytes() < 8000 {
		t.Errorf("the histogram was moved and counts %d bytes", out.Bytes())
	}
}

// A merge sorts stably whatever the length and order.
func TestMergeSortsStably(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		span := rapid.Int64Range(1, 400).Draw(t, "span")
		seed := rapid.Uint64().Draw(t, "seed")
		starts := rapid.Bool().Draw(t, "starts")
		events := make([]event, n)
		for i := range events {
			seed = seed*6364136223846793005 + 1442695040888963407
			events[i] = event{t: int64(seed>>33) % span, v: float64(i)}
			if starts {
				events[i].st = int64(i) + 1
			}
		}
		switch rapid.IntRange(0, 3).Draw(t, "order") {
		case 0:
			slices.SortStableFunc(events, func(a, b event) int { return int(a.t - b.t) })
		case 1:
			slices.SortStableFunc(events, func(a, b event) int { return int(b.t - a.t) })
		}
		all := model{}
		all.arrive(events...)
		want, _ := all.answer()
		var m ooo.Merger
		runs, _ := m.Merge(nil, bufferOf(events))
		if err := same(eventsOf(runs), want); err != nil {
			t.Fatal(err)
		}
	})
}

// Readers take copies while others read; the race detector watches.
func TestBufferReadersTogether(t *testing.T) {
	var b ooo.Buffer
	for i := range int64(200) {
		b.Float(i*7%200, i%3, float64(i*7%200))
	}
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			var c ooo.Buffer
			var m ooo.Merger
			for range 50 {
				c.Reset()
				b.CopyRange(&c, 50, 149)
				runs, _ := m.Merge(nil, &c)
				want := make([]event, 0, 100)
				for _, e := range eventsOf(runs) {
					want = append(want, event{t: e.t, st: e.st, v: float64(e.t)})
				}
				err := same(eventsOf(runs), want)
				if n := b.Count(50, 149); err == nil && (len(want) != 100 || n != 100) {
					err = fmt.Errorf("%d samples read, %d counted, want 100", len(want), n)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A buffer whose series changed from histograms to floats is plain again once empty.
func TestBufferColumnsGo(t *testing.T) {
	var b ooo.Buffer
	b.Histogram(1, 2, &histogram.Histogram{}, nil)
	b.Reset()
	for i := range int64(10) {
		b.Float(10-i, 0, 1)
	}
	var m ooo.Merger
	runs, _ := m.Merge([]*chunkenc.Samples{{T: []int64{5}, V: []float64{2}}}, &b)
	if err := wellFormed(runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 || runs[0].Len() != 10 {
		t.Fatalf("got %d runs", len(runs))
	}
}

// Whole buffers joined one after the other, in each order that they can be in.
func TestBufferJoin(t *testing.T) {
	for _, c := range [][3][]int64{
		{{1, 2}, {3, 4}, {1, 2, 3, 4}},
		{{5}, {3}, {3, 5}},
		{{1}, {9, 2}, {1, 2, 9}},
		{{9, 1}, {10, 11}, {1, 9, 10, 11}},
		{{}, {2, 1}, {1, 2}},
		{{2, 1}, {}, {1, 2}},
	} {
		var dst, src ooo.Buffer
		for _, at := range c[0] {
			dst.Float(at, 0, float64(at))
		}
		for _, at := range c[1] {
			src.Float(at, 0, float64(at))
		}
		src.Take(&dst, math.MinInt64, math.MaxInt64)
		if lo, hi := dst.Bounds(); lo != c[2][0] || hi != c[2][len(c[2])-1] {
			t.Errorf("%v and %v: bounds %d, %d", c[0], c[1], lo, hi)
		}
		var m ooo.Merger
		runs, _ := m.Merge(nil, &dst)
		if len(runs) != 1 || !slices.Equal(runs[0].T, c[2]) || src.Len() != 0 {
			t.Errorf("%v and %v: got %v", c[0], c[1], runs[0].T)
		}
	}
}

// What stays behind goes on being counted.
func TestBufferBytesAfterTake(t *testing.T) {
	var b, out ooo.Buffer
	for i := range int64(3) {
		b.Histogram(i, 0, nil, &histogram.FloatHistogram{PositiveBuckets: make([]float64, 1000)})
	}
	three := b.Bytes()
	b.Take(&out, 1, 1)
	if got := three - b.Bytes(); got < 8000 || got > 9000 {
		t.Errorf("one of three histograms of 8000 bytes went and took %d bytes along", got)
	}
}
