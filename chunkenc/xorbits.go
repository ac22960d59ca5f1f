package chunkenc

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The bit streams of an XOR chunk (see xor.go), but timestamps and values apart.
// A column takes this form only where its own is longer, so that no chunk is
// longer than an XOR chunk of the same samples by more than its header.

// dodWidths are the widths of second differences by the ones before their 0.
var dodWidths = [5]uint{0, 14, 17, 20, 64}

var dodPrefixes = [5]uint64{0, 0b10, 0b110, 0b1110, 0b1111}

// dodClass gives the ones before the width of a second difference.
func dodClass(dod int64) int {
	switch {
	case dod == 0:
		return 0
	case -(1<<13-1) <= dod && dod <= 1<<13:
		return 1
	case -(1<<16-1) <= dod && dod <= 1<<16:
		return 2
	case -(1<<19-1) <= dod && dod <= 1<<19:
		return 3
	}
	return 4
}

// timeBits gives the bits that an XOR chunk spends on t.
func timeBits(t []int64) int {
	size := 8 * len(binary.AppendVarint(make([]byte, 0, binary.MaxVarintLen64), t[0]))
	if len(t) < 2 {
		return size
	}
	delta := uint64(t[1] - t[0])
	size += 8 * len(binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64), delta))
	prev := t[1]
	for _, v := range t[2:] {
		d := uint64(v - prev)
		class := dodClass(int64(d - delta))
		size += min(class+1, 4) + int(dodWidths[class])
		prev, delta = v, d
	}
	return size
}

// timeLeastBits is a lower bound of timeBits, or any number from enough on.
func timeLeastBits(t []int64, enough int) (size int) {
	if len(t) < 2 {
		return enough
	}
	size = len(t) - 2
	for ; len(t) >= 10 && size < enough; t = t[8:] {
		q := (*[10]int64)(t)
		a, b, c, d := q[2]-q[1], q[4]-q[3], q[6]-q[5], q[8]-q[7]
		n := nonzero(uint64(a-q[1]+q[0])) + nonzero(uint64(q[3]-q[2]-a)) +
			nonzero(uint64(b-q[3]+q[2])) + nonzero(uint64(q[5]-q[4]-b)) +
			nonzero(uint64(c-q[5]+q[4])) + nonzero(uint64(q[7]-q[6]-c)) +
			nonzero(uint64(d-q[7]+q[6])) + nonzero(uint64(q[9]-q[8]-d))
		size += 15 * int(n)
	}
	for ; len(t) >= 3; t = t[1:] {
		size += 15 * int(nonzero(uint64(t[2]-2*t[1]+t[0])))
	}
	return size
}

// appendTimeBits appends t[1:]: the first difference as varint, then bits.
func appendTimeBits(dst []byte, t []int64) []byte {
	if len(t) < 2 {
		return dst
	}
	delta := uint64(t[1] - t[0])
	w := bitWriter{b: binary.AppendUvarint(dst, delta), free: 64}
	prev := t[1]
	for _, v := range t[2:] {
		d := uint64(v - prev)
		dod := int64(d - delta)
		class := dodClass(dod)
		width := dodWidths[class]
		w.put(dodPrefixes[class], uint(min(class+1, 4)))
		w.put(uint64(dod)&(1<<width-1), width)
		prev, delta = v, d
	}
	return w.close()
}

// bits reads what appendTimeBits wrote to out[1:].
func (r *intReader) bits(out []int64) {
	if len(out) < 2 {
		return
	}
	delta, size := binary.Uvarint(r.data[r.at:])
	if size <= 0 {
		r.fail = true
		return
	}
	t := uint64(out[0]) + delta
	out[1] = int64(t)
	b := bitReader{b: r.data, pos: 8 * (r.at + size)}
	for i := 2; i < len(out); i++ {
		class := 0
		for class < 4 && b.read(1) == 1 {
			class++
		}
		width := dodWidths[class]
		dod := b.read(int(width))
		if width < 64 && width > 0 && dod > 1<<(width-1) {
			dod -= 1 << width
		}
		delta += dod
		t += delta
		out[i] = int64(t)
	}
	r.fail = r.fail || b.fail
	r.at = (b.pos + 7) / 8
}

// valueLeastBits is a lower bound of valueBits, or any number from enough on.
func valueLeastBits(v []float64, enough int) int {
	size := 64 + len(v) - 1
	if size >= enough {
		return size
	}
	prev := math.Float64bits(v[0])
	for _, f := range v[1:] {
		u := math.Float64bits(f)
		if x := u ^ prev; x != 0 {
			size += 65 - min(bits.LeadingZeros64(x), 31) - bits.TrailingZeros64(x)
			if size >= enough {
				return size
			}
		}
		prev = u
	}
	return size
}

// xorWindow is the window of significant bits that the last value was written in.
type xorWindow struct{ leading, trailing uint }

// fit gives the bits of a value with the XOR x, which is not 0, and moves the
// window when x does not fit it.
func (w *xorWindow) fit(x uint64) (width uint, moved bool) {
	lead, trail := min(uint(bits.LeadingZeros64(x)), 31), uint(bits.TrailingZeros64(x))
	if moved = lead < w.leading || trail < w.trailing; moved {
		w.leading, w.trailing = lead, trail
	}
	return 64 - w.leading - w.trailing, moved
}

// noWindow fits nothing.
var noWindow = xorWindow{leading: 64}

// valueBits gives the bits that an XOR chunk spends on v.
func valueBits(v []float64) int {
	size, window := 64, noWindow
	prev := math.Float64bits(v[0])
	for _, f := range v[1:] {
		u := math.Float64bits(f)
		x := u ^ prev
		prev = u
		size++
		if x == 0 {
			continue
		}
		width, moved := window.fit(x)
		size += 1 + int(width)
		if moved {
			size += 11
		}
	}
	return size
}

// appendValueBits appends v: the first value in 8 bytes, then bits.
func appendValueBits(dst []byte, v []float64) []byte {
	prev, window := math.Float64bits(v[0]), noWindow
	w := bitWriter{b: binary.BigEndian.AppendUint64(dst, prev), free: 64}
	for _, f := range v[1:] {
		u := math.Float64bits(f)
		x := u ^ prev
		prev = u
		if x == 0 {
			w.put(0, 1)
			continue
		}
		width, moved := window.fit(x)
		if moved {
			w.put(0b11<<11|uint64(window.leading)<<6|uint64(width)&63, 13)
		} else {
			w.put(0b10, 2)
		}
		w.put(x>>window.trailing, width)
	}
	return w.close()
}

// readValueBits reads what appendValueBits wrote to out and returns the offset of
// what follows.
func readValueBits(out []float64, data []byte, at int, enc Encoding) (int, error) {
	if len(data)-at < 8 {
		return at, corrupt(enc, at, "XOR stream cut short")
	}
	u := binary.BigEndian.Uint64(data[at:])
	out[0] = math.Float64frombits(u)
	pos := 8 * (at + 8)
	var leading, width uint
	for i := 1; i < len(out); {
		x := bitsFrom(data, pos)
		if same := bits.LeadingZeros64(x); same > 0 { // one bit for each value that repeats
			same = min(same, len(out)-i)
			v := math.Float64frombits(u)
			for j := range out[i : i+same] {
				out[i+j] = v
			}
			i += same
			pos += same
			continue
		}
		pos += 2
		if x>>62 == 0b11 {
			leading, width = uint(x>>57&31), (uint(x>>51)-1)&63+1 // a width of 0 is 64
			pos += 11
		}
		if leading+width > 64 || width == 0 {
			return at, corrupt(enc, min(pos/8, len(data)), "XOR window of %d bits after %d", width, leading)
		}
		u ^= bitsFrom(data, pos) >> (64 - width) << (64 - leading - width)
		pos += int(width)
		out[i] = math.Float64frombits(u)
		i++
	}
	if pos > 8*len(data) {
		return at, corrupt(enc, len(data), "XOR stream cut short")
	}
	return (pos + 7) / 8, nil
}

// bitsFrom gives the 64 bits of b from bit pos on, most significant first, zeros
// past the end.
func bitsFrom(b []byte, pos int) uint64 {
	at, shift := pos>>3, uint(pos&7)
	if at+9 <= len(b) {
		return binary.BigEndian.Uint64(b[at:])<<shift | uint64(b[at+8])>>(8-shift)
	}
	var last [9]byte
	copy(last[:], b[min(at, len(b)):])
	return binary.BigEndian.Uint64(last[:])<<shift | uint64(last[8])>>(8-shift)
}

// bitWriter appends bits, most significant first; free of acc's low bits are unused.
type bitWriter struct {
	b    []byte
	acc  uint64
	free uint
}

func (w *bitWriter) put(u uint64, n uint) {
	if n < w.free {
		w.free -= n
		w.acc |= u << w.free
		return
	}
	rest := n - w.free
	w.b = binary.BigEndian.AppendUint64(w.b, w.acc|u>>rest)
	w.free = 64 - rest
	w.acc = u << w.free // 0 when rest is 0, as a shift by 64 gives
}

// close appends the last bits, filled with zeros to a byte.
func (w *bitWriter) close() []byte {
	for used := 64 - int(w.free); used > 0; used -= 8 {
		w.b = append(w.b, byte(w.acc>>56))
		w.acc <<= 8
	}
	return w.b
}
