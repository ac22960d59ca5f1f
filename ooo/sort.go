package ooo

// A stable merge sort from the bottom up, with memory that the caller owns.
//
//  1. Blocks of sortBlock points are sorted by insertion.
//  2. Neighbouring stretches are merged from one memory into the other, twice
//     as long each pass; two that are in order already are copied.

// sortBlock is where insertion stops being the cheaper way.
const sortBlock = 12

// sorter sorts buffers. It holds scratch memory and serves one goroutine.
type sorter struct {
	tmp  []point // the other memory of the merge
	perm []point // bits is the position that the point had
}

// sort orders b by time; samples of the same time stay in order of arrival.
func (o *sorter) sort(b *Buffer) {
	if !b.unsorted {
		return
	}
	b.unsorted = false
	n := len(b.points)
	o.tmp = grow(o.tmp, n)
	if b.plain() {
		sortPoints(b.points, o.tmp)
		return
	}
	o.perm = grow(o.perm, n)
	for i := range b.points {
		o.perm[i] = point{b.points[i].t, uint64(i)}
	}
	sortPoints(o.perm, o.tmp)
	b.permute(o.perm)
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

// sortPoints orders a by time, stably. tmp is as long as a.
func sortPoints(a, tmp []point) {
	n := len(a)
	for lo := 0; lo < n; lo += sortBlock {
		insertionSort(a[lo:min(lo+sortBlock, n)])
	}
	src, dst := a, tmp
	for w := sortBlock; w < n; w *= 2 {
		for lo := 0; lo < n; lo += 2 * w {
			mid, hi := min(lo+w, n), min(lo+2*w, n)
			mergePoints(dst[lo:hi], src[lo:mid], src[mid:hi])
		}
		src, dst = dst, src
	}
	if n > 0 && &src[0] != &a[0] {
		copy(a, src)
	}
}

func insertionSort(a []point) {
	for i := 1; i < len(a); i++ {
		p := a[i]
		j := i
		for ; j > 0 && p.t < a[j-1].t; j-- {
			a[j] = a[j-1]
		}
		a[j] = p
	}
}

// mergePoints merges two sorted stretches into dst, which is as long as both;
// at equal times l comes first.
func mergePoints(dst, l, r []point) {
	if len(r) == 0 || l[len(l)-1].t <= r[0].t {
		copy(dst[copy(dst, l):], r)
		return
	}
	i, j := 0, 0
	for k := range dst {
		switch {
		case i == len(l):
			copy(dst[k:], r[j:])
			return
		case j == len(r):
			copy(dst[k:], l[i:])
			return
		case r[j].t < l[i].t:
			dst[k] = r[j]
			j++
		default:
			dst[k] = l[i]
			i++
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
