package receiver

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
)

// filler turns a decoded body into a batch. It holds scratch memory and serves
// one request at a time; between requests it rests in a pool.
type filler struct {
	head    *head.Head
	seed    uint64
	batch   *head.Batch
	refused *head.Refusals
	dropped written // left out on purpose by relabelling

	scan1, ahead1 scanner1
	scan2, ahead2 scanner2
	checked       bool // the whole body is known to be well formed

	// The entries that are looked up at once.
	entries [window]entry
	keys    [window]head.Key
	series  [window]*head.Series

	labels   []head.Label
	hist     rawHistogram
	exemplar rawExemplar
	strings  labels.ScratchBuilder
	told     []told // 2.0: by the symbol of the metric's name; empty until a request has metadata
	metadata int    // 2.0: entries of metadata received
}

// window is how many entries are scanned, then looked up at once, then added:
// enough for their cache misses to overlap, few enough to stay in the cache.
const window = 64

// written counts what a 2.0 answer tells.
type written struct{ samples, histograms, exemplars int }

// begin prepares for a request.
func (f *filler) begin(h *head.Head, b *head.Batch, refused *head.Refusals) {
	f.head, f.seed, f.batch, f.refused = h, h.Seed(), b, refused
	f.dropped, f.checked, f.metadata = written{}, false, 0
}

// end lets go of everything that belongs to the request.
func (f *filler) end() {
	f.head, f.batch, f.refused = nil, nil, nil
	f.scan1.trim()
	f.ahead1.trim()
	f.scan2.trim()
	f.ahead2.symbols = nil // scan2's
	f.ahead2.trim()
	for i := range f.entries {
		f.entries[i].trim()
	}
	clear(f.series[:])
	f.labels = pooled(f.labels)
	clear(f.labels[:cap(f.labels)])
	clear(f.exemplar.labels[:cap(f.exemplar.labels)])
	clear(f.told)
	f.told = pooled(f.told)
}

// fill goes through a body window by window: next scans to the n-th entry of a
// window, or to something else, and add adds an entry with what the head knows
// under its key.
func (f *filler) fill(next func(n int) (item, error), add func(*entry, head.Key, *head.Series) error) error {
	for it := itemEntry; it != itemEnd; {
		n := 0
		for n < window && it != itemEnd {
			var err error
			if it, err = next(n); err != nil {
				return err
			}
			if it == itemEntry {
				n++
			}
		}
		f.head.LookupAll(f.keys[:n], f.series[:n])
		for i := range n {
			if err := add(&f.entries[i], f.keys[i], f.series[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// target is what became of an entry's labels: a series, or dropped on purpose, or refused.
type target struct {
	series  *head.Series
	dropped bool
	refusal *head.Refusal
}

// known returns what the head knows of a key as a target.
func known(s *head.Series) target {
	if s.Dropped() {
		return target{dropped: true}
	}
	return target{series: s}
}

// resolve finds or creates the series of f.labels.
func (f *filler) resolve(key head.Key) (target, error) {
	s, dropped, err := f.head.Resolve(key, f.labels)
	if err == nil {
		return target{series: s, dropped: dropped}, nil
	}
	var r *head.Refusal
	if errors.As(err, &r) {
		return target{refusal: r}, nil
	}
	return target{}, err
}

// put adds the samples, histograms and exemplars of e to the batch. It is the
// same for both versions but for how an exemplar is decoded.
func (f *filler) put(e *entry, to target, v version) error {
	switch {
	case to.series != nil:
		f.floats(e, to.series)
	case to.dropped:
		f.dropped.samples += len(e.t)
	case len(e.t) > 0:
		f.refuse(len(e.t), to.refusal, head.ItemSample, e.t[0], head.FormatFloat(e.v[0]))
	}
	for _, x := range e.histograms {
		if err := f.putHistogram(e, x, to, v); err != nil {
			return err
		}
	}
	for _, x := range e.exemplars {
		if err := f.putExemplar(x, to, v); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) floats(e *entry, s *head.Series) {
	b := f.batch
	if len(e.st) == 0 {
		for i, t := range e.t {
			b.Float(s, t, 0, e.v[i])
		}
		return
	}
	for i, t := range e.t {
		st := e.st[i]
		if st == 0 {
			st = e.start
		}
		b.Float(s, t, st, e.v[i])
	}
}

func (f *filler) putHistogram(e *entry, x extent, to target, v version) error {
	r := &f.hist
	if err := r.decode(f.body(v)[:x.end], x.from, v == version2); err != nil {
		return err
	}
	if to.dropped {
		f.dropped.histograms++
		return nil
	}
	if to.refusal != nil {
		f.refuse(1, to.refusal, head.ItemHistogram, r.t, r.value())
		return nil
	}
	h, fh, err := r.build()
	if err != nil {
		if !f.refused.Count(head.ItemHistogram, reasonHistogram) {
			f.refuse(1, &head.Refusal{Reason: reasonHistogram, Detail: err.Error(), Series: to.series.Labels().String()},
				head.ItemHistogram, r.t, r.value())
		}
		return nil
	}
	st := r.st
	if st == 0 {
		st = e.start
	}
	f.batch.Histogram(to.series, r.t, st, h, fh)
	return nil
}

func (f *filler) putExemplar(x extent, to target, v version) error {
	r := &f.exemplar
	var err error
	if v == version1 {
		err = r.decode1(f.scan1.body[:x.end], x.from)
	} else {
		err = r.decode2(f.scan2.body[:x.end], x.from, &f.scan2)
	}
	switch {
	case err != nil:
		return err
	case to.dropped:
		f.dropped.exemplars++
		return nil
	case to.refusal != nil:
		f.refuse(1, to.refusal, head.ItemExemplar, r.t, head.FormatFloat(r.v))
		return nil
	}
	ls, bad := r.build(&f.strings)
	reason := head.ReasonExemplar
	if bad == "" && v == version2 && r.t == 0 {
		reason, bad = reasonTimestamp, "2.0 requires one"
	}
	if bad == "" {
		f.batch.Exemplar(to.series, r.t, r.v, ls)
	} else if !f.refused.Count(head.ItemExemplar, reason) {
		f.refuse(1, &head.Refusal{Reason: reason, Detail: bad, Series: to.series.Labels().String()},
			head.ItemExemplar, r.t, head.FormatFloat(r.v))
	}
	return nil
}

// body returns the body being decoded.
func (f *filler) body(v version) []byte {
	if v == version1 {
		return f.scan1.body
	}
	return f.scan2.body
}

// refuse counts n items as refused for r, the first of them at t with this value.
func (f *filler) refuse(n int, r *head.Refusal, it head.Item, t int64, value string) {
	c := *r
	c.Item, c.T, c.Value = it, t, value
	f.refused.Add(n, &c)
}

// metricTypes are the types of metadata by their number, the same in both versions.
var metricTypes = [...]model.MetricType{
	model.MetricTypeUnknown, model.MetricTypeCounter, model.MetricTypeGauge, model.MetricTypeHistogram,
	model.MetricTypeGaugeHistogram, model.MetricTypeSummary, model.MetricTypeInfo, model.MetricTypeStateset,
}

// metricType returns the type with this number; one that is not known is unknown.
func metricType(n uint64) model.MetricType {
	if n >= uint64(len(metricTypes)) {
		return model.MetricTypeUnknown
	}
	return metricTypes[n]
}

// refuseMetadata counts metadata of a family as refused.
func (f *filler) refuseMetadata(family, detail string) {
	if !f.refused.Count(head.ItemMetadata, head.ReasonMetadata) {
		f.refuse(1, &head.Refusal{Reason: head.ReasonMetadata, Detail: detail, Series: head.FormatFamily(family)}, head.ItemMetadata, 0, "")
	}
}

// borrow returns b as a string for as long as the body lives.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// entryNumber names an entry whose labels cannot.
func entryNumber(detail string, n int) string {
	return fmt.Sprintf("series entry %d of the request: %s", n, detail)
}
