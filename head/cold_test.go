package head_test

import (
	"math"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
)

// TestSamplesOfAllAgesTakeFewContainers writes samples that are days apart, back
// to the beginning of time: neither their number nor their spread may make the
// head hold a container, or a page of rows, for each.
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

// flushed freezes and drops all, and expects that what is left counts as nothing.
func flushed(t *testing.T, p *process, samples int) {
	t.Helper()
	list, err := p.head.Freeze(t.Context(), func(head.ContainerInfo) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range list {
		n += f.Samples()
		if err := p.head.Drop(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if n != samples || p.head.ColdBytes() != 0 {
		t.Errorf("%d samples frozen of %d, %d bytes left", n, samples, p.head.ColdBytes())
	}
}
