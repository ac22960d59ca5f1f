package ooo

import "math/bits"

// A stable radix sort, lowest digit first, with memory that the caller owns.
//
//  1. Times are taken as distances from the lowest one. Their digits are about
//     as wide as the number of samples is long, so that counting a digit costs
//     no more than moving the samples.
//  2. For each digit: count how often each value occurs, sum up to where each
//     one begins, move the samples there in their order.
//
// No step branches on what the samples are, so an order that cannot be foretold
// costs no more than any other.

const (
	// sortSmall is the number of samples up to which comparing all is cheaper.
	sortSmall = 32
	// maxDigit is the width of the widest digit, in bits: its counters take 8 KiB.
	maxDigit = 11
)

// sorter sorts buffers. It holds scratch memory and serves one goroutine.
type sorter struct {
	tmp    []point // the other memory of a move
	perm   []point // bits is the position that the point had
	counts [1 << maxDigit]uint32
}

// sort orders b by time; samples of the same time stay in order of arrival.
func (o *sorter) sort(b *Buffer) {
	if !b.unsorted {
		return
	}
	b.unsorted = false
	if b.plain() {
		o.sortPoints(b.points, b.min, b.max)
		return
	}
	o.perm = grow(o.perm, len(b.points))
	for i := range b.points {
		o.perm[i] = point{b.points[i].t, uint64(i)}
	}
	o.sortPoints(o.perm, b.min, b.max)
	b.permute(o.perm)
}

// sortPoints orders a by time, stably. All times lie in [mint, maxt].
func (o *sorter) sortPoints(a []point, mint, maxt int64) {
	n := len(a)
	if n <= sortSmall {
		o.sortFew(a)
		return
	}
	width := bits.Len64(uint64(maxt) - uint64(mint))
	digit := min(maxDigit, bits.Len(uint(n)))
	passes := (width + digit - 1) / digit
	digit = (width + passes - 1) / passes
	o.tmp = grow(o.tmp, n)
	src, dst := a, o.tmp
	for shift := 0; shift < width; shift += digit {
		moveByDigit(dst, src, o.counts[:1<<digit], uint64(mint), uint(shift))
		src, dst = dst, src
	}
	if &src[0] != &a[0] {
		copy(a, src)
	}
}

// moveByDigit moves src to dst in the order of one digit. counts has a counter
// for each value of the digit.
func moveByDigit(dst, src []point, counts []uint32, base uint64, shift uint) {
	mask := uint64(len(counts) - 1)
	clear(counts)
	for i := range src {
		counts[(uint64(src[i].t)-base)>>(shift&63)&mask]++
	}
	sum := uint32(0)
	for i, c := range counts {
		counts[i] = sum
		sum += c
	}
	for _, p := range src {
		c := &counts[(uint64(p.t)-base)>>(shift&63)&mask]
		dst[*c] = p
		*c++
	}
}

// sortFew counts for each sample how many go before it. All pairs are compared, so
// that no branch depends on the times.
func (o *sorter) sortFew(a []point) {
	var before [sortSmall]uint8
	n := min(len(a), sortSmall)
	a = a[:n]
	for i := range a {
		t, rank := a[i].t, i
		for j, p := range a[:i] {
			swap := less(t, p.t)
			before[j] += uint8(swap)
			rank -= swap
		}
		before[i] = uint8(rank)
	}
	o.tmp = grow(o.tmp, n)
	copy(o.tmp, a)
	for i, p := range o.tmp {
		a[before[i]&(sortSmall-1)] = p
	}
}

// permute moves the sample at position perm[i].bits to i, for all i. It follows
// each cycle once and leaves perm without meaning.
func (b *Buffer) permute(perm []point) {
	for i := range perm {
		if int(perm[i].bits) == i {
			continue
		}
		t, s := b.points[i].t, b.at(i)
		j := i
		for {
			from := int(perm[j].bits)
			perm[j].bits = uint64(j)
			if from == i {
				b.set(j, t, s)
				break
			}
			b.set(j, b.points[from].t, b.at(from))
			j = from
		}
	}
}

// grow returns s with length n, its content without meaning.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		s = make([]T, n+n/4)
	}
	return s[:n]
}
