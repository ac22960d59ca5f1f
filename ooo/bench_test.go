package ooo_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// lateShares are the shares of late samples, in percent of all.
var lateShares = []int{1, 10, 50}

// chunkSizes are the samples of a chunk, late ones included.
var chunkSizes = []int{120, 240, 512, 1024}

// load is chunks of one size with their late samples, in random order of arrival.
type load struct {
	base   []*chunkenc.Samples
	chunks [][]chunkenc.Chunk
	late   [][]event
	lates  int // samples in late
	stored int // samples in base and late
}

// newLoad cuts series into chunks of size in one encoding and takes percent of each at random.
func newLoad(series []*chunkenc.Samples, size, percent int, encoding chunkenc.Encoding) *load {
	rng := rand.New(rand.NewPCG(1, 2))
	enc := chunkenc.Encoder{Float: encoding}
	l := new(load)
	for _, s := range series {
		for i := 0; i+size <= s.Len(); i += size {
			base := &chunkenc.Samples{}
			var late []event
			for k := i; k < i+size; k++ {
				if rng.IntN(100) < percent {
					e := event{t: s.T[k], v: s.V[k]}
					if len(s.ST) > 0 {
						e.st = s.ST[k]
					}
					late = append(late, e)
					continue
				}
				base.T, base.V = append(base.T, s.T[k]), append(base.V, s.V[k])
				if len(s.ST) > 0 {
					base.ST = append(base.ST, s.ST[k])
				}
			}
			if len(late) == 0 {
				continue // nothing to merge
			}
			rng.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
			l.base = append(l.base, base)
			l.chunks = append(l.chunks, enc.Seal(nil, base))
			l.late = append(l.late, late)
			l.lates += len(late)
			l.stored += size
		}
	}
	return l
}

// scrapes reads testdata: 40 series of real scrapes at 1 s, timestamps with
// their jitter, most values constant. The format: "RWD1", series count; per
// series: label length, label, sample count, second differences of the
// timestamps as varints, values as 8 bytes each.
func scrapes(tb testing.TB) []*chunkenc.Samples {
	tb.Helper()
	file, err := os.Open("testdata/scrapes.rwd.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	zr, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := io.ReadAll(zr)
	if err != nil {
		tb.Fatal(err)
	}
	r := bytes.NewReader(data[len("RWD1"):])
	number := func() uint64 {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			tb.Fatal(err)
		}
		return n
	}
	out := make([]*chunkenc.Samples, number())
	for i := range out {
		if _, err := r.Seek(int64(number()), io.SeekCurrent); err != nil {
			tb.Fatal(err)
		}
		n := number()
		s := &chunkenc.Samples{T: make([]int64, n), V: make([]float64, n)}
		t, delta := int64(0), int64(0)
		for k := range s.T {
			d, err := binary.ReadVarint(r)
			if err != nil {
				tb.Fatal(err)
			}
			delta += d
			t += delta
			s.T[k] = t
		}
		for k := range s.V {
			var b [8]byte
			if _, err := io.ReadFull(r, b[:]); err != nil {
				tb.Fatal(err)
			}
			s.V[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[:]))
		}
		out[i] = s
	}
	return out
}

// benchGroup is the number of chunks that are timed at once.
const benchGroup = 8

// groups has room for the least time of each group of chunks.
func (l *load) groups() []time.Duration {
	return make([]time.Duration, (len(l.base)+benchGroup-1)/benchGroup)
}

// pass merges each chunk and lowers best to what its group took.
func (l *load) pass(best []time.Duration, merge func(k int) error) error {
	for g := range best {
		start := time.Now()
		for k := g * benchGroup; k < min((g+1)*benchGroup, len(l.base)); k++ {
			if err := merge(k); err != nil {
				return err
			}
		}
		if d := time.Since(start); best[g] == 0 || d < best[g] {
			best[g] = d
		}
	}
	return nil
}

func total(times []time.Duration) (sum time.Duration) {
	for _, d := range times {
		sum += d
	}
	return sum
}

// bench merges chunk k of a load, for all k, and reports nanoseconds a late
// sample: the mean, and the sum of the fastest time of each group of chunks,
// which a busy machine disturbs less.
func bench(b *testing.B, series []*chunkenc.Samples, merge func(l *load, k int) error) {
	for _, size := range chunkSizes {
		for _, percent := range lateShares {
			l := newLoad(series, size, percent, chunkenc.EncDelta)
			b.Run(fmt.Sprintf("chunk=%d/late=%d%%", size, percent), func(b *testing.B) {
				b.ReportAllocs()
				best := l.groups()
				for b.Loop() {
					if err := l.pass(best, func(k int) error { return merge(l, k) }); err != nil {
						b.Fatal(err)
					}
				}
				sum := total(best)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(l.lates), "ns/late")
				b.ReportMetric(float64(sum.Nanoseconds())/float64(l.lates), "min-ns/late")
				b.ReportMetric(float64(sum.Nanoseconds())/float64(l.stored), "min-ns/stored")
			})
		}
	}
}

// BenchmarkMergeColumns is arrival, sort and merge, without the codec.
func BenchmarkMergeColumns(b *testing.B) {
	var m ooo.Merger
	var late ooo.Buffer
	bench(b, scrapes(b), func(l *load, k int) error {
		mergeColumns(&m, &late, l, k)
		return nil
	})
}

// BenchmarkMergeStarts is the same for floats with start timestamps.
func BenchmarkMergeStarts(b *testing.B) {
	var m ooo.Merger
	var late ooo.Buffer
	bench(b, withStarts(scrapes(b)), func(l *load, k int) error {
		mergeColumns(&m, &late, l, k)
		return nil
	})
}

func mergeColumns(m *ooo.Merger, late *ooo.Buffer, l *load, k int) {
	late.Reset()
	for _, e := range l.late[k] {
		late.Float(e.t, e.st, e.v)
	}
	m.Merge(l.base[k:k+1], late)
}

// withStarts gives each series a start timestamp, another one after a while.
func withStarts(series []*chunkenc.Samples) []*chunkenc.Samples {
	for _, s := range series {
		for i := range s.T {
			s.ST = append(s.ST, s.T[i/500*500])
		}
	}
	return series
}

// BenchmarkMergeChunks is all that a chunk's late samples cost: arrival,
// decode, sort, merge, encode. All memory is kept from pass to pass.
func BenchmarkMergeChunks(b *testing.B) {
	c := newChunkMerge()
	bench(b, scrapes(b), func(l *load, k int) error { return c.merge(l.chunks[k], l.late[k]) })
}

// chunkMerge is what a merge of chunks needs, as the owner of a series keeps it.
type chunkMerge struct {
	dec       chunkenc.Decoder
	enc       chunkenc.Encoder
	m         ooo.Merger
	buf, late ooo.Buffer
	base      *chunkenc.Samples
	bases     []*chunkenc.Samples
	out       []byte
}

func newChunkMerge() *chunkMerge {
	c := &chunkMerge{base: &chunkenc.Samples{}}
	c.bases = []*chunkenc.Samples{c.base}
	return c
}

// merge lets late arrive and merges it into chunks of floats; the bytes are in c.out.
func (c *chunkMerge) merge(chunks []chunkenc.Chunk, late []event) error {
	for _, e := range late {
		c.buf.Float(e.t, 0, e.v)
	}
	c.late.Reset()
	c.buf.Take(&c.late, math.MinInt64, math.MaxInt64)
	c.base.Reset(chunkenc.KindFloat)
	for i := range chunks {
		if err := c.dec.Decode(c.base, &chunks[i]); err != nil {
			return err
		}
	}
	runs, _ := c.m.Merge(c.bases, &c.late)
	c.out = c.out[:0]
	for _, r := range runs {
		c.out = c.enc.AppendFloats(c.out, r, false)
	}
	return nil
}

// What the benchmark measures gives the samples as they were, and without an allocation.
func TestMergeChunksOfScrapes(t *testing.T) {
	series := scrapes(t)
	c := newChunkMerge()
	for _, percent := range lateShares {
		const size = 240
		l := newLoad(series, size, percent, chunkenc.EncDelta)
		pass := func() {
			for k := range l.chunks {
				if err := c.merge(l.chunks[k], l.late[k]); err != nil {
					t.Fatal(err)
				}
			}
		}
		pass()
		if n := testing.AllocsPerRun(3, pass); n != 0 {
			t.Errorf("%d %% late: %v allocations in %d merges", percent, n, len(l.chunks))
		}
		for k := range l.chunks {
			if err := c.merge(l.chunks[k], l.late[k]); err != nil {
				t.Fatal(err)
			}
			all := model{}
			all.arrive(eventsOf(l.base[k : k+1])...)
			all.arrive(l.late[k]...)
			want, _ := all.answer()
			chunk, err := chunkenc.Open(c.out)
			if err != nil {
				t.Fatal(err)
			}
			got := &chunkenc.Samples{}
			if err := c.dec.Decode(got, &chunk); err != nil {
				t.Fatal(err)
			}
			if err := same(eventsOf([]*chunkenc.Samples{got}), want); err != nil {
				t.Fatal(err)
			}
		}
	}
}
