package rounds

import (
	"math"
	"runtime"
	"slices"
)

// A round takes roundNs of each variant at least. Their number is odd, so that there is
// a median one.
const (
	count   = 45
	roundNs = 1.5e6
)

// Timing is what Race measured of one variant: ns of CPU time per unit, the median of
// the rounds and the least pass, and the median of the rounds' ratios to variant 0.
type Timing struct{ Ns, Least, Ratio float64 }

// Race runs the variants in turn, each of which does so many units of work.
func Race(units int, variants ...func()) []Timing {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all := make([][]float64, len(variants))
	out := make([]Timing, len(variants))
	for i := range out {
		out[i].Least = math.Inf(1)
	}
	for range count {
		for i, f := range variants {
			f() // to warm the caches
			var sum, passes float64
			for ; passes < 50 && sum < roundNs; passes++ {
				start := CPUTime()
				f()
				ns := float64(CPUTime() - start)
				sum += ns
				out[i].Least = min(out[i].Least, ns/float64(units))
			}
			all[i] = append(all[i], sum/passes/float64(units))
		}
	}
	ratios := make([]float64, count)
	for i := len(variants) - 1; i >= 0; i-- { // the first last: it is what the others are divided by
		for k := range ratios {
			ratios[k] = all[i][k] / all[0][k]
		}
		slices.Sort(ratios)
		slices.Sort(all[i])
		out[i].Ns, out[i].Ratio = all[i][count/2], ratios[count/2]
	}
	return out
}
