package ooo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// fuzzSample is the number of bytes that make one sample: where it goes and
// what it is, its time (two bytes), its start timestamp, its value.
const fuzzSample = 5

// What the first byte of a sample says.
const (
	fuzzBase  = 1 << iota // it is of the base, not late
	fuzzHist              // it is a histogram
	fuzzFloat             // a float histogram, with fuzzHist
	fuzzCut               // a run of the base begins here
	fuzzPass              // the late samples so far are merged before it
	fuzzFar               // its time lies at the far end of int64
	fuzzStart             // it has a start timestamp
)

// fuzzEvent reads a sample.
func fuzzEvent(b []byte) event {
	e := event{t: int64(int16(uint16(b[1]) | uint16(b[2])<<8))}
	if b[0]&fuzzFar != 0 {
		e.t += math.MinInt64 // wraps: both ends are near
	}
	if b[0]&fuzzStart != 0 {
		e.st = int64(int8(b[3]))
	}
	if b[0]&fuzzHist == 0 {
		e.v = floats[int(b[4])%len(floats)]
		return e
	}
	n := int64(b[4] & 3)
	h := &histogram.Histogram{
		CounterResetHint: hints[b[4]>>2&3],
		Count:            uint64(n), Sum: float64(n), ZeroCount: uint64(b[4] >> 6),
		PositiveSpans:   []histogram.Span{{Offset: int32(b[4] >> 5 & 1), Length: 2}},
		PositiveBuckets: []int64{n, -n},
	}
	if b[4]>>4&1 != 0 {
		h.Sum = stale
	}
	if b[0]&fuzzFloat != 0 {
		e.fh = h.ToFloat(nil)
	} else {
		e.h = h
	}
	return e
}

// FuzzMerge merges in one pass and in several, and compares both with the model.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{fuzzBase, 1, 0, 0, 2, fuzzBase, 3, 0, 0, 2, 0, 2, 0, 0, 3, 0, 3, 0, 0, 2})
	f.Add([]byte{fuzzBase | fuzzHist, 1, 0, 0, 1, fuzzBase | fuzzHist, 5, 0, 0, 8 | 2, fuzzHist, 3, 0, 0, 8 | 1, fuzzPass, 4, 0, 0, 9})
	f.Add([]byte{fuzzFar, 0, 0, 0, 2, fuzzFar, 255, 255, 0, 2, fuzzStart, 0, 0, 7, 8, 0, 0, 0, 0, 2})
	f.Add([]byte{fuzzBase | fuzzHist | fuzzFloat | fuzzStart, 9, 0, 3, 1, fuzzHist, 9, 0, 0, 1, fuzzHist | fuzzFloat, 9, 0, 3, 1, fuzzPass | fuzzFar, 9, 0, 0, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 1000*fuzzSample)]
		var base, late []event
		cuts, passes := map[int64]bool{}, []int{}
		taken := map[int64]bool{}
		for ; len(data) >= fuzzSample; data = data[fuzzSample:] {
			e := fuzzEvent(data)
			if data[0]&fuzzBase != 0 {
				if !taken[e.t] {
					taken[e.t], cuts[e.t] = true, data[0]&fuzzCut != 0
					base = append(base, e)
				}
				continue
			}
			if data[0]&fuzzPass != 0 {
				passes = append(passes, len(late))
			}
			late = append(late, e)
		}
		slices.SortFunc(base, func(a, b event) int {
			if a.t < b.t {
				return -1
			}
			return 1
		})
		all := model{}
		all.arrive(base...)
		all.arrive(late...)
		want, wantStats := all.answer()

		in := runsOf(base, func(e event) bool { return cuts[e.t] })
		merged := fuzzPasses(t, in, late, nil, want, wantStats)
		several := fuzzPasses(t, in, late, passes, want, wantStats)
		if err := same(several, merged); err != nil {
			t.Fatalf("in several passes: %v in one", err)
		}
	})
}

// fuzzPasses merges late into in, in a pass for each part that ends before a
// position in passes, and compares the result with what is wanted.
func fuzzPasses(t *testing.T, in []*chunkenc.Samples, late []event, passes []int, want []event, wantStats ooo.Stats) []event {
	var stats ooo.Stats
	from := 0
	for _, end := range append(slices.Clone(passes), len(late)) {
		out, st := new(ooo.Merger).Merge(in, bufferOf(late[from:end]))
		in, from = out, end
		stats.Duplicates += st.Duplicates
		stats.Overwritten += st.Overwritten
	}
	if err := wellFormed(in); err != nil {
		t.Fatal(err)
	}
	got := eventsOf(in)
	if err := same(got, want); err != nil {
		t.Fatal(err)
	}
	if stats != wantStats {
		t.Fatalf("stats: got %+v, want %+v", stats, wantStats)
	}
	return got
}

// FuzzMergeOfDisorder merges into a base that breaks its promise to ascend, as
// a chunk whose bytes went bad in a way no checksum saw: every sample of the
// base and at most every late one comes out, and nothing else happens.
func FuzzMergeOfDisorder(f *testing.F) {
	f.Add([]byte{fuzzBase, 9, 0, 0, 2, fuzzBase, 3, 0, 0, 2, 0, 2, 0, 0, 3, 0, 3, 0, 0, 2})
	f.Add([]byte{fuzzBase | fuzzHist, 9, 0, 0, 2, fuzzBase, 9, 0, 0, 2, 0, 9, 0, 0, 3, fuzzHist, 3, 0, 0, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 1000*fuzzSample)]
		var base, late []event
		for ; len(data) >= fuzzSample; data = data[fuzzSample:] {
			if e := fuzzEvent(data); data[0]&fuzzBase != 0 {
				base = append(base, e)
			} else {
				late = append(late, e)
			}
		}
		runs, stats := new(ooo.Merger).Merge(runsOf(base, whole), bufferOf(late))
		got := len(eventsOf(runs)) + stats.Duplicates + stats.Overwritten
		if want := len(base) + len(late); got != want {
			t.Fatalf("%d samples in, %d out or counted", want, got)
		}
	})
}
