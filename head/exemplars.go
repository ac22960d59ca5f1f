package head

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/zeebo/xxh3"
)

// exemplarRing is the ring of exemplars with a memory of what is in it. The ring by
// itself knows the newest exemplar of a series only, so it takes all but the last of
// a request that is sent again for late ones. The committer and replay own it.
type exemplarRing struct {
	ring tsdb.ExemplarStorage
	size int
	seed uint64
	held map[xxh3.Uint128]struct{} // keys of what the ring holds
	keys []xxh3.Uint128            // the same in the order of the ring, the oldest at next once it is full
	next int
	buf  []byte
}

func newExemplarRing(size int, seed uint64, metrics *tsdb.ExemplarMetrics) (*exemplarRing, error) {
	size = max(0, size)
	ring, err := tsdb.NewCircularExemplarStorage(int64(size), metrics, 0)
	if err != nil {
		return nil, err
	}
	return &exemplarRing{ring: ring, size: size, seed: seed, held: map[xxh3.Uint128]struct{}{}}, nil
}

// judge returns nil when the ring will take e, storage.ErrDuplicateExemplar when it
// holds e, or why it will not take it.
func (r *exemplarRing) judge(series labels.Labels, e exemplar.Exemplar) error {
	if _, ok := r.held[r.key(series, e)]; ok {
		return storage.ErrDuplicateExemplar
	}
	return r.ring.ValidateExemplar(series, e)
}

// add puts e into the ring in the place of the oldest; what is in it stays as it is.
func (r *exemplarRing) add(series labels.Labels, e exemplar.Exemplar) error {
	key := r.key(series, e)
	if _, ok := r.held[key]; ok {
		return nil
	}
	if err := r.ring.AddExemplar(series, e); err != nil {
		return err
	}
	r.held[key] = struct{}{}
	if len(r.keys) < r.size {
		r.keys = append(r.keys, key)
		return nil
	}
	delete(r.held, r.keys[r.next])
	r.keys[r.next] = key
	r.next = (r.next + 1) % r.size
	return nil
}

// key is a hash of everything that tells one exemplar from another.
func (r *exemplarRing) key(series labels.Labels, e exemplar.Exemplar) xxh3.Uint128 {
	b := appendLabels(r.buf[:0], series)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Ts))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.Value))
	r.buf = appendLabels(b, e.Labels)
	return xxh3.Hash128Seed(r.buf, r.seed)
}

// appendLabels appends the labels with the length of each string before it.
func appendLabels(b []byte, ls labels.Labels) []byte {
	b = binary.AppendUvarint(b, uint64(ls.Len()))
	ls.Range(func(l labels.Label) {
		b = binary.AppendUvarint(b, uint64(len(l.Name)))
		b = append(b, l.Name...)
		b = binary.AppendUvarint(b, uint64(len(l.Value)))
		b = append(b, l.Value...)
	})
	return b
}
