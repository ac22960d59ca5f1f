package head_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

// TestSamplesOfAllAgesTakeFewContainers writes samples that are days apart, back
// to the beginning of time: neither their number nor their spread may make the
// head hold a container, or a page, for each.
func TestSamplesOfAllAgesTakeFewContainers(t *testing.T) {
	for name, keep := range map[string]time.Duration{"all is kept": 0, "100 years are kept": 100 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Accept.Retention = keep
			p := run(t, o)
			var list []sample
			want := oracle{}
			for i := range 20_000 {
				list = append(list, float(1, nowMs-int64(i)*24*time.Hour.Milliseconds(), float64(i)))
			}
			if keep == 0 {
				for back := int64(1 << 40); back > 0; back *= 2 {
					list = append(list, float(1, nowMs-back, 7), float(1, nowMs-back-back/3, 8))
				}
				list = append(list, float(1, math.MinInt64, 1), float(1, math.MinInt64+1, 2))
			}
			p.stored(t, list...)
			want.add(list...)
			p.holds(t, want)
			if n := len(p.head.Containers()); n > 2000 {
				t.Errorf("%d containers", n)
			}
			if n := p.head.ColdBytes(); n > 4<<20 {
				t.Errorf("%d samples take %d bytes", len(list), n)
			}
			infos := p.head.Containers()
			for i, c := range infos[:len(infos)-1] {
				if c.Hi >= infos[i+1].Lo {
					t.Errorf("[%d, %d] overlaps [%d, %d]", c.Lo, c.Hi, infos[i+1].Lo, infos[i+1].Hi)
				}
			}
			flushed(t, p, len(list))
		})
	}
}

// frozen freezes all.
func frozen(t *testing.T, p *process) []*head.Frozen {
	t.Helper()
	list, err := p.head.Freeze(t.Context(), func(head.ContainerInfo) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// drop drops what is frozen, and expects that what is left counts as nothing. It returns
// how many samples were put there.
func drop(t *testing.T, p *process, list []*head.Frozen) (samples int) {
	t.Helper()
	for _, f := range list {
		samples += f.Samples()
		if err := p.head.Drop(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.head.ColdBytes(); n != 0 {
		t.Errorf("%d bytes left", n)
	}
	return samples
}

// flushed freezes and drops all.
func flushed(t *testing.T, p *process, samples int) {
	t.Helper()
	if n := drop(t, p, frozen(t, p)); n != samples {
		t.Errorf("%d samples frozen of %d", n, samples)
	}
}

// TestSamplesLongOverArePacked writes a range that is long over in random order,
// what stands beside floats included: memory holds it as chunks, and reads,
// deletes, a restart and a flush find what was written.
func TestSamplesLongOverArePacked(t *testing.T) {
	const base, steps, step = nowMs - 1000*int64(time.Hour/time.Millisecond), 500, 15_000
	rng := rand.New(rand.NewPCG(1, 2))
	fs, want := memfs.New(1), oracle{}
	p := mustStart(t, fs, options())
	held := []int64{0, 0}
	for round := range 100 {
		var list []sample
		for range 50 {
			k := rng.Int64N(steps)
			at := base + k*step
			started := float(1, at, float64(k))
			started.st = base + k/100*step
			list = append(list, float(0, at, float64(7*k)), started, float(2, at, float64(k)))
			switch {
			case rng.IntN(4) == 0:
				list = append(list, float(2, at, staleNaN), float(2, base+rng.Int64N(steps)*step, staleNaN))
			case round == 40:
				list = append(list, ints(3, at, int(k)))
			default:
				list = append(list, float(3, at, float64(k)))
			}
		}
		for series := range 4 { // of one batch, floats come before histograms
			p.stored(t, slices.DeleteFunc(slices.Clone(list), func(s sample) bool { return s.series != series })...)
		}
		want.add(list...)
		held[round/50] = p.head.ColdBytes()
	}
	p.holds(t, want)
	p.holdsIn(t, want, base+100*step+1, base+103*step)
	if n := (held[1] - held[0]) / (50 * 200); n > 12 {
		t.Errorf("each of the later samples took %d bytes", n)
	}
	p.delete(t, deleteOf(base+200*step, base+300*step, "0|1|2|3"), deleteOf(base, base+steps*step, "2"))
	delete(want, 2)
	for _, m := range want {
		maps.DeleteFunc(m, func(at int64, _ sample) bool { return at >= base+200*step && at <= base+300*step })
	}
	p.holds(t, want)
	for range 2 {
		more := []sample{float(0, base+250*step, rng.Float64()), float(2, base+250*step, rng.Float64())}
		p.stored(t, more...)
		want.add(more...)
		p.holds(t, want)
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		p = mustStart(t, fs, options())
		p.holds(t, want)
	}
	list := frozen(t, p)
	p.holds(t, want)
	drop(t, p, list)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
}

// TestCatchingUp writes two ranges that are long over in order of time, as a sender
// does that was away, with late, equal and other samples among them: memory holds
// little of each, and reads, deletes, a restart and a flush find what was written.
func TestCatchingUp(t *testing.T) {
	const base, steps, step = nowMs - 1000*int64(time.Hour/time.Millisecond), 4000, 15_000
	rng := rand.New(rand.NewPCG(1, 3))
	fs, want := memfs.New(1), oracle{}
	p := mustStart(t, fs, options())
	write := func(list ...sample) {
		p.stored(t, list...)
		want.add(list...)
	}
	held, deleted := int64(0), deleteOf(base+500*step, base+1500*step+1, "0|1")
	for k := range int64(steps) {
		at := base + k*step
		write(float(0, at, float64(7*k)), float(1, at, rng.Float64()))
		if k == steps/8 {
			held = p.head.ColdBytes()
		}
		if k == 2*steps/8 {
			if n := (p.head.ColdBytes() - held) / (2 * steps / 8); n > 8 {
				t.Errorf("each of the later samples took %d bytes", n)
			}
		}
		if k < 2*steps/8 {
			continue
		}
		at -= rng.Int64N(k) * step
		late := float(rng.IntN(2), at, float64(k))
		started := float(0, base+k*step+1, 1)
		started.st = base
		switch rng.IntN(20) {
		case 0:
			write(late, float(0, base+k*step, 1), float(1, base+k*step, staleNaN))
		case 1:
			write(started)
		case 2:
			write(ints(0, base+k*step+2, int(k)))
		case 3:
			late.v = staleNaN
			write(late)
		case 4:
			p.delete(t, deleteOf(at, at+2*step, "0"))
			maps.DeleteFunc(want[0], func(x int64, _ sample) bool { return x >= at && x <= at+2*step })
		}
	}
	p.holds(t, want)
	p.holdsIn(t, want, base+100*step+1, base+103*step)
	p.delete(t, deleted)
	for i := range 2 {
		maps.DeleteFunc(want[i], func(x int64, _ sample) bool { return x >= deleted.MinT && x <= deleted.MaxT })
	}
	p.holds(t, want)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p = mustStart(t, fs, options())
	p.holds(t, want)
	list := frozen(t, p)
	p.holds(t, want)
	p.delete(t, deleteOf(base+2000*step, base+2100*step, "1"))
	maps.DeleteFunc(want[1], func(x int64, _ sample) bool { return x >= base+2000*step && x <= base+2100*step })
	p.holds(t, want)
	drop(t, p, list)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
}

// TestLongStreamIsPacked writes more of a series in order of time than a stream of a cold
// run holds, of values that take all their bytes, and then so many late ones that the rest
// is packed, too.
func TestLongStreamIsPacked(t *testing.T) {
	const base = nowMs - 1000*int64(time.Hour/time.Millisecond)
	rng := rand.New(rand.NewPCG(5, 6))
	p, want := run(t, options()), oracle{}
	for _, n := range []int64{20_000, 1000} {
		var list []sample
		for i := range n {
			at := base + 10*i
			if n < 20_000 {
				at += 5 // all late
			}
			list = append(list, float(0, at, math.Float64frombits(rng.Uint64()>>2)))
		}
		p.stored(t, list...)
		want.add(list...)
		got, packed := p.head.View().Size(p.series(0), math.MinInt64, math.MaxInt64)
		if got != len(want[0]) {
			t.Errorf("%d samples counted, %d written", got, len(want[0]))
		}
		if least := 8 * (got - 10_000); packed < least {
			t.Errorf("%d bytes of %d samples are packed, want at least %d", packed, got, least)
		}
	}
	p.holds(t, want)
}

// TestErasedSamplesLongOverTakeNothing writes and deletes again and again: what was
// deleted neither takes memory nor counts as there, in a frozen container, either.
func TestErasedSamplesLongOverTakeNothing(t *testing.T) {
	const base = nowMs - 1000*int64(time.Hour/time.Millisecond)
	p, want := run(t, options()), oracle{}
	held := int64(0)
	for round := range int64(20) {
		if round > 0 {
			p.delete(t, deleteOf(base, base+1000, "[0-9]+"))
			clear(want)
			p.holds(t, want)
		}
		var list []sample
		for i := range 50 {
			started := float(i, base+500, 7)
			started.st = base
			list = append(list, float(i, base+5*round, 1), float(i, base+10*round+500, 2), started)
		}
		p.stored(t, list...)
		want.add(list...)
		if round == 0 {
			held = p.head.ColdBytes()
		}
	}
	if n := p.head.ColdBytes(); n != held {
		t.Errorf("%d bytes held after the first round, %d after the last", held, n)
	}
	inOrder := []sample{float(99, base, 1), float(99, base+1, 2), float(99, base+2, 3)}
	p.stored(t, inOrder...)
	want.add(inOrder...)
	frozen(t, p)
	p.delete(t, deleteOf(base, base+1, "99"))
	delete(want[99], base)
	delete(want[99], base+1)
	p.holds(t, want)
	p.delete(t, deleteOf(base+2, base+2, "99"))
	delete(want, 99)
	p.holds(t, want)
}

// TestDeletesOfSamplesLongOver deletes instants and stretches between writes of a range
// that is long over: what came first still gives way to what came later, and a delete
// takes memory for what it touches alone.
func TestDeletesOfSamplesLongOver(t *testing.T) {
	const base, span = nowMs - 1000*int64(time.Hour/time.Millisecond), 20_000
	rng := rand.New(rand.NewPCG(3, 4))
	fs, want := memfs.New(1), oracle{}
	p := mustStart(t, fs, options())
	erase := func(at, to int64) {
		p.delete(t, deleteOf(at, to, "0"))
		maps.DeleteFunc(want[0], func(t int64, _ sample) bool { return t >= at && t <= to })
	}
	for round := range 100 {
		var list []sample
		for range 300 {
			list = append(list, float(0, base+rng.Int64N(span), rng.Float64()))
		}
		p.stored(t, list...)
		want.add(list...)
		at := base + rng.Int64N(span)
		erase(at, at+rng.Int64N(40))
		if round%20 == 0 {
			p.holds(t, want)
		}
	}
	before := p.head.ColdBytes()
	for range 200 {
		at := base + rng.Int64N(span)
		erase(at, at)
	}
	if n := p.head.ColdBytes() - before; n > 256<<10 {
		t.Errorf("200 deletes of an instant took %d bytes, the samples %d", n, before)
	}
	p.holds(t, want)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p = mustStart(t, fs, options())
	p.holds(t, want)
	erase(base, base+span)
	flushed(t, p, p.head.Containers()[0].Samples)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
}
