package chunkenc_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/chunkenc"
)

// golden is a chunk of one form, which stands in testdata/golden as bytes and as
// what Dump prints of it. UPDATE_GOLDEN=1 writes them anew.
type golden struct {
	name   string
	says   string // words of the dump that show the form
	enc    chunkenc.Encoding
	shared bool
	s      *chunkenc.Samples
}

const goldenStart int64 = 1_700_000_000_000

// goldens are built without math functions whose last bit may differ by platform.
func goldens() []golden {
	grid := func(n int, jitter int64) []int64 {
		r := rand.New(rand.NewPCG(61, uint64(n)))
		t := make([]int64, n)
		for i := range t {
			t[i] = goldenStart + int64(i)*15_000
			if jitter > 0 {
				t[i] += r.Int64N(jitter)
			}
		}
		return t
	}
	f := func(t []int64, v func(i int) float64) *chunkenc.Samples {
		s := &chunkenc.Samples{T: t}
		for i := range t {
			s.V = append(s.V, v(i))
		}
		return s
	}
	r := rand.New(rand.NewPCG(62, 63))
	zero := func(int) float64 { return 0 }
	gap := grid(20, 3)
	for i := 9; i < 20; i++ {
		gap[i] += 3_600_000
	}
	late := grid(40, 4)
	for _, i := range []int{5, 17, 33} {
		late[i] += 900
	}
	several := grid(60, 0) // one regime after another: nothing packs as well as bits
	for i := 31; i < 60; i++ {
		several[i] = several[i-1] + 60_000
	}
	for i := 45; i < 60; i++ {
		several[i] = several[i-1] + 7_001
	}
	at := 0.0
	counter := func(int) float64 { at += float64(r.IntN(50)); return at }
	step := func(i int) float64 { return float64(i / 11 * (i / 11) * 1000) }
	many := func(i int) float64 { // a counter with jumps at every other place in a stretch
		at += float64(r.IntN(3))
		if i%2 == 0 && i > 20 {
			at += 1e12 * float64(1+r.IntN(5))
		}
		return at
	}
	sum := 0.0
	starts := f(grid(12, 5), counter)
	starts.ST = []int64{0, 0, 0, goldenStart, goldenStart, goldenStart, goldenStart + 60_000, goldenStart + 60_000, goldenStart + 60_000, goldenStart + 60_000, 0, 0}
	odd := f(grid(60, 0), func(i int) float64 { return float64(i*i) / 4 })
	odd.V[0], odd.V[3], odd.V[4], odd.V[9] = staleNaN, math.Copysign(0, -1), staleNaN, math.Float64frombits(0x7ff8dead00000001)
	list := []golden{
		{name: "times-linear", says: "linear", s: f(grid(64, 8), zero)},
		{name: "times-delta", says: "delta", s: f(gap, zero)},
		{name: "times-regular", says: "shift 63", s: f(grid(24, 0), zero)},
		{name: "times-exceptions", says: "exceptions", s: f(late, zero)},
		{name: "times-bits", says: "XOR bits of", s: f(several, zero)},
		{name: "one-sample", says: "constdec, e=2", s: f(grid(1, 0), func(int) float64 { return 17.25 })},
		{name: "const", says: "as const", s: f(grid(5, 0), func(int) float64 { return math.Pi })},
		{name: "constdec", says: "constdec, e=2", s: f(grid(5, 0), func(int) float64 { return -17.25 })},
		{name: "decimal", says: "decimal, e=2", s: f(grid(24, 0), func(int) float64 { return float64(r.IntN(10000)) / 100 })},
		{name: "decimal-counter", says: "decimal, e=0", s: f(grid(24, 0), counter)},
		{name: "decimal-exceptions", says: "exceptions", s: odd},
		{name: "decimal-shift", says: "shift 12", s: f(grid(24, 0), func(int) float64 { return float64(1<<20+r.IntN(90)) * 4096 })},
		{name: "runs-list", says: "list of runs", s: f(grid(60, 0), step)},
		{name: "runs-bitmap", says: "bitmap of runs", s: f(grid(40, 0), func(i int) float64 { return float64(i * 7 / 13 % 5 * 1000) })},
		{name: "block-bitmap", says: "      bitmap", s: f(grid(60, 0), many)},
		{name: "ulp", says: "ulp, e=", s: f(grid(40, 0), func(int) float64 { sum += float64(1+r.IntN(90)) / 10; return sum })},
		{name: "bits", says: "as bits", s: f(grid(24, 0), func(int) float64 { return r.Float64() })},
		{name: "xor", says: "as xor", s: f(grid(60, 0), func(i int) float64 {
			return [...]float64{0.35108199834483833, 0.3649784615674464, math.NaN()}[i*i/1400]
		})},
		{name: "starts", says: "starts", s: starts},
		{name: "shared", says: "shared times", shared: true, s: f(grid(24, 5), counter)},
		{name: "raw", says: "as plain", enc: chunkenc.EncRaw, s: starts},
		{name: "raw-shared", says: "shared times", enc: chunkenc.EncRaw, shared: true, s: starts},
	}
	for _, hint := range []histogram.CounterResetHint{histogram.UnknownCounterReset, histogram.CounterReset, histogram.GaugeType} {
		list = append(list, goldenHistograms(hint)...)
	}
	return list
}

func goldenHistograms(hint histogram.CounterResetHint) []golden {
	hs := &chunkenc.Samples{Kind: chunkenc.KindHistogram}
	fs := &chunkenc.Samples{Kind: chunkenc.KindFloatHistogram}
	for i := range 5 {
		h := &histogram.Histogram{
			CounterResetHint: histogram.UnknownCounterReset, Schema: 2, ZeroThreshold: 1e-3, ZeroCount: 1,
			Count: uint64(10 + 3*i), Sum: 2.5 * float64(i),
			PositiveSpans: []histogram.Span{{Offset: -2, Length: 2}, {Offset: 1, Length: 1}}, PositiveBuckets: []int64{int64(3 + i), 1, int64(i)},
		}
		if i == 0 || hint == histogram.GaugeType {
			h.CounterResetHint = hint
		}
		t := goldenStart + 15_000*int64(i)
		hs.T, hs.ST, hs.H = append(hs.T, t), append(hs.ST, goldenStart), append(hs.H, h)
		fs.T, fs.ST, fs.FH = hs.T, hs.ST, append(fs.FH, h.ToFloat(nil))
	}
	says := map[histogram.CounterResetHint]string{histogram.UnknownCounterReset: "unknown", histogram.CounterReset: "counter reset", histogram.GaugeType: "gauge"}[hint]
	name := strings.ReplaceAll(says, " ", "-")
	return []golden{
		{name: "histogram-" + name, says: says, s: hs},
		{name: "floathistogram-" + name, says: says, s: fs},
	}
}

func TestGolden(t *testing.T) {
	for _, g := range goldens() {
		t.Run(g.name, func(t *testing.T) {
			e := chunkenc.Encoder{Float: g.enc}
			var chunks []chunkenc.Chunk
			if g.shared {
				col := e.Times(g.s.T)
				chunks = e.SealShared(nil, g.s, col)
				chunkenc.SetTimeRef(chunks[0].Data, 0x0123456789abcdef)
				checkGolden(t, g.name+"-times", "time", col.Data)
			} else {
				chunks = e.Seal(nil, g.s)
			}
			if len(chunks) != 1 {
				t.Fatalf("got %d chunks", len(chunks))
			}
			c := chunks[0]
			c.Data = checkGolden(t, g.name, g.says, c.Data)
			checkEqual(t, decodeAll(t, []chunkenc.Chunk{c}), g.s)
			checkDamage(t, &c)
		})
	}
}

// checkGolden compares bytes and dump with the files, and returns what is there.
func checkGolden(t *testing.T, name, says string, data []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	var dump bytes.Buffer
	if err := chunkenc.Dump(&dump, data); err != nil {
		t.Fatalf("dump: %v\n%s", err, &dump)
	}
	if !strings.Contains(dump.String(), says) {
		t.Fatalf("the dump does not say %q:\n%s", says, &dump)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		for ext, b := range map[string][]byte{".chunk": data, ".txt": dump.Bytes()} {
			if err := os.WriteFile(path+ext, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, err := os.ReadFile(path + ".chunk")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("got %x, want %x", data, want)
	}
	dump.Reset()
	if err := chunkenc.Dump(&dump, want); err != nil {
		t.Fatalf("dump: %v\n%s", err, &dump)
	}
	text, err := os.ReadFile(path + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	if dump.String() != string(text) {
		t.Errorf("got dump\n%swant\n%s", &dump, text)
	}
	return want
}

// Dump must not trust its input any more than Decode does.
func TestDumpBadInput(t *testing.T) {
	all := goldens()
	for _, g := range all[:few(len(all))] {
		e := chunkenc.Encoder{Float: g.enc}
		data := e.Seal(nil, g.s)[0].Data
		for n := range data {
			if err := chunkenc.Dump(new(bytes.Buffer), data[:n]); err == nil {
				t.Fatalf("%s: dumped %d of %d bytes", g.name, n, len(data))
			}
		}
		for bit := range 8 * len(data) {
			data[bit/8] ^= 1 << (bit % 8)
			chunkenc.Dump(new(bytes.Buffer), data) // an error or another chunk
			data[bit/8] ^= 1 << (bit % 8)
		}
	}
}
