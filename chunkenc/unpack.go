package chunkenc

import (
	"encoding/binary"
	"unsafe"
)

//go:generate go run gen_unpack.go

// unpackFor fills dst with acc + i*step + the i-th number of width bits in src,
// packed least significant bit first. len(dst) must be a multiple of 8, width at
// most 64, and src hold at least len(dst)/8*width bytes; 8 numbers are width
// bytes. All arithmetic wraps.
func unpackFor(dst []int64, src []byte, width uint, acc, step int64) {
	if width == 0 || len(dst) == 0 {
		fillFor(dst, acc, step)
		return
	}
	groups, from := inGroups(dst, src, width)
	switch {
	case width < 17:
		unpackForFrom1(groups, from, width, acc, step)
	case width < 33:
		unpackForFrom17(groups, from, width, acc, step)
	case width < 49:
		unpackForFrom33(groups, from, width, acc, step)
	case width < 64:
		unpackForFrom49(groups, from, width, acc, step)
	default:
		for i := range dst {
			dst[i] = acc + int64(binary.LittleEndian.Uint64(src[8*i:]))
			acc += step
		}
	}
}

// unpackDelta is the running sum of such numbers: dst[i] = acc + the numbers up
// to the i-th, with step added to each.
func unpackDelta(dst []int64, src []byte, width uint, acc, step int64) {
	if width == 0 || len(dst) == 0 {
		fillFor(dst, acc+step, step)
		return
	}
	groups, from := inGroups(dst, src, width)
	switch {
	case width < 17:
		unpackDeltaFrom1(groups, from, width, acc, step)
	case width < 33:
		unpackDeltaFrom17(groups, from, width, acc, step)
	case width < 49:
		unpackDeltaFrom33(groups, from, width, acc, step)
	case width < 64:
		unpackDeltaFrom49(groups, from, width, acc, step)
	default:
		for i := range dst {
			acc += step + int64(binary.LittleEndian.Uint64(src[8*i:]))
			dst[i] = acc
		}
	}
}

// inGroups gives dst in groups of 8 and the start of src, which it checks to be
// long enough. The kernels take groups since that leaves them one counter and no
// bounds check. dst is not empty and width not 0.
func inGroups(dst []int64, src []byte, width uint) ([][8]int64, unsafe.Pointer) {
	n := len(dst) / 8
	src = src[:n*int(width)]
	return unsafe.Slice((*[8]int64)(unsafe.Pointer(&dst[0])), n), unsafe.Pointer(&src[0])
}

// fillFor fills dst with acc + i*step.
func fillFor(dst []int64, acc, step int64) {
	step2, step4 := 2*step, 4*step
	for len(dst) >= 8 {
		d := (*[8]int64)(dst)
		d[0], d[1], d[2], d[3] = acc, acc+step, acc+step2, acc+step2+step
		next := acc + step4
		d[4], d[5], d[6], d[7] = next, next+step, next+step2, next+step2+step
		acc = next + step4
		dst = dst[8:]
	}
}

// pack appends the low width bits (at most 64) of each number, least significant
// bit first, the last byte filled with zeros. Higher bits must be 0.
func pack(dst []byte, r []uint64, width uint) []byte {
	switch width {
	case 0:
		return dst
	case 64:
		for _, v := range r {
			dst = binary.LittleEndian.AppendUint64(dst, v)
		}
		return dst
	}
	size := len(dst) + (len(r)*int(width)+7)/8
	var acc uint64
	var used uint
	for _, v := range r {
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
