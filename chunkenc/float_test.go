package chunkenc_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/rwsink/rwsink/chunkenc"
)

func TestFloatsRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, enc := range []chunkenc.Encoding{chunkenc.EncDelta, chunkenc.EncRaw} {
		e := chunkenc.Encoder{Float: enc}
		for range few(4000) {
			s := floats(r, 1+r.IntN(1<<r.IntN(11)))
			checkEqual(t, decodeAll(t, e.Seal(nil, s)), s)
		}
	}
}

func TestSealCutsAtMaxSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var e chunkenc.Encoder
	for _, n := range []int{chunkenc.MaxSamples, chunkenc.MaxSamples + 1, 2*chunkenc.MaxSamples + 5} {
		s := floats(r, n)
		chunks := e.SealShared(nil, s, e.Times(s.T[:chunkenc.MaxSamples]))
		if want := (n + chunkenc.MaxSamples - 1) / chunkenc.MaxSamples; len(chunks) != want {
			t.Fatalf("%d samples: got %d chunks, want %d", n, len(chunks), want)
		}
		checkEqual(t, decodeAll(t, chunks), s)
	}
}

func TestSharedTimes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, enc := range []chunkenc.Encoding{chunkenc.EncDelta, chunkenc.EncRaw} {
		e := chunkenc.Encoder{Float: enc}
		var chunks []chunkenc.Chunk
		var want []*chunkenc.Samples
		for range 20 {
			ts := times(r, 1+r.IntN(300))
			col := e.Times(ts)
			for range 5 {
				s := floats(r, len(ts))
				s.T = ts
				chunks = e.SealShared(chunks, s, col)
				want = append(want, s)
			}
		}
		var d chunkenc.Decoder
		for i := range chunks {
			c := chunks[i]
			chunkenc.SetTimeRef(c.Data, uint64(i)<<40|7)
			if ref, ok := chunkenc.TimeRef(c.Data); !ok || ref != uint64(i)<<40|7 {
				t.Fatalf("got reference %d, %v", ref, ok)
			}
			opened, err := chunkenc.Open(c.Data)
			if err != nil || opened.N != c.N || opened.Enc != c.Enc {
				t.Fatalf("open: got %+v, %v", opened, err)
			}
			got := new(chunkenc.Samples)
			if err := d.Decode(got, &opened); err == nil || got.Len() != 0 {
				t.Fatal("decoded without the shared column")
			}
			opened.Times = c.Times
			if err := d.Decode(got, &opened); err != nil {
				t.Fatal(err)
			}
			checkEqual(t, got, want[i])
			if n := len(want[i].T); n > 1 {
				opened.Times = e.Times(want[i].T[1:])
				if err := d.Decode(new(chunkenc.Samples), &opened); err == nil {
					t.Fatal("decoded with a shared column of another length")
				}
			}
		}
	}
}

func TestDecodeRange(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	d := new(chunkenc.Decoder)
	for _, enc := range []chunkenc.Encoding{chunkenc.EncDelta, chunkenc.EncRaw} {
		e := chunkenc.Encoder{Float: enc}
		for range few(2000) {
			s := floats(r, 1+r.IntN(1200))
			chunks := e.Seal(nil, s)
			if r.IntN(3) == 0 {
				chunks = e.SealShared(nil, s, e.Times(s.T))
			}
			d := d
			if r.IntN(10) == 0 {
				d = new(chunkenc.Decoder) // whose scratch memory has to grow
			}
			got := &chunkenc.Samples{T: []int64{1}, V: []float64{2}}
			mint, maxt := s.T[r.IntN(s.Len())]+r.Int64N(3)-1, s.T[r.IntN(s.Len())]+r.Int64N(3)-1
			if err := d.DecodeRange(got, &chunks[0], mint, maxt); err != nil {
				t.Fatal(err)
			}
			lo, hi := 0, 0
			for i, ts := range s.T {
				if ts < mint {
					lo = i + 1
				}
				if ts <= maxt {
					hi = i + 1
				}
			}
			part := got.Slice(1, got.Len())
			want := s.Slice(lo, max(lo, hi))
			checkEqual(t, &part, &want)
		}
	}
}

func TestDecodeBadInput(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, enc := range []chunkenc.Encoding{chunkenc.EncDelta, chunkenc.EncRaw} {
		e := chunkenc.Encoder{Float: enc}
		for range few(40) {
			for _, c := range e.Seal(nil, floats(r, 1+r.IntN(60))) {
				checkDamage(t, &c)
			}
		}
	}
}

// checkDamage cuts the chunk at every byte and flips its every bit: an error with
// a position inside, or a different valid chunk; s is untouched by an error.
func checkDamage(t *testing.T, c *chunkenc.Chunk) {
	t.Helper()
	var d chunkenc.Decoder
	damaged := *c
	try := func(data []byte, mayPass bool) {
		damaged.Data = data
		s := new(chunkenc.Samples)
		s.Reset(c.Kind())
		err := d.Decode(s, &damaged)
		var ce *chunkenc.CorruptError
		switch {
		case err == nil && !mayPass:
			t.Fatalf("decoded %d of %d bytes", len(data), len(c.Data))
		case err != nil && (!errors.As(err, &ce) || ce.Offset < 0 || ce.Offset > len(data)):
			t.Fatalf("%d bytes: no position: %v", len(data), err)
		case err != nil && s.Len()+len(s.V)+len(s.ST)+len(s.H)+len(s.FH) > 0:
			t.Fatalf("%v left samples behind", err)
		}
	}
	for n := range c.Data {
		try(c.Data[:n], false)
	}
	data := append([]byte(nil), c.Data...)
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		try(data, true)
		data[bit/8] ^= 1 << (bit % 8)
	}
}

func TestAppendXOR(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	checkXOR(t, floats(r, chunkenc.MaxSamples))
	for range few(6000) {
		checkXOR(t, floats(r, r.IntN(300)))
	}
}

// Second differences at the borders of their buckets and runs of values of every length
// beside each other: what is written in threes must not show.
func TestAppendXORBorders(t *testing.T) {
	var dods []int64
	for _, b := range []int64{0, 1, 1 << 13, 1 << 16, 1 << 19, 1 << 32, math.MinInt64} {
		for d := int64(-2); d <= 2; d++ {
			dods = append(dods, b+d, -b+d)
		}
	}
	r := rand.New(rand.NewPCG(81, 82))
	for n := range few(3000) {
		s := &chunkenc.Samples{}
		often := 1 + r.IntN(40)
		var at, delta int64
		u := r.Uint64()
		for range n % 257 {
			if r.IntN(often) == 0 {
				delta += dods[r.IntN(len(dods))]
			} else {
				delta += r.Int64N(3) - 1
			}
			at += delta
			if r.IntN(1+n%23) == 0 {
				u ^= r.Uint64() >> r.IntN(64) << r.IntN(64)
			}
			s.T, s.V = append(s.T, at), append(s.V, math.Float64frombits(u))
		}
		checkXOR(t, s)
	}
}

// The longest that samples can take: every varint at its longest, every second difference in
// 64 bits, every value in a window of its own or of all bits. The stores end within the room.
func TestAppendXORLongest(t *testing.T) {
	for n := 1; n < 70; n++ {
		wide, growing := &chunkenc.Samples{}, &chunkenc.Samples{}
		at := int64(math.MinInt64)
		for i := range n {
			wide.T = append(wide.T, at)
			wide.V = append(wide.V, math.Float64frombits(uint64(i&1)*(1<<63|1)))
			window := uint64(1)<<min(32+i/2, 63) | 1<<max(31-i/2, 0) // one bit wider at either end each time
			growing.V = append(growing.V, math.Float64frombits(uint64(i&1)*window))
			if at < 0 {
				at = 0 // 2^63 after the first
			}
			at += 1 << 40 << (i % 2 * 12)
		}
		growing.T = wide.T
		checkXOR(t, wide)
		checkXOR(t, growing)
	}
}

// checkXOR compares AppendXOR with Prometheus's appender byte by byte. What lies behind
// the room that it asks for stays as it was.
func checkXOR(t *testing.T, s *chunkenc.Samples) {
	t.Helper()
	c := promenc.NewXORChunk()
	app, err := c.Appender()
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.T {
		app.Append(0, s.T[i], s.V[i])
	}
	const behind = 0xa5a5a5a5a5a5a5a5
	room := chunkenc.XORRoom(len("head"), s.Len())
	memory := binary.LittleEndian.AppendUint64(make([]byte, room), behind)
	buf := chunkenc.AppendXOR(append(memory[:0:room], "head"...), s.T, s.V)
	if got := binary.LittleEndian.Uint64(memory[room:]); got != behind {
		t.Fatalf("%d samples: wrote past %d bytes: %x", s.Len(), room, got)
	}
	if string(buf[:4]) != "head" || string(buf[4:]) != string(c.Bytes()) {
		got, want := buf[4:], c.Bytes()
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Fatalf("%d samples: got %d bytes, want %d; they differ at byte %d", s.Len(), len(got), len(want), at)
	}
}
