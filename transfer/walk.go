package transfer

import (
	"container/heap"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/ooo"
)

// cursor walks the series of one source within one range, in order of labels.
type cursor interface {
	// next goes to the next series; false at the end.
	next() (bool, error)
	labels() labels.Labels
	// layer is where the samples of the series stand; it is good until next.
	layer() ooo.Layer
}

// walk calls add with each series of the cursors, in order of labels, and its
// layers in order of the cursors.
func walk(list []cursor, add func(labels.Labels, []ooo.Layer) error) error {
	var h cursorHeap
	for i, c := range list {
		ok, err := c.next()
		if err != nil {
			return err
		}
		if ok {
			h = append(h, ranked{c, i})
		}
	}
	heap.Init(&h)
	var same []ranked
	var layers []ooo.Layer
	for len(h) > 0 {
		same, layers = same[:0], layers[:0]
		for first := h[0].labels(); len(h) > 0 && labels.Equal(h[0].labels(), first); {
			r := heap.Pop(&h).(ranked)
			same, layers = append(same, r), append(layers, r.layer())
		}
		if err := add(same[0].labels(), layers); err != nil {
			return err
		}
		for _, r := range same {
			ok, err := r.next()
			if err != nil {
				return err
			}
			if ok {
				heap.Push(&h, r)
			}
		}
	}
	return nil
}

// ranked is a cursor and its place in the order of arrival.
type ranked struct {
	cursor
	rank int
}

// cursorHeap has the cursor that stands first at the top.
type cursorHeap []ranked

func (h cursorHeap) Len() int { return len(h) }
func (h cursorHeap) Less(i, j int) bool {
	if c := labels.Compare(h[i].labels(), h[j].labels()); c != 0 {
		return c < 0
	}
	return h[i].rank < h[j].rank
}
func (h cursorHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursorHeap) Push(x any)   { *h = append(*h, x.(ranked)) }
func (h *cursorHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
