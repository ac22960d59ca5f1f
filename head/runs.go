package head

import (
	"fmt"

	"github.com/rwsink/rwsink/chunkenc"
)

// runList is a list of decoded runs whose memory is used again.
type runList struct {
	list []*chunkenc.Samples
	free []*chunkenc.Samples
}

// reset empties the list.
func (l *runList) reset() *runList {
	l.free = append(l.free, l.list...)
	l.list = l.list[:0]
	return l
}

// next returns the run to append samples of kind k to: the last one if it is of this kind, else a new one.
func (l *runList) next(k chunkenc.Kind) *chunkenc.Samples {
	if n := len(l.list); n > 0 && l.list[n-1].Kind == k {
		return l.list[n-1]
	}
	var s *chunkenc.Samples
	if n := len(l.free); n > 0 {
		s, l.free = l.free[n-1], l.free[:n-1]
	} else {
		s = &chunkenc.Samples{}
	}
	s.Reset(k)
	l.list = append(l.list, s)
	return s
}

// endsBefore says whether all samples are older than t.
func (l *runList) endsBefore(t int64) bool {
	if len(l.list) == 0 {
		return true
	}
	ts := l.list[len(l.list)-1].T
	return len(ts) == 0 || ts[len(ts)-1] < t
}

// decode appends a chunk that this process sealed.
func (l *runList) decode(d *chunkenc.Decoder, c *chunkenc.Chunk) {
	if err := d.Decode(l.next(c.Kind()), c); err != nil {
		panic(fmt.Sprintf("BUG: a chunk in memory does not decode: %v", err))
	}
}
