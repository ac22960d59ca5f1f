package chunkenc_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"text/tabwriter"

	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/rounds"
)

// BenchmarkTable prints the codec's figures beside its goals:
//
//	go test ./chunkenc -run '^$' -bench '^BenchmarkTable$' -benchtime 1x
//
// CODEC_DATA names a directory with fuller .rwd.gz files. Times are CPU time of the
// thread, medians over many interleaved rounds; ratios are medians of the rounds' ratios, or,
// where it says so, of the least pass of each: what a busy machine adds is not in that.
func BenchmarkTable(b *testing.B) {
	for range b.N {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "\nfigure\ttoday\tgoal\tstretch\n")
		jitter, nab := mustLoad(b, "prom-jitter.rwd.gz"), mustLoad(b, "nab-real.rwd.gz")
		tableSize(b, w, jitter, nab)
		tableSpeed(b, w, "jitter", jitter, "7x", "12x")
		tableRaw(b, w, "jitter", jitter)
		tableSpeed(b, w, "NAB", nab, "4.5x", "12x")
		tableRaw(b, w, "NAB", nab)
		for _, s := range shapes() {
			tableSpeed(b, w, s.name, s.series, "", "")
		}
		tableInts(b, w)
		w.Flush()
	}
}

func mustLoad(b *testing.B, name string) []*chunkenc.Samples {
	series, err := loadSeries(name)
	if err != nil {
		b.Fatal(err)
	}
	return series
}

// tableSize prints bytes a sample of the real sets and the worst chunk of any set.
func tableSize(b *testing.B, w io.Writer, jitter, nab []*chunkenc.Samples) {
	for _, set := range []struct {
		name          string
		series        []*chunkenc.Samples
		goal, stretch string
	}{{"jitter", jitter, "0.36x", "0.33x"}, {"NAB", nab, "0.50x", "0.45x"}} {
		ours, xor, n := 0, 0, 0
		var e chunkenc.Encoder
		for _, s := range cut(set.series, 240) {
			ours += len(e.AppendFloats(nil, &s, false))
			n += s.Len()
		}
		for _, s := range cut(set.series, 120) {
			xor += len(chunkenc.AppendXOR(nil, s.T, s.V))
		}
		fmt.Fprintf(w, "%s: B/sample at 240, own times\t%.3f = %.3fx XOR's %.3f\t%s\t%s\n", set.name, float64(ours)/float64(n), float64(ours)/float64(xor), float64(xor)/float64(n), set.goal, set.stretch)
		if set.name == "jitter" {
			size := sharedSize(&e, set.series)
			fmt.Fprintf(w, "%s: B/sample, each time column once\t%.3f = %.3fx XOR\t0.17x\t0.33 B\n", set.name, float64(size)/float64(n), float64(size)/float64(xor))
		}
	}
	worst, where := math.Inf(-1), ""
	sets := append(shapes(), shape{"jitter", jitter}, shape{"NAB", nab})
	var e chunkenc.Encoder
	for _, set := range sets {
		for _, s := range cut(set.series, 240) {
			over := float64(len(e.AppendFloats(nil, &s, false))) - 1.02*float64(len(chunkenc.AppendXOR(nil, s.T, s.V)))
			if over > worst {
				worst, where = over, set.name
			}
		}
	}
	fmt.Fprintf(w, "worst chunk over 1.02x XOR (%s)\t%.0f B\t8 B\t\n", where, worst)
}

// sharedSize cuts by time and stores each distinct time column once, with a
// reference in every chunk that names it; a column used once stands inline.
func sharedSize(e *chunkenc.Encoder, series []*chunkenc.Samples) (size int) {
	runs := cutSlots(series, 240_000)
	uses := map[string]int{}
	cols := make([]string, len(runs))
	for i, s := range runs {
		cols[i] = string(e.AppendTimes(nil, s.T))
		uses[cols[i]]++
	}
	for i, s := range runs {
		size += len(e.AppendFloats(nil, &s, uses[cols[i]] > 1))
	}
	for col, n := range uses {
		if n > 1 {
			size += len(col)
		}
	}
	return size
}

// set is a set of series in every form that is measured.
type set struct {
	n       int
	runs    []chunkenc.Samples // of 240
	halves  []chunkenc.Samples // of 120
	chunks  []chunkenc.Chunk
	xor     []promenc.Chunk
	varints [][]byte
}

func newSet(b *testing.B, series []*chunkenc.Samples) *set {
	total := 0
	var few []*chunkenc.Samples
	for i, s := range series { // at most about 250,000 samples
		if step := max(1, len(series)/180); i%step == 0 && total < 250_000 {
			few = append(few, s)
			total += s.Len()
		}
	}
	s := &set{n: total, runs: cut(few, 240), halves: cut(few, 120)}
	var e chunkenc.Encoder
	for _, r := range s.runs {
		s.chunks = e.Seal(s.chunks, &r)
		s.varints = append(s.varints, appendVarints(nil, &r))
	}
	for _, r := range s.halves {
		s.xor = append(s.xor, xorChunk(b, &r))
	}
	return s
}

func xorChunk(b testing.TB, s *chunkenc.Samples) promenc.Chunk {
	c := promenc.NewXORChunk()
	app, err := c.Appender()
	if err != nil {
		b.Fatal(err)
	}
	for i, t := range s.T {
		app.Append(0, t, s.V[i])
	}
	return c
}

// tableSpeed prints decode, seal and transcode.
func tableSpeed(b *testing.B, w io.Writer, name string, series []*chunkenc.Samples, goal, stretch string) {
	s := newSet(b, series)
	m := rounds.Race(s.n, func() { s.decode(b) }, func() { s.iterateXOR(b) }, s.decodeVarints, s.readVarints)
	fmt.Fprintf(w, "%s: decode ns/sample\t%.2f; XOR iterator %.1f (%.1fx, least %.1fx), varint batch %.1f (%.1fx), varint reader %.1f (%.1fx)\t%s\t%s\n",
		name, m[0].Ns, m[1].Ns, m[1].Ratio, m[1].Least/m[0].Least, m[2].Ns, m[2].Ratio, m[3].Ns, m[3].Ratio, goal, stretch)
	row := func(what, other, goal, stretch string, m []rounds.Timing) {
		fmt.Fprintf(w, "%s: %s ns/sample\t%.1f; %s %.1f (%.2fx); least %.1f, %.1f (%.2fx)\t%s\t%s\n",
			name, what, m[0].Ns, other, m[1].Ns, m[1].Ratio, m[0].Least, m[1].Least, m[1].Least/m[0].Least, goal, stretch)
	}
	row("seal", "XOR appender", "1x", "10 ns", rounds.Race(s.n, s.seal, func() { s.appendXOR(b) }))
	row("transcode", "with XOR appender", "3x", "4x", rounds.Race(s.n, func() { s.transcode(b) }, func() { s.transcodeProm(b) }))
}

// tableRaw prints what the uncompressed encoding, the yardstick, takes.
func tableRaw(b *testing.B, w io.Writer, name string, series []*chunkenc.Samples) {
	s := newSet(b, series)
	e := chunkenc.Encoder{Float: chunkenc.EncRaw}
	size := 0
	s.chunks = s.chunks[:0]
	for i := range s.runs {
		s.chunks = e.Seal(s.chunks, &s.runs[i])
		size += len(s.chunks[i].Data)
	}
	m := rounds.Race(s.n, func() { s.decode(b) }, func() {
		for i := range s.runs {
			buf = e.AppendFloats(buf[:0], &s.runs[i], false)
		}
	})
	fmt.Fprintf(w, "%s, raw: ns/sample\tdecode %.2f, seal %.2f, in %.2f B\t\t\n", name, m[0].Ns, m[1].Ns, float64(size)/float64(s.n))
}

func (s *set) decode(b testing.TB) {
	for i := range s.chunks {
		scratch.Reset(chunkenc.KindFloat)
		if err := decoder.Decode(&scratch, &s.chunks[i]); err != nil {
			b.Fatal(err)
		}
	}
}

// What the measured functions work with.
var (
	decoder  chunkenc.Decoder
	encoder  chunkenc.Encoder
	scratch  chunkenc.Samples
	buf      []byte
	promIter promenc.Iterator
	sinkT    int64
	sinkV    float64
)

func (s *set) iterateXOR(b testing.TB) {
	for _, c := range s.xor {
		promIter = c.Iterator(promIter)
		for promIter.Next() != promenc.ValNone {
			sinkT, sinkV = promIter.At()
		}
		if promIter.Err() != nil {
			b.Fatal(promIter.Err())
		}
	}
}

func (s *set) seal() {
	for i := range s.runs {
		buf = encoder.AppendFloats(buf[:0], &s.runs[i], false)
	}
}

func (s *set) appendXOR(b testing.TB) {
	for i := range s.halves {
		xorChunk(b, &s.halves[i])
	}
}

func (s *set) transcode(b testing.TB) {
	for i := range s.chunks {
		scratch.Reset(chunkenc.KindFloat)
		if err := decoder.Decode(&scratch, &s.chunks[i]); err != nil {
			b.Fatal(err)
		}
		for from := 0; from < scratch.Len(); from += 120 {
			to := min(from+120, scratch.Len())
			buf = chunkenc.AppendXOR(buf[:0], scratch.T[from:to], scratch.V[from:to])
		}
	}
}

func (s *set) transcodeProm(b testing.TB) {
	for i := range s.chunks {
		scratch.Reset(chunkenc.KindFloat)
		if err := decoder.Decode(&scratch, &s.chunks[i]); err != nil {
			b.Fatal(err)
		}
		for from := 0; from < scratch.Len(); from += 120 {
			part := scratch.Slice(from, min(from+120, scratch.Len()))
			xorChunk(b, &part)
		}
	}
}

// appendVarints is the plain alternative: zigzag varints of the second differences of
// the timestamps and of the differences of the values' bits.
func appendVarints(dst []byte, s *chunkenc.Samples) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.Len()))
	var t, delta, v int64
	for i := range s.T {
		d := s.T[i] - t
		dst = binary.AppendVarint(dst, d-delta)
		t, delta = s.T[i], d
	}
	for _, f := range s.V {
		u := int64(math.Float64bits(f))
		dst = binary.AppendVarint(dst, u-v)
		v = u
	}
	return dst
}

// decodeVarints is a batch loop over the slice with its state in locals.
func (s *set) decodeVarints() {
	for _, b := range s.varints {
		n, at := binary.Uvarint(b)
		scratch.T = slices.Grow(scratch.T[:0], int(n))[:n]
		scratch.V = slices.Grow(scratch.V[:0], int(n))[:n]
		var t, delta, v int64
		for i := range scratch.T {
			d, size := binary.Varint(b[at:])
			at += size
			delta += d
			t += delta
			scratch.T[i] = t
		}
		for i := range scratch.V {
			d, size := binary.Varint(b[at:])
			at += size
			v += d
			scratch.V[i] = math.Float64frombits(uint64(v))
		}
	}
}

// readVarints is the same through io.ByteReader, a value a call.
func (s *set) readVarints() {
	for _, b := range s.varints {
		var r io.ByteReader = bytes.NewReader(b)
		n, _ := binary.ReadUvarint(r)
		scratch.T, scratch.V = scratch.T[:0], scratch.V[:0]
		var t, delta, v int64
		for range n {
			d, _ := binary.ReadVarint(r)
			delta += d
			t += delta
			scratch.T = append(scratch.T, t)
		}
		for range n {
			d, _ := binary.ReadVarint(r)
			v += d
			scratch.V = append(scratch.V, math.Float64frombits(uint64(v)))
		}
	}
}

// tableInts prints the integer coder on pages of 65,536 numbers.
func tableInts(b *testing.B, w io.Writer) {
	r := rand.New(rand.NewPCG(41, 42))
	const n = 65536
	for _, page := range []struct {
		name          string
		next          func(i int) int64
		goal, stretch string
	}{
		{"sequential", func(i int) int64 { return int64(i) }, "4x", "6x"},
		{"largest delta", func(i int) int64 { return int64(i%2) * math.MaxInt64 }, "9x", "13x"},
		{"random", func(int) int64 { return r.Int64() }, "11x", "13x"},
	} {
		x := make([]int64, n)
		var varints []byte
		last := int64(0)
		for i := range x {
			x[i] = page.next(i)
			varints = binary.AppendVarint(varints, x[i]-last)
			last = x[i]
		}
		col := chunkenc.AppendInts(nil, x)
		out, ref := make([]int64, 0, n+8), make([]int64, n)
		m := rounds.Race(n,
			func() { out, _ = chunkenc.ReadInts(out[:0], col, n) },
			func() { batchVarints(ref, varints) },
			func() { readerVarints(ref, bytes.NewReader(varints)) })
		if !slices.Equal(out, x) || !slices.Equal(ref, x) {
			b.Fatalf("%s: not what was written", page.name)
		}
		fmt.Fprintf(w, "ints, %s: decode ns\t%.2f in %d B; varint batch %.1f (%.1fx) in %d B, varint reader %.1f (%.1fx)\t%s\t%s\n",
			page.name, m[0].Ns, len(col), m[1].Ns, m[1].Ratio, len(varints), m[2].Ns, m[2].Ratio, page.goal, page.stretch)
	}
}

func batchVarints(dst []int64, b []byte) {
	var x int64
	at := 0
	for i := range dst {
		d, size := binary.Varint(b[at:])
		at += size
		x += d
		dst[i] = x
	}
}

func readerVarints(dst []int64, r io.ByteReader) {
	var x int64
	for i := range dst {
		d, err := binary.ReadVarint(r)
		if err != nil {
			return
		}
		x += d
		dst[i] = x
	}
}
