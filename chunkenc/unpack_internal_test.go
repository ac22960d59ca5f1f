package chunkenc

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Every kernel gives what a loop over single bits gives.
func TestKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	for width := range uint(65) {
		for _, n := range []int{8, 16, 64, 256} {
			src := make([]uint64, n)
			for i := range src {
				src[i] = r.Uint64()
				if width < 64 {
					src[i] &= 1<<width - 1
				}
			}
			over, base := make([]uint64, n), r.Uint64()
			for i, v := range src {
				over[i] = v + base
			}
			packed := pack(nil, over, base, width)
			if want := (n*int(width) + 7) / 8; len(packed) != want {
				t.Fatalf("width %d: %d numbers in %d bytes, want %d", width, n, len(packed), want)
			}
			acc, step := int64(r.Uint64()), int64(r.Uint64())
			plain, sums := make([]int64, n), make([]int64, n)
			unpack(&unpackFor, plain, packed, width, acc, step)
			unpack(&unpackDelta, sums, packed, width, acc, step)
			sum := acc
			for i := range src {
				var v uint64
				for bit := range int(width) {
					at := i*int(width) + bit
					v |= uint64(packed[at/8]>>(at%8)&1) << bit
				}
				sum += step + int64(v)
				if want := acc + int64(i)*step + int64(v); v != src[i] || plain[i] != want || sums[i] != sum {
					t.Fatalf("width %d, number %d of %d: got %d and %d, want %d and %d", width, i, n, plain[i], sums[i], want, sum)
				}
			}
		}
	}
}

// Up to shortBound bits a float's exponent gives what counting bits gives.
func TestFloatExponent(t *testing.T) {
	for width := range shortBound + 1 {
		for _, d := range []int64{0, 1<<width - 1, -1 << width, 1 << width / 2, -1<<width/2 - 1} {
			got := int(floatExponent(d)&exponentMask) - exponentOfOne
			if magnitude(d) <= shortBound && got != magnitude(d) {
				t.Errorf("%d: got %d, want %d", d, got, magnitude(d))
			}
		}
	}
	for _, r := range [][]int64{{0, 1 << 51, -1<<51 - 1}, {math.MaxInt64, 1, math.MinInt64}, {1<<60 - 1, 0, 1<<53 - 1}} {
		if got, want := spread(r), magnitude(r[0]-median3(r[0], r[1], r[2]))+magnitude(r[1]-median3(r[0], r[1], r[2]))+magnitude(r[2]-median3(r[0], r[1], r[2])); got != want {
			t.Errorf("%v: spread %d, want %d", r, got, want)
		}
	}
}

// A source that is too short is our own bug and must not be read past.
func TestUnpackChecksItsSource(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("unpack read past its source")
		}
	}()
	unpack(&unpackFor, make([]int64, 16), make([]byte, 25), 13, 0, 0)
}
