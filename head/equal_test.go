package head_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

var nan, negInf = math.NaN(), math.Inf(-1)

// values are what may stand at one timestamp.
var values = map[string]func(series int, t int64) sample{
	"one":          func(i int, t int64) sample { return float(i, t, 1) },
	"two":          func(i int, t int64) sample { return float(i, t, 2) },
	"zero":         func(i int, t int64) sample { return float(i, t, 0) },
	"minus zero":   func(i int, t int64) sample { return sample{series: i, t: t, v: 1 / negInf} },
	"nan":          func(i int, t int64) sample { return float(i, t, nan) },
	"stale":        func(i int, t int64) sample { return float(i, t, staleNaN) },
	"one started":  func(i int, t int64) sample { return sample{series: i, t: t, st: t - 5, v: 1} },
	"ints":         func(i int, t int64) sample { return ints(i, t, 1) },
	"ints two":     func(i int, t int64) sample { return ints(i, t, 2) },
	"stale ints":   func(i int, t int64) sample { return ints(i, t, -1) },
	"floats":       func(i int, t int64) sample { return floats(i, t, 1) },
	"stale floats": func(i int, t int64) sample { return floats(i, t, -1) },
}

// routes say how two samples of one timestamp, at, come to meet: each writes
// the first, then the second, and whatever else the route needs.
var routes = map[string]func(p *process, t tester, at int64, x, y sample) []sample{
	"one request": func(p *process, t tester, _ int64, x, y sample) []sample {
		p.stored(t, x, y)
		return nil
	},
	"two requests": func(p *process, t tester, _ int64, x, y sample) []sample {
		p.stored(t, x)
		p.stored(t, y)
		return nil
	},
	"in the tail": func(p *process, t tester, at int64, x, y sample) []sample {
		around := []sample{float(x.series, at-1, 7), float(x.series, at+1, 8)}
		p.stored(t, around[0], x, around[1])
		p.stored(t, y)
		return around
	},
	"in a tail of histograms": func(p *process, t tester, at int64, x, y sample) []sample {
		around := []sample{ints(x.series, at-1, 7), ints(x.series, at+1, 8)}
		p.stored(t, around[0])
		p.stored(t, x)
		p.stored(t, around[1])
		p.stored(t, y)
		return around
	},
	"in a sealed chunk": func(p *process, t tester, at int64, x, y sample) []sample {
		p.stored(t, x)
		rest := newer(x.series, at, 70)
		p.stored(t, rest...)
		p.stored(t, y)
		return rest
	},
	"late both": func(p *process, t tester, at int64, x, y sample) []sample {
		rest := newer(x.series, at, 70)
		p.stored(t, rest...)
		p.stored(t, x)
		p.stored(t, y)
		return rest
	},
	"late both, merged between": func(p *process, t tester, at int64, x, y sample) []sample {
		rest := newer(x.series, at, 70)
		p.stored(t, rest...)
		p.stored(t, x)
		rest = append(rest, older(p, t, x.series, at)...)
		p.stored(t, y)
		return append(rest, older(p, t, x.series, at-1000)...)
	},
	"before a gap": func(p *process, t tester, at int64, x, y sample) []sample {
		far := float(x.series, at+hourMs, 1)
		p.stored(t, far)
		p.stored(t, x)
		p.stored(t, y)
		return []sample{far}
	},
	"in another range": func(p *process, t tester, at int64, x, y sample) []sample {
		far := float(x.series, at+5*hourMs, 1)
		p.stored(t, x)
		p.stored(t, far)
		p.stored(t, y)
		return []sample{far}
	},
}

// newer returns n floats after at.
func newer(series int, at int64, n int) []sample {
	out := make([]sample, n)
	for i := range out {
		out[i] = float(series, at+int64(i)+1, float64(i))
	}
	return out
}

// older writes as many floats before at as make the head merge.
func older(p *process, t tester, series int, at int64) []sample {
	var out []sample
	for i := range int64(70) {
		out = append(out, float(series, at-i-1, float64(i)))
	}
	p.stored(t, out...)
	return out
}

// TestEqualTimestamps brings two samples of one timestamp together on every
// route: one rule decides, and decides the same after restarts with other flags.
func TestEqualTimestamps(t *testing.T) {
	for route, write := range routes {
		t.Run(route+", near", func(t *testing.T) { meet(t, route, write, nowMs+10*hourMs+12_345) })
		if testing.Short() {
			continue // one goroutine writes and reads
		}
		t.Run(route+", cold", func(t *testing.T) { meet(t, route, write, nowMs-20*hourMs+12_345) })
	}
}

// meet writes every pair of values, each to a series of its own.
func meet(t *testing.T, route string, write func(p *process, t tester, at int64, x, y sample) []sample, at int64) {
	fs := memfs.New(1)
	p := mustStart(t, fs, nearOptions())
	want := oracle{}
	var pairs []string
	for first, x := range values {
		for second, y := range values {
			i := len(pairs)
			pairs = append(pairs, first+", then "+second)
			a, b := x(i, at), y(i, at)
			want.add(write(p, t, at, a, b)...)
			if route == "one request" {
				want.addBatch([]sample{a, b})
			} else {
				want.add(a, b)
			}
		}
	}
	check := func(when string) {
		t.Helper()
		got, all := p.lines(t, at, at), want.lines(at, at)
		for i := range all {
			if len(got) != len(all) || got[i] != all[i] {
				t.Fatalf("%s, %s: got %v, want %v", pairs[i], when, got[min(i, len(got)-1)], all[i])
			}
		}
		p.holds(t, want)
	}
	check("at once")
	p.stop()
	others := otherOptions()
	if testing.Short() {
		others = others[:1]
	}
	for _, o := range others {
		p = mustStart(t, fs, o)
		check(fmt.Sprintf("after a restart with %d samples a chunk", o.ChunkSamples))
		p.stop()
	}
}

// otherOptions are flags that must not change any answer.
func otherOptions() []head.Options {
	small, raw, narrow := nearOptions(), nearOptions(), nearOptions()
	small.ChunkSamples, small.BlockDuration = 3, time.Second
	raw.Encoding, raw.BlockDuration = chunkenc.EncRaw, 7*time.Minute
	narrow.Accept.Window, narrow.Accept.Retention = 0, time.Minute
	return []head.Options{small, raw, narrow}
}

// TestKindsThatChange writes floats and histograms of one series in any order of
// time: each is read back as what it is.
func TestKindsThatChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := nearOptions()
		o.ChunkSamples = rapid.SampledFrom([]int{2, 8}).Draw(t, "chunk-samples")
		o.BlockDuration = 100 * time.Hour
		p, want := mustStart(t, memfs.New(1), o), oracle{}
		defer p.stop()
		for range rapid.IntRange(1, 40).Draw(t, "samples") {
			at := nowMs - 100*hourMs + 1000*rapid.Int64Range(0, 40).Draw(t, "t")
			s := float(0, at, float64(rapid.IntRange(0, 2).Draw(t, "v")))
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				s = ints(0, at, rapid.IntRange(-1, 1).Draw(t, "v"))
			}
			p.stored(t, s)
			want.add(s)
		}
		p.holds(t, want)
	})
}
