package chunkenc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rwsink/rwsink/chunkenc"
)

// No chunk may be longer than an XOR chunk by more than 2 % and 8 bytes, whether
// that one is cut at 120 samples or not.
func checkBound(t testing.TB, what string, s *chunkenc.Samples) {
	t.Helper()
	var e chunkenc.Encoder
	plain := *s
	plain.ST = nil
	size := len(e.AppendFloats(nil, &plain, false))
	whole, cut := len(chunkenc.AppendXOR(nil, s.T, s.V)), 0
	for i := 0; i < s.Len(); i += 120 {
		part := s.Slice(i, min(i+120, s.Len()))
		cut += len(chunkenc.AppendXOR(nil, part.T, part.V))
	}
	if most := 1.02*float64(whole) + 8; float64(size) > most {
		t.Fatalf("%s: %d samples take %d bytes; an XOR chunk %d, cut at 120 %d", what, s.Len(), size, whole, cut)
	}
}

func TestNeverLongerThanXOR(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	for i := range few(3000) {
		checkBound(t, fmt.Sprintf("batch %d", i), floats(r, 1+r.IntN(500)))
	}
	for _, s := range shapes() {
		for _, n := range []int{1, 2, 3, 10, 120, 240, 1000} {
			for _, run := range cut(s.series[:few(3)], n) {
				checkBound(t, s.name, &run)
			}
		}
	}
	for _, name := range []string{"prom-jitter.rwd.gz", "nab-real.rwd.gz"} {
		series, err := loadSeries(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range cut(series[:few(len(series))], 240) {
			checkBound(t, name, &run)
		}
	}
}

// Real series come back bit by bit at every size of chunk, as XOR chunks too.
func TestRealSeries(t *testing.T) {
	for _, name := range []string{"prom-jitter.rwd.gz", "nab-real.rwd.gz"} {
		series, err := loadSeries(name)
		if err != nil {
			t.Fatal(err)
		}
		series = series[:few(len(series))]
		var e chunkenc.Encoder
		for _, n := range []int{120, 240, 1000, 4000} {
			for _, run := range cut(series, n) {
				checkEqual(t, decodeAll(t, e.Seal(nil, &run)), &run)
			}
		}
		for _, run := range cut(series, 120) {
			checkXOR(t, &run)
		}
	}
}

// Neighbours of an outlier stay exact, wherever it stands and however far out it is.
func TestOutliers(t *testing.T) {
	var e chunkenc.Encoder
	for _, out := range nastyFloats {
		for _, at := range []int{0, 1, 2, 7, 8, 50, 238, 239} {
			s := &chunkenc.Samples{}
			for i := range 240 {
				s.T, s.V = append(s.T, int64(i)*1000), append(s.V, float64(i%10)/10)
			}
			s.V[at] = out
			checkEqual(t, decodeAll(t, e.Seal(nil, s)), s)
			s.T[239] = math.MaxInt64
			for i := 0; i < at && i < 239; i++ {
				s.T[i] += math.MinInt64
			}
			checkEqual(t, decodeAll(t, e.Seal(nil, s)), s)
		}
	}
}

// Gaps and jumps of every size.
func TestTimeJumps(t *testing.T) {
	var e chunkenc.Encoder
	for bit := range 63 {
		for _, at := range []int{1, 2, 100, 199} {
			s := &chunkenc.Samples{}
			next := int64(math.MinInt64)
			for i := range 200 {
				if i == at {
					next += 1<<bit - 1
				}
				s.T, s.V = append(s.T, next), append(s.V, 1)
				next += 1 + int64(i%3)
			}
			checkEqual(t, decodeAll(t, e.Seal(nil, s)), s)
			checkXOR(t, s)
		}
	}
}

// Nothing is allocated once the caller's memory is large enough.
func TestNoAllocations(t *testing.T) {
	series, err := loadSeries("prom-jitter.rwd.gz")
	if err != nil {
		t.Fatal(err)
	}
	nab, err := loadSeries("nab-real.rwd.gz")
	if err != nil {
		t.Fatal(err)
	}
	var sets []*chunkenc.Samples
	for _, s := range append(series[:60:60], nab...) {
		part := s.Slice(0, min(240, s.Len()))
		sets = append(sets, &part)
	}
	for _, s := range shapes() {
		part := s.series[0].Slice(0, 240)
		sets = append(sets, &part)
	}
	withStart := sets[0].Slice(0, sets[0].Len())
	withStart.ST = make([]int64, withStart.Len())
	for i := range withStart.ST {
		withStart.ST[i] = int64(i / 50)
	}
	sets = append(sets, &withStart)
	var e chunkenc.Encoder
	var d chunkenc.Decoder
	var out []byte
	var got chunkenc.Samples
	var chunks []chunkenc.Chunk
	for _, s := range sets {
		chunks = e.Seal(chunks, s)
		chunks = e.SealShared(chunks, s, e.Times(s.T))
	}
	check := func(what string, f func()) {
		f() // the memory grows here
		if n := testing.AllocsPerRun(5, f); n != 0 {
			t.Errorf("%s allocates %v times", what, n)
		}
	}
	check("encode", func() {
		for _, s := range sets {
			out = e.AppendFloats(out[:0], s, false)
			out = e.AppendTimes(out[:0], s.T)
		}
	})
	decode := func(f func(c *chunkenc.Chunk) error) func() {
		return func() {
			for i := range chunks {
				got.Reset(chunkenc.KindFloat)
				if err := f(&chunks[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	check("decode", decode(func(c *chunkenc.Chunk) error { return d.Decode(&got, c) }))
	check("decode of a range", decode(func(c *chunkenc.Chunk) error {
		return d.DecodeRange(&got, c, c.MinT+1, c.MinT+(c.MaxT-c.MinT)/2)
	}))
	check("transcode", decode(func(c *chunkenc.Chunk) error {
		err := d.Decode(&got, c)
		out = chunkenc.AppendXOR(out[:0], got.T, got.V)
		return err
	}))
}
