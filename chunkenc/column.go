package chunkenc

import (
	"encoding/binary"
	"math"
	"slices"
)

// appendInts appends a column of integers: zigzag varints of the second differences.
func appendInts(dst []byte, x []int64) []byte {
	var last, delta int64
	for _, v := range x {
		d := v - last
		dst = binary.AppendVarint(dst, d-delta)
		last, delta = v, d
	}
	return dst
}

// readInts appends the n integers of the column at data[at:] to dst and returns
// the offset of what follows.
func readInts(dst []int64, data []byte, at, n int, enc Encoding) ([]int64, int, error) {
	if n > len(data)-at {
		return dst, at, corrupt(enc, at, "%d integers in %d bytes", n, len(data)-at)
	}
	dst = slices.Grow(dst, n)
	var last, delta int64
	for range n {
		d, size := binary.Varint(data[at:])
		if size <= 0 {
			return dst, at, corrupt(enc, at, "bad varint")
		}
		at += size
		delta += d
		last += delta
		dst = append(dst, last)
	}
	return dst, at, nil
}

// appendValues appends a column of floats: 8 bytes each, little-endian.
func appendValues(dst []byte, v []float64) []byte {
	for _, f := range v {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
	}
	return dst
}

func readValues(dst []float64, data []byte, at, n int, enc Encoding) ([]float64, int, error) {
	if 8*n > len(data)-at {
		return dst, at, corrupt(enc, at, "%d values in %d bytes", n, len(data)-at)
	}
	dst = slices.Grow(dst, n)
	for range n {
		dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(data[at:])))
		at += 8
	}
	return dst, at, nil
}

// intReader is readInts or readRaw.
type intReader func(dst []int64, data []byte, at, n int, enc Encoding) ([]int64, int, error)

// appendRaw appends the columns of a raw chunk: 8 bytes a number, little-endian.
func appendRaw(dst []byte, s *Samples, shared, start bool) []byte {
	if !shared {
		for _, t := range s.T {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(t))
		}
	}
	if start {
		for _, t := range s.ST {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(t))
		}
	}
	return appendValues(dst, s.V)
}

// readRaw appends the n numbers at data[at:] to dst.
func readRaw(dst []int64, data []byte, at, n int, enc Encoding) ([]int64, int, error) {
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
