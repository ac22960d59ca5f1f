package head

import (
	"math/bits"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
)

// Two open-addressed tables of series with linear probing: by the key of a wire
// form, and by labels. Both are split into shards, so that growing one moves
// only a small part of all entries at a time.
//
// A look-up by key takes no lock. A slot is written once, its series last, and
// a shard is replaced when it grows or loses entries; a reader of the shard
// before misses what came since, and a miss is decided under identity.mu.

// numShards splits a table: at a million series a shard has 16,000.
const numShards = 1 << shardBits

const (
	shardBits  = 6
	leastSlots = 8
	// A shard is filled to 3/4 at most, and to half after it has grown.
	fullNum, fullDen = 3, 4
	growTo           = 2
	// lookupWindow is how many look-ups let their cache misses overlap.
	lookupWindow = 64
	golden       = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
)

// shardOf returns the shard of a mixed hash: its highest bits.
func shardOf(h uint64) int { return int(h >> (64 - shardBits)) }

// slotOf returns which of a shard's n slots a mixed hash belongs to: the bits below.
func slotOf(h uint64, n int) int {
	hi, _ := bits.Mul64(h<<shardBits, uint64(n))
	return int(hi)
}

// mix makes even keys that count up differ in their high bits.
func (k Key) mix() uint64 { return (k.Lo ^ bits.RotateLeft64(k.Hi, 32)) * golden }

// droppedSeries stands in the table for what relabelling drops.
var droppedSeries = &Series{}

// keyTable finds series by the keys of their wire forms. One goroutine at a
// time may change it.
type keyTable struct {
	shards [numShards]atomic.Pointer[keyShard]
}

type keyShard struct {
	slots   []keySlot
	used    int // of the writer
	dropped int // of the writer: how many stand for droppedSeries
}

// keySlot is empty while series is nil.
type keySlot struct {
	series atomic.Pointer[Series]
	key    Key
}

func newKeyTable() *keyTable {
	t := &keyTable{}
	for i := range t.shards {
		t.shards[i].Store(&keyShard{slots: make([]keySlot, leastSlots)})
	}
	return t
}

// find returns the series of k, droppedSeries, or nil.
func (t *keyTable) find(k Key) *Series {
	h := k.mix()
	slots := t.shards[shardOf(h)].Load().slots
	return probe(slots, slotOf(h, len(slots)), k)
}

// probe looks for k from slot i on.
func probe(slots []keySlot, i int, k Key) *Series {
	for {
		if s := slots[i].series.Load(); s == nil || slots[i].key == k {
			return s
		}
		if i++; i == len(slots) {
			i = 0
		}
	}
}

// findAll is find for many keys, into out of the same length. First it loads
// the slots that the keys belong to, none of which depends on another, so that
// the misses of the cache overlap; nearly always that is all.
func (t *keyTable) findAll(keys []Key, out []*Series) {
	var at [lookupWindow]*keySlot
	for len(keys) > 0 {
		n := min(len(keys), lookupWindow)
		for i, k := range keys[:n] {
			h := k.mix()
			slots := t.shards[shardOf(h)].Load().slots
			at[i] = &slots[slotOf(h, len(slots))]
			out[i] = at[i].series.Load()
		}
		for i, k := range keys[:n] {
			if out[i] != nil && at[i].key != k {
				out[i] = t.find(k)
			}
		}
		keys, out = keys[n:], out[n:]
	}
}

// add puts a key that is not there.
func (t *keyTable) add(k Key, s *Series) {
	h := k.mix()
	shard := &t.shards[shardOf(h)]
	sh := shard.Load()
	if s == droppedSeries && sh.dropped == maxDroppedKeys {
		sh = sh.rebuilt(func(s *Series) bool { return s != droppedSeries })
		shard.Store(sh)
	}
	if fullDen*(sh.used+1) > fullNum*len(sh.slots) {
		sh = sh.rebuilt(func(*Series) bool { return true })
		shard.Store(sh)
	}
	sh.put(k, s)
}

func (sh *keyShard) put(k Key, s *Series) {
	i := slotOf(k.mix(), len(sh.slots))
	for sh.slots[i].series.Load() != nil {
		if i++; i == len(sh.slots) {
			i = 0
		}
	}
	sh.slots[i].key = k
	sh.slots[i].series.Store(s)
	sh.used++
	if s == droppedSeries {
		sh.dropped++
	}
}

// rebuilt returns a shard of what keep chooses, with room for more.
func (sh *keyShard) rebuilt(keep func(*Series) bool) *keyShard {
	n := 0
	for i := range sh.slots {
		if s := sh.slots[i].series.Load(); s != nil && keep(s) {
			n++
		}
	}
	next := &keyShard{slots: make([]keySlot, roomFor(n))}
	for i := range sh.slots {
		if s := sh.slots[i].series.Load(); s != nil && keep(s) {
			next.put(sh.slots[i].key, s)
		}
	}
	return next
}

// roomFor returns the slots of a shard that is to take more than n entries.
func roomFor(n int) int { return max(leastSlots, growTo*n) }

// sweep takes out the keys of series that are gone.
func (t *keyTable) sweep() {
	stays := func(s *Series) bool { return !s.gone }
	for i := range t.shards {
		sh := t.shards[i].Load()
		for j := range sh.slots {
			if s := sh.slots[j].series.Load(); s != nil && s.gone {
				t.shards[i].Store(sh.rebuilt(stays))
				break
			}
		}
	}
}

// labelTable finds series by their labels, under a hash that only narrows the
// search. identity.mu guards it.
type labelTable struct {
	shards [numShards]labelShard
}

// A slot has a tag beside it, so that a search touches the series that it finds
// and hardly another; 0 is an empty slot.
type labelShard struct {
	tags  []uint8
	slots []*Series
	used  int
}

func mixHash(hash uint32) uint64 { return (uint64(hash) + 1) * golden }

// tagOf returns bits of a mixed hash that say little of shard and slot.
func tagOf(h uint64) uint8 { return uint8(h>>32) | 1 }

func (t *labelTable) find(hash uint32, ls labels.Labels) *Series {
	h := mixHash(hash)
	sh := &t.shards[shardOf(h)]
	if len(sh.slots) == 0 {
		return nil
	}
	tag := tagOf(h)
	for i := slotOf(h, len(sh.slots)); sh.tags[i] != 0; {
		if sh.tags[i] == tag {
			if s := sh.slots[i]; s.hash == hash && labels.Equal(s.labels, ls) {
				return s
			}
		}
		if i++; i == len(sh.slots) {
			i = 0
		}
	}
	return nil
}

// add puts a series that is not there.
func (t *labelTable) add(s *Series) {
	sh := &t.shards[shardOf(mixHash(s.hash))]
	if fullDen*(sh.used+1) > fullNum*len(sh.slots) {
		sh.rebuild()
	}
	sh.put(s)
}

func (sh *labelShard) put(s *Series) {
	h := mixHash(s.hash)
	i := slotOf(h, len(sh.slots))
	for sh.tags[i] != 0 {
		if i++; i == len(sh.slots) {
			i = 0
		}
	}
	sh.tags[i], sh.slots[i] = tagOf(h), s
	sh.used++
}

// rebuild makes room, without series that are gone.
func (sh *labelShard) rebuild() {
	old, n := sh.slots, 0
	for _, s := range old {
		if s != nil && !s.gone {
			n++
		}
	}
	sh.tags, sh.slots, sh.used = make([]uint8, roomFor(n)), make([]*Series, roomFor(n)), 0
	for _, s := range old {
		if s != nil && !s.gone {
			sh.put(s)
		}
	}
}

// sweep takes out the series that are gone.
func (t *labelTable) sweep() {
	for i := range t.shards {
		for _, s := range t.shards[i].slots {
			if s != nil && s.gone {
				t.shards[i].rebuild()
				break
			}
		}
	}
}

// each calls f for every series.
func (t *labelTable) each(f func(*Series)) {
	for i := range t.shards {
		for _, s := range t.shards[i].slots {
			if s != nil {
				f(s)
			}
		}
	}
}
