package head

import (
	"math"
	"slices"
	"testing"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// TestPlacesBeyond4GiB packs and erases where a run holds more bytes than 32 bits count.
func TestPlacesBeyond4GiB(t *testing.T) {
	a, r, s := newApplier(Options{ChunkSamples: coldPack}), coldRun{}, &Series{ref: 1}
	r.pages = make([][]byte, math.MaxUint32/coldPage+2) // of others
	var want []int64
	for i := int64(19_999); i >= 0; i-- { // newest first: but for the first few all are packed
		c, _ := r.add(s, &sample{t: i, v: math.Float64frombits(uint64(i) * 0x9e3779b97f4a7c15)})
		a.pack(&r, c)
		if i%1000 != 999 {
			want = append(want, i)
		}
	}
	if c := r.series.of(s); c.last <= math.MaxUint32 {
		t.Fatalf("the newest chunk is at %d", c.last)
	}
	for i := int64(999); i < 20_000; i += 1000 {
		a.eraseCold(&r, s, i, i)
	}
	var sorted runList
	var late ooo.Buffer
	a.cold.copy(&sorted, &late, &r, s, math.MinInt64, math.MaxInt64)
	var times []int64
	for _, run := range a.merge(sorted.list, &late) {
		if run.Kind != chunkenc.KindFloat {
			t.Fatalf("a run of %v", run.Kind)
		}
		times = append(times, run.T...)
	}
	slices.Reverse(want)
	if !slices.Equal(times, want) {
		t.Errorf("%d samples read, %d written", len(times), len(want))
	}
}
