package block

import (
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/zeebo/xxh3"

	ours "github.com/rwsink/rwsink/chunkenc"
)

// columnWindow remembers the time columns that a writer met of late.
type columnWindow struct {
	young, old map[xxh3.Uint128]columnState
}

// columnState says of a column whether it was met, and where it stands as an entry (0: nowhere).
type columnState struct {
	ref  uint64
	seen bool
}

// columnWindowSize bounds the columns of each half of the window: 40 bytes an
// entry, a day of minutes for fifty targets.
const columnWindowSize = 1 << 16

// look returns what is known of a column and notes that it was met.
func (w *columnWindow) look(column []byte) columnState {
	key := xxh3.Hash128(column)
	state, ok := w.young[key]
	if !ok {
		state = w.old[key]
		met := state
		met.seen = true
		w.put(key, met)
	}
	return state
}

// set keeps where a column stands.
func (w *columnWindow) set(column []byte, s columnState) {
	s.seen = true
	w.put(xxh3.Hash128(column), s)
}

func (w *columnWindow) put(key xxh3.Uint128, s columnState) {
	if w.young == nil || len(w.young) >= columnWindowSize {
		w.old, w.young = w.young, map[xxh3.Uint128]columnState{}
	}
	w.young[key] = s
}

// entry is a chunk or a time column as Prometheus's segment files hold it. The
// embedded interface is nil: their reader asks for nothing but these.
type entry struct {
	chunkenc.Chunk
	enc  ours.Encoding
	data []byte
}

// Bytes returns the entry's data.
func (e entry) Bytes() []byte { return e.data }

// Encoding returns the number that stands before the data.
func (e entry) Encoding() chunkenc.Encoding { return chunkenc.Encoding(e.enc) }
