package head

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// TestFrozenContainersHoldWhatTheRuleSays freezes containers, near and cold
// ones, at random between samples of any age. Reads must not notice, and what
// a flush would make of the containers must read the same, merged in order.
func TestFrozenContainersHoldWhatTheRuleSays(t *testing.T) {
	for _, kinds := range []int{0, 2} {
		t.Run(fmt.Sprint("kinds ", kinds+1), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkFreezing(t, kinds) })
		})
	}
}

func checkFreezing(t *rapid.T, kinds int) {
	h, c := testHead(t, Options{BlockDuration: time.Second, ChunkSamples: 16})
	s := testSeries(h, "m")
	c.nowMs = rapid.Int64Range(0, 10_000).Draw(t, "now")
	want := oracle{}
	times := rapid.Custom(func(t *rapid.T) int64 { return 10 * rapid.Int64Range(-100, 800).Draw(t, "i") })
	cursor := int64(-1000)
	for range rapid.IntRange(1, 300).Draw(t, "n") {
		switch rapid.IntRange(0, 20).Draw(t, "what") {
		case 0:
			at := times.Draw(t, "freeze")
			c.freeze(func(box *Container) bool { return box.contains(at) })
		case 1:
			c.nowMs += rapid.Int64Range(0, 1000).Draw(t, "pass")
		default:
			x := drawSample(t, times, kinds)
			if rapid.Bool().Draw(t, "order") {
				cursor += 10
				x.t = cursor
			}
			c.place(s, 1, &x)
			want.add(x)
		}
	}
	if got := readAll(t, h, s, math.MinInt64, math.MaxInt64); !slices.Equal(got, want.in(math.MinInt64, math.MaxInt64)) {
		t.Fatalf("read:\n got %v\nwant %v", got, want.in(math.MinInt64, math.MaxInt64))
	}
	c.freeze(func(*Container) bool { return true })
	var layers []ooo.Layer
	for _, box := range h.containers.Load().frozen {
		layers = append(layers, layerOf(t, &Frozen{h, box, newFinisher(h.options)}))
	}
	got := readLayers(t, layers)
	if !slices.Equal(got, want.in(math.MinInt64, math.MaxInt64)) {
		t.Fatalf("flushed:\n got %v\nwant %v", got, want.in(math.MinInt64, math.MaxInt64))
	}
}

// layerOf makes a layer of the chunks that a flush of f would write.
func layerOf(t *rapid.T, f *Frozen) ooo.Layer {
	var chunks []chunkenc.Chunk
	err := f.Each(context.Background(), func(_ labels.Labels, list []chunkenc.Chunk) error {
		for i := range list {
			if i > 0 && list[i].MinT <= list[i-1].MaxT {
				t.Fatalf("chunk %d begins at %d, before the end of the one before, %d", i, list[i].MinT, list[i-1].MaxT)
			}
		}
		chunks = append(chunks, list...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	lo, hi := f.Range()
	return ooo.Layer{Lo: lo, Hi: hi, Read: func(lo, hi int64, emit func(*chunkenc.Samples) error) error {
		var dec chunkenc.Decoder
		for i := range chunks {
			s := &chunkenc.Samples{}
			s.Reset(chunks[i].Kind())
			if err := dec.Decode(s, &chunks[i]); err != nil {
				return err
			}
			a, b := 0, len(s.T)
			for a < b && s.T[a] < lo {
				a++
			}
			for b > a && s.T[b-1] > hi {
				b--
			}
			if a < b {
				cut := s.Slice(a, b)
				if err := emit(&cut); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

func readLayers(t *rapid.T, layers []ooo.Layer) []string {
	var stack ooo.Stack
	var out []string
	err := stack.Read(layers, math.MinInt64, math.MaxInt64, 700, func(run *chunkenc.Samples) error {
		out = append(out, describeRun(run)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
