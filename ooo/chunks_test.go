package ooo_test

import (
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// reseal seals runs, and opens the chunks again, a run for each.
func reseal(t *rapid.T, runs []*chunkenc.Samples) []*chunkenc.Samples {
	var enc chunkenc.Encoder
	var dec chunkenc.Decoder
	var out []*chunkenc.Samples
	for _, r := range runs {
		chunks := enc.Seal(nil, r)
		for i := range chunks {
			s := &chunkenc.Samples{}
			if err := dec.Decode(s, &chunks[i]); err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
	}
	return out
}

// Passes with the codec between them, as the samples of a series live: what is
// read at the end is what the model says, but that no histogram claims that there
// was no reset.
func TestMergeThroughChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds, starts := drawShape(t)
		base := drawBase(t, kinds, starts)
		all := model{}
		all.arrive(base...)
		in := reseal(t, runsOf(base, whole))
		var m ooo.Merger
		for range rapid.IntRange(1, 4).Draw(t, "passes") {
			late := drawLate(t, kinds, starts)
			all.arrive(late...)
			runs, _ := m.Merge(in, bufferOf(late))
			in = reseal(t, runs)
		}
		want, _ := all.answer()
		for i, e := range want {
			if e.hint() != histogram.NotCounterReset {
				continue
			}
			if e.h != nil {
				e.h = e.h.Copy()
				e.h.CounterResetHint = histogram.UnknownCounterReset
			} else {
				e.fh = e.fh.Copy()
				e.fh.CounterResetHint = histogram.UnknownCounterReset
			}
			want[i] = e
		}
		if err := same(eventsOf(in), want); err != nil {
			t.Fatal(err)
		}
	})
}
