package head

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/wal/record"
)

// Batch collects what one request holds, in the request's order. Get one from
// Head.NewBatch. It belongs to the request until Commit, to the committer
// until Commit returns, then to the request again.
type Batch struct {
	head  *Head
	since uint64 // Head.collections when it was begun

	// Float samples, as columns of one length; starts is empty until a sample has one.
	series []*Series
	times  []int64
	starts []int64
	values []float64

	hists     []histSample
	exemplars []batchExemplar
	metadata  []record.Metadata

	metadataBytes int // of the texts of metadata

	result Result
	err    error
	done   chan struct{}
}

type histSample struct {
	series *Series
	sample
}

type batchExemplar struct {
	series *Series
	exemplar.Exemplar
}

// Result says what became of a batch.
type Result struct {
	// Samples, Histograms and Exemplars count what is stored now or was stored
	// already. What relabelling drops never enters a batch: the receiver counts it.
	Samples, Histograms, Exemplars int
	// Refused lists what was not stored.
	Refused Refusals
}

var batchPool = sync.Pool{New: func() any { return &Batch{done: make(chan struct{}, 1)} }}

// NewBatch returns an empty batch from a pool.
func (h *Head) NewBatch() *Batch {
	b := batchPool.Get().(*Batch)
	b.head, b.since = h, h.collections.Load()
	return b
}

// maxPooled keeps a single huge request from staying in memory: a batch that
// has held more samples, or anything else, is not used again.
const maxPooled = 1 << 17

// Release gives the batch back; it must not be used afterwards.
func (b *Batch) Release() {
	if max(cap(b.times), cap(b.hists), cap(b.exemplars), cap(b.metadata)) > maxPooled {
		return
	}
	b.clear()
	b.head, b.result, b.err = nil, Result{}, nil
	batchPool.Put(b)
}

// clear empties the batch and keeps its memory.
func (b *Batch) clear() {
	clear(b.series)
	clear(b.hists)
	clear(b.exemplars)
	clear(b.metadata)
	b.series, b.times, b.starts, b.values = b.series[:0], b.times[:0], b.starts[:0], b.values[:0]
	b.hists, b.exemplars, b.metadata = b.hists[:0], b.exemplars[:0], b.metadata[:0]
	b.metadataBytes = 0
}

// Float adds a float sample; st is its start timestamp or 0.
func (b *Batch) Float(s *Series, t, st int64, v float64) {
	if st != 0 && len(b.starts) == 0 {
		b.starts = append(b.starts, make([]int64, len(b.times))...)
	}
	if st != 0 || len(b.starts) > 0 {
		b.starts = append(b.starts, st)
	}
	b.series = append(b.series, s)
	b.times = append(b.times, t)
	b.values = append(b.values, v)
}

// Histogram adds a native histogram: exactly one of hist and fh is set, and the
// batch keeps it. CheckHistogram or CheckFloatHistogram has taken it.
func (b *Batch) Histogram(s *Series, t, st int64, hist *histogram.Histogram, fh *histogram.FloatHistogram) {
	b.hists = append(b.hists, histSample{s, sample{t: t, st: st, h: hist, fh: fh}})
}

// Exemplar adds an exemplar of a series.
func (b *Batch) Exemplar(s *Series, t int64, v float64, ls labels.Labels) {
	e := exemplar.Exemplar{Labels: ls, Value: v, Ts: t, HasTs: true}
	b.exemplars = append(b.exemplars, batchExemplar{s, e})
}

// Metadata adds what is known of a metric family; the latest wins. The strings
// are borrowed for the call: what is already known costs nothing, the rest is
// checked and copied.
func (b *Batch) Metadata(family string, typ model.MetricType, unit, help string) {
	size := len(family) + len(unit) + len(help)
	switch {
	case size > maxMetadataBytes: // first, so that nothing below takes long
		b.refuseMetadata(family, ReasonMetadataLimit, "more than 16 KiB of family, unit and help")
		return
	case len(b.metadata) == 0 && b.head.metadata.knows(family, typ, unit, help):
		return
	case !utf8.ValidString(family) || !utf8.ValidString(unit) || !utf8.ValidString(help):
		b.refuseMetadata(family, ReasonMetadata, "a text is not valid UTF-8")
		return
	case b.metadataBytes+size > maxBatchMetadataBytes:
		b.refuseMetadata(family, ReasonMetadataLimit, "more than 32 MiB of metadata in the request")
		return
	}
	b.metadataBytes += size
	b.metadata = append(b.metadata, record.Metadata{
		Family: strings.Clone(family), Type: model.MetricType(strings.Clone(string(typ))),
		Unit: strings.Clone(unit), Help: strings.Clone(help),
	})
}

func (b *Batch) refuseMetadata(family, reason, detail string) {
	if !b.result.Refused.Count(ItemMetadata, reason) {
		b.result.Refused.Add(1, &Refusal{Item: ItemMetadata, Reason: reason, Detail: detail, Series: FormatFamily(family)})
	}
}

// items is how much is left to log.
func (b *Batch) items() int {
	return len(b.times) + len(b.hists) + len(b.exemplars) + len(b.metadata)
}

// start returns the start timestamp of float i, or 0.
func (b *Batch) start(i int) int64 {
	if len(b.starts) == 0 {
		return 0
	}
	return b.starts[i]
}

// keepFloats drops the float samples whose keep is false.
func (b *Batch) keepFloats(keep []bool) {
	n := 0
	for i, ok := range keep {
		if ok {
			b.series[n], b.times[n], b.values[n] = b.series[i], b.times[i], b.values[i]
			if len(b.starts) > 0 {
				b.starts[n] = b.starts[i]
			}
			n++
		}
	}
	clear(b.series[n:])
	b.series, b.times, b.values = b.series[:n], b.times[:n], b.values[:n]
	b.starts = b.starts[:min(n, len(b.starts))]
}
