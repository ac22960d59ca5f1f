package bench

import (
	"encoding/binary"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// scan1 walks a prometheus.WriteRequest and returns its number of samples. With
// hash it hashes the labels of each entry, with a table it appends the samples.
func scan1(b []byte, hash bool, table *hashTable) (samples int, err error) {
	var seen uint64
	for p := 0; p < len(b); {
		tag, from, end, ok := field(b, p)
		if !ok || tag != 1<<3|2 {
			return 0, errFloorWire
		}
		p = from
		for p+2 < end && b[p] == 1<<3|2 { // labels, of at most 127 bytes each in the generator's loads
			if b[p+1] >= 0x80 {
				return 0, errFloorWire
			}
			p += 2 + int(b[p+1])
		}
		if p > end {
			return 0, errFloorWire
		}
		var to *tail
		if hash {
			h := xxh3.Hash128(b[from:p])
			seen ^= h.Lo
			if table != nil {
				to = table.find(h.Lo, h.Hi)
			}
		}
		for p < end {
			if b[p] != 2<<3|2 || p+2 > end {
				return 0, errFloorWire
			}
			next := p + 2 + int(b[p+1])
			if next > end {
				return 0, errFloorWire
			}
			ts, v, ok := readSample(b, p+2, next)
			if !ok {
				return 0, errFloorWire
			}
			if to != nil {
				to.append(ts, v)
			}
			seen ^= ts ^ v
			samples++
			p = next
		}
	}
	floorSeen = seen
	return samples, nil
}

// floorSeen keeps the compiler from leaving the work out.
var floorSeen uint64

// scan2 walks io.prometheus.write.v2.Requests; its memory is that of the last one.
type scan2 struct {
	hashes  []uint64 // of the symbols
	symbols int
}

// body is scan1 for 2.0.
func (s *scan2) body(b []byte, hash bool, table *hashTable) (samples int, err error) {
	s.hashes, s.symbols = s.hashes[:0], 0
	p := 0
	for p < len(b) && b[p] == 4<<3|2 {
		_, from, end, ok := field(b, p)
		if !ok {
			return 0, errFloorWire
		}
		s.symbols++
		if hash {
			s.hashes = append(s.hashes, xxh3.Hash(b[from:end]))
		}
		p = end
	}
	for p < len(b) {
		tag, from, end, ok := field(b, p)
		if !ok || tag != 5<<3|2 {
			return 0, errFloorWire
		}
		n, err := s.entry(b[:end], from, hash, table)
		if err != nil {
			return 0, err
		}
		samples += n
		p = end
	}
	return samples, nil
}

// entry scans the entry that begins at p and ends with b.
func (s *scan2) entry(b []byte, p int, hash bool, table *hashTable) (samples int, err error) {
	tag, p, end, ok := field(b, p)
	if !ok || tag != 1<<3|2 {
		return 0, errFloorWire
	}
	lo, hi, ok := uint64(0), uint64(0), false
	if hash {
		lo, hi, ok = foldRefs(b[p:end], s.hashes)
	} else {
		lo, ok = walkRefs(b[p:end], s.symbols)
	}
	if !ok {
		return 0, errFloorWire
	}
	var to *tail
	if table != nil {
		to = table.find(lo, hi)
	}
	seen := lo
	for p = end; p < len(b); {
		tag, from, end, ok := field(b, p)
		if !ok {
			return 0, errFloorWire
		}
		if tag == 2<<3|2 {
			ts, v, ok := readSample(b, from, end)
			if !ok {
				return 0, errFloorWire
			}
			if to != nil {
				to.append(ts, v)
			}
			seen ^= ts ^ v
			samples++
		}
		p = end
	}
	floorSeen = seen
	return samples, nil
}

// walkRefs decodes references and checks them.
func walkRefs(b []byte, symbols int) (sum uint64, ok bool) {
	for p := 0; p < len(b); {
		ref, next := readRef(b, p)
		if next < 0 || ref >= uint64(symbols) {
			return 0, false
		}
		sum += ref
		p = next
	}
	return sum, true
}

// foldRefs makes 128 bits of the hashes of names and values by turns: a product
// of 128 bits for each pair, its factors told apart by their place.
func foldRefs(b []byte, hashes []uint64) (lo, hi uint64, ok bool) {
	place := uint64(0x9e3779b97f4a7c15)
	for p := 0; p < len(b); {
		name, next := readRef(b, p)
		if next < 0 || name >= uint64(len(hashes)) {
			return 0, 0, false
		}
		value, after := readRef(b, next)
		if after < 0 || value >= uint64(len(hashes)) {
			return 0, 0, false
		}
		h, l := bits.Mul64(hashes[name]^place, hashes[value]+place)
		lo, hi = lo+l, hi+h
		place += 0x9e3779b97f4a7c15
		p = after
	}
	return lo ^ hi, hi, true
}

// readRef reads a varint; next is negative where there is none.
func readRef(b []byte, p int) (ref uint64, next int) {
	if p >= len(b) {
		return 0, -1
	}
	if b[p] < 0x80 {
		return uint64(b[p]), p + 1
	}
	if p+1 < len(b) && b[p+1] < 0x80 {
		return uint64(b[p]&0x7f) | uint64(b[p+1])<<7, p + 2
	}
	v, n := binary.Uvarint(b[p:])
	if n <= 0 {
		return 0, -1
	}
	return v, p + n
}
