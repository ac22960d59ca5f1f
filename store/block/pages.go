package block

import (
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// Pages holds unpacked pages of the indexes of many blocks in bounded memory.
// Which go is found as by a clock: the hand passes over a page that was used
// since it passed last, and takes the first that was not. A page is never
// changed, so whoever has one keeps it when it is taken. Safe for concurrent
// use; a page at hand is found without a lock.
type Pages struct {
	decoder *zstd.Decoder
	most    int64

	mu    sync.Mutex
	ring  []*page
	hand  int
	bytes int64
}

// page is an unpacked page.
type page struct {
	data []byte
	used atomic.Bool           // since the hand passed
	held *atomic.Pointer[page] // where it is found
}

// NewPages returns room for pages of so many bytes.
func NewPages(bytes int64) *Pages {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(packedPage), zstd.WithDecoderMaxMemory(packedPage))
	if err != nil {
		panic("BUG: options of zstd: " + err.Error())
	}
	return &Pages{decoder: decoder, most: bytes}
}

// Bytes returns how many bytes of pages are held.
func (c *Pages) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (q *page) use() []byte {
	if !q.used.Load() { // a store would take the line from the other processors
		q.used.Store(true)
	}
	return q.data
}

// keep makes data what held has, unless another has done so, and returns what it
// has. Others go to make room.
func (c *Pages) keep(held *atomic.Pointer[page], data []byte) []byte {
	q := &page{data: data, held: held}
	if !held.CompareAndSwap(nil, q) {
		return data // another has unpacked the same
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for passed := 0; len(c.ring) > 0 && c.bytes+int64(len(data)) > c.most; passed++ {
		c.hand %= len(c.ring)
		old := c.ring[c.hand]
		if old.used.Swap(false) && passed < len(c.ring) {
			c.hand++
			continue
		}
		old.held.CompareAndSwap(old, nil)
		c.bytes -= int64(len(old.data))
		last := len(c.ring) - 1
		c.ring[c.hand], c.ring[last] = c.ring[last], nil
		c.ring = c.ring[:last]
	}
	if c.bytes+int64(len(data)) > c.most {
		held.CompareAndSwap(q, nil)
		return data
	}
	c.bytes += int64(len(data))
	c.ring = append(c.ring, q)
	last := len(c.ring) - 1
	c.hand = min(c.hand, last)
	c.ring[c.hand], c.ring[last] = q, c.ring[c.hand] // behind the hand: it comes here last
	c.hand++
	return data
}
