package chunkenc

import (
	"encoding/binary"
	"math"
	"slices"
)

// The raw encoding: every number of a column in 8 bytes, little-endian.

func appendPlain(dst []byte, x []int64) []byte {
	for _, v := range x {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

func appendPlainFloats(dst []byte, v []float64) []byte {
	for _, f := range v {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
	}
	return dst
}

// readPlainInts appends the n numbers at data[at:] to dst.
func readPlainInts(dst []int64, data []byte, at, n int, enc Encoding) ([]int64, int, error) {
	if 8*n > len(data)-at {
		return dst, at, corrupt(enc, at, "%d numbers in %d bytes", n, len(data)-at)
	}
	dst = slices.Grow(dst, n)
	for range n {
		dst = append(dst, int64(binary.LittleEndian.Uint64(data[at:])))
		at += 8
	}
	return dst, at, nil
}

// readPlain reads the values at data[at:] to out.
func readPlain(out []float64, data []byte, at int, enc Encoding) (int, error) {
	if 8*len(out) > len(data)-at {
		return at, corrupt(enc, at, "%d values in %d bytes", len(out), len(data)-at)
	}
	src := data[at:]
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
	}
	return at + 8*len(out), nil
}
