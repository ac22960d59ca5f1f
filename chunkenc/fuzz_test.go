package chunkenc_test

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rwsink/rwsink/chunkenc"
)

// FuzzDecode gives any bytes to the decoder.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/golden/*.chunk")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	e := new(chunkenc.Encoder)
	var d chunkenc.Decoder
	f.Fuzz(func(t *testing.T, data []byte) {
		col := &chunkenc.TimeColumn{Data: data}
		if ts, err := d.Times(nil, col); err == nil && (len(ts) == 0 || len(ts) > chunkenc.MaxSamples) {
			t.Fatalf("%d timestamps", len(ts))
		}
		c, err := chunkenc.Open(data)
		if err != nil {
			return
		}
		s := new(chunkenc.Samples)
		if _, shared := chunkenc.TimeRef(data); shared {
			ts := make([]int64, c.N)
			for i := range ts {
				ts[i] = int64(i)
			}
			c.Times = e.Times(ts)
		}
		err = d.Decode(s, &c)
		if err == nil && s.Len() != int(c.N) {
			t.Fatalf("got %d samples, want %d", s.Len(), c.N)
		}
		if derr := chunkenc.Dump(io.Discard, data); err == nil && derr != nil {
			t.Fatalf("decoded, but not dumped: %v", derr)
		}
		if err != nil || !slices.IsSorted(s.T) {
			return
		}
		// A range is the same as all of it, cut.
		part, n := new(chunkenc.Samples), s.Len()
		lo, hi := s.T[n/3], s.T[n/2]
		if err := d.DecodeRange(part, &c, lo, hi); err != nil {
			t.Fatal(err)
		}
		for i, ts := range part.T {
			if ts < lo || ts > hi || i > 0 && ts < part.T[i-1] {
				t.Fatalf("sample %d of [%d, %d] at %d", i, lo, hi, ts)
			}
		}
	})
}

// FuzzRoundTrip reads any bytes as samples and wants them back, and the XOR chunk
// of them to be what Prometheus writes.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	r := rand.New(rand.NewPCG(23, 24))
	for i := range 12 {
		s := floats(r, 1+i*5)
		var b []byte
		for j, v := range s.V {
			b = binary.LittleEndian.AppendUint64(b, uint64(s.T[j]))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		f.Add(b, uint8(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, mode uint8) {
		s := &chunkenc.Samples{Kind: chunkenc.KindFloat}
		for ; len(b) >= 16 && s.Len() < chunkenc.MaxSamples; b = b[16:] {
			s.T = append(s.T, int64(binary.LittleEndian.Uint64(b)))
			s.V = append(s.V, math.Float64frombits(binary.LittleEndian.Uint64(b[8:])))
		}
		if s.Len() == 0 {
			return
		}
		if mode&1 != 0 {
			for i := range s.T {
				s.ST = append(s.ST, s.T[i/3*3]-int64(mode))
			}
		}
		var e chunkenc.Encoder
		if mode&2 != 0 {
			checkEqual(t, decodeAll(t, e.SealShared(nil, s, e.Times(s.T))), s)
		} else {
			checkEqual(t, decodeAll(t, e.Seal(nil, s)), s)
		}
		checkXOR(t, s)
		checkBound(t, "fuzz", s)
	})
}
