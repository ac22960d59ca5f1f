package chunkenc

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

//go:generate go run gen_unpack.go

// kernel unpacks numbers of one width, packed least significant bit first, from a
// source that holds at least len(dst)*width bytes. Groups of 8 numbers leave it one
// counter, whole bytes, and no bounds check. All arithmetic wraps.
//
// unpackFor[width] fills dst with acc + i*step + the i-th number. unpackDelta[width]
// is the running sum: acc + the numbers up to the i-th, with step added to each.
type kernel func(dst [][8]int64, src unsafe.Pointer, acc, step int64)

// unpack runs the kernel over dst, whose length is a multiple of 8. It checks that
// src is long enough.
func unpack(table *[65]kernel, dst []int64, src []byte, width uint, acc, step int64) {
	n := len(dst) / 8
	if n == 0 {
		return
	}
	src = src[:n*int(width)]
	table[width](unsafe.Slice((*[8]int64)(unsafe.Pointer(&dst[0])), n), unsafe.Pointer(unsafe.SliceData(src)), acc, step)
}

func unpackFor0(dst [][8]int64, _ unsafe.Pointer, acc, step int64) {
	step2, step4 := 2*step, 4*step
	for i := range dst {
		d := &dst[i]
		d[0], d[1], d[2], d[3] = acc, acc+step, acc+step2, acc+step2+step
		next := acc + step4
		d[4], d[5], d[6], d[7] = next, next+step, next+step2, next+step2+step
		acc = next + step4
	}
}

func unpackDelta0(dst [][8]int64, src unsafe.Pointer, acc, step int64) {
	unpackFor0(dst, src, acc+step, step)
}

func unpackFor64(dst [][8]int64, from unsafe.Pointer, acc, step int64) {
	src := unsafe.Slice((*[64]byte)(from), len(dst))
	for i := range dst {
		s, d := &src[i], &dst[i]
		for j := range d {
			d[j] = acc + int64(binary.LittleEndian.Uint64(s[8*j:]))
			acc += step
		}
	}
}

func unpackDelta64(dst [][8]int64, from unsafe.Pointer, acc, step int64) {
	src := unsafe.Slice((*[64]byte)(from), len(dst))
	for i := range dst {
		s, d := &src[i], &dst[i]
		for j := range d {
			acc += step + int64(binary.LittleEndian.Uint64(s[8*j:]))
			d[j] = acc
		}
	}
}

// pack appends the low width bits (at most 64) of each number less base, least
// significant bit first, the last byte filled with zeros. Higher bits must be 0.
func pack(dst []byte, r []uint64, base uint64, width uint) []byte {
	switch width {
	case 0:
		return dst
	case 64:
		for _, v := range r {
			dst = binary.LittleEndian.AppendUint64(dst, v-base)
		}
		return dst
	}
	size := len(dst) + (len(r)*int(width)+7)/8
	if width <= packNarrowMax {
		dst, r = packNarrow(dst, r, base, width)
	}
	var acc uint64
	var used uint
	for _, v := range r {
		v -= base
		acc |= v << used
		used += width
		if used >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			used -= 64
			acc = v >> (width - used) // 0 when used is 0: width bits hold no more
		}
	}
	for ; len(dst) < size; acc >>= 8 {
		dst = append(dst, byte(acc))
	}
	return dst
}

// packNarrowMax is the widest that eight numbers fit two words for, with room to shift.
const packNarrowMax = 15

// packNarrow is pack for at most packNarrowMax bits: eight numbers at once, which fill
// whole bytes. It returns those that are left.
func packNarrow(dst []byte, r []uint64, base uint64, width uint) ([]byte, []uint64) {
	at := len(dst)
	dst = slices.Grow(dst, len(r)/8*int(width)+16)
	out := dst[:cap(dst)]
	w1, w2, w4 := width&63, 2*width&63, 4*width&63
	for len(r) >= 8 {
		v := (*[8]uint64)(r)
		lo := v[0] - base | (v[1]-base)<<w1 | (v[2]-base|(v[3]-base)<<w1)<<w2
		hi := v[4] - base | (v[5]-base)<<w1 | (v[6]-base|(v[7]-base)<<w1)<<w2
		binary.LittleEndian.PutUint64(out[at:], lo|hi<<w4)
		if width > 8 {
			binary.LittleEndian.PutUint64(out[at+8:], hi>>(64-w4))
		}
		at += int(width)
		r = r[8:]
	}
	return out[:at], r
}
