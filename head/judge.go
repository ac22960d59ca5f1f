package head

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/rwsink/rwsink/wal/record"
)

// judge decides what of a batch is accepted. It takes out what is not, names
// it in the result, and counts what stays as written. Only the committer
// calls it, in log order.
//
// With the default window the bounds of time alone decide. A narrower window
// depends on what the series holds: then the samples of a series are judged
// in order of time (stably, floats before histograms), so that the order
// inside a request loses nothing. While the clock is suspect a batch that
// would fail by time is refused for now, whole.
func (c *committer) judge(b *Batch, w bounds) error {
	if w.narrow() {
		c.judgeLate(b, w)
	} else {
		c.judgeFloats(b, w)
		c.judgeHistograms(b, w)
	}
	if w.suspect && b.result.Refused.anyOf(ReasonTooOld, ReasonTooLate, ReasonTooNew) {
		return ErrClockSuspect
	}
	c.judgeExemplars(b)
	c.judgeMetadata(b)
	b.result.Samples += len(b.times)
	b.result.Histograms += len(b.hists)
	b.result.Exemplars += len(b.exemplars)
	return nil
}

func (c *committer) judgeFloats(b *Batch, w bounds) {
	if !slices.ContainsFunc(b.times, w.outside) {
		return // nearly always
	}
	keep := c.keep[:0]
	for i, t := range b.times {
		ok := !w.outside(t)
		if !ok {
			c.refuseTime(b, ItemSample, b.series[i], t, w.floor, w.ceil, ReasonTooOld, func() string {
				return FormatFloat(b.values[i])
			})
		}
		keep = append(keep, ok)
	}
	c.keep = keep
	b.keepFloats(keep)
}

func (c *committer) judgeHistograms(b *Batch, w bounds) {
	b.hists = slices.DeleteFunc(b.hists, func(h histSample) bool {
		if !w.outside(h.t) {
			return false
		}
		c.refuseTime(b, ItemHistogram, h.series, h.t, w.floor, w.ceil, ReasonTooOld, h.text)
		return true
	})
}

// refuseTime notes a sample outside the bounds; value is asked only for the first of a reason.
func (c *committer) refuseTime(b *Batch, item Item, s *Series, t, floor, ceil int64, reason string, value func() string) {
	than, bound, flag := "older than ", floor, "--storage.retention.time"
	switch {
	case t > ceil:
		reason, than, bound, flag = ReasonTooNew, "newer than ", ceil, "--limits.max-future"
	case reason == ReasonTooLate:
		flag = "--ooo.window"
	case floor == c.head.clock.kept.Load():
		flag = "--storage.retention.size"
	}
	if b.result.Refused.Count(item, reason) {
		return
	}
	detail := than + time.UnixMilli(bound).UTC().Format(time.RFC3339Nano) + " (" + flag + ")"
	b.result.Refused.Add(1, &Refusal{
		Item: item, Reason: reason, Detail: detail, Series: seriesText(s.labels), T: t, Value: value(),
	})
}

// text writes a histogram for an answer.
func (h histSample) text() string {
	if h.fh != nil {
		return fmt.Sprintf("histogram{count:%g, sum:%g}", h.fh.Count, h.fh.Sum)
	}
	return fmt.Sprintf("histogram{count:%d, sum:%g}", h.h.Count, h.h.Sum)
}

// candidate is one sample of a batch in the order of judgement.
type candidate struct {
	series *Series
	t      int64
	hist   bool
	index  int
}

// judgeLate judges under a window narrower than retention.
func (c *committer) judgeLate(b *Batch, w bounds) {
	list := c.order[:0]
	for i, s := range b.series {
		list = append(list, candidate{s, b.times[i], false, i})
	}
	for i, h := range b.hists {
		list = append(list, candidate{h.series, h.t, true, i})
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.series.ref, b.series.ref), cmp.Compare(a.t, b.t))
	})
	keepFloat := append(c.keep[:0], make([]bool, len(b.times))...)
	keepHist := make([]bool, len(b.hists))
	var f findings
	for _, j := range list {
		if j.series != f.series {
			f = findings{series: j.series, newest: j.series.newest, seen: j.series.seen}
		}
		ok := c.judgeOne(b, &f, j, w)
		if j.hist {
			keepHist[j.index] = ok
		} else {
			keepFloat[j.index] = ok
		}
	}
	b.keepFloats(keepFloat)
	n := 0
	for i, ok := range keepHist {
		if ok {
			b.hists[n] = b.hists[i]
			n++
		}
	}
	b.hists = b.hists[:n]
	clear(list)
	c.order, c.keep = list, keepFloat
}

// findings is what the samples of one series in one batch have come to so far.
type findings struct {
	series *Series
	newest int64     // of the series, once what was kept is applied
	seen   bool      // newest says something
	stands bool      // last says something
	last   candidate // the last sample that was kept, or is held already
}

// judgeOne says whether to keep a sample, in the order of judgement.
func (c *committer) judgeOne(b *Batch, f *findings, j candidate, w bounds) bool {
	if f.stands && c.same(b, f.last, j) {
		b.countHeld(j)
		return false
	}
	late := f.seen && j.t <= f.newest
	floor, reason := w.floor, ReasonTooOld
	if late && j.t >= w.floor {
		floor, reason = w.late, ReasonTooLate
	}
	if j.t >= floor && j.t <= w.ceil {
		if !late {
			f.newest, f.seen = j.t, true
		}
		f.last, f.stands = j, true
		return true
	}
	if reason == ReasonTooLate && j.t <= w.ceil && c.holds(j.series, b.sampleOf(j)) {
		b.countHeld(j)
		f.last, f.stands = j, true
		return false
	}
	item, value := ItemSample, func() string { return FormatFloat(b.values[j.index]) }
	if j.hist {
		item, value = ItemHistogram, b.hists[j.index].text
	}
	c.refuseTime(b, item, j.series, j.t, floor, w.ceil, reason, value)
	return false
}

// same says whether two samples of a batch are the same sample sent twice.
func (c *committer) same(b *Batch, x, y candidate) bool {
	if x.series != y.series || x.t != y.t || x.hist != y.hist {
		return false
	}
	c.probe.Reset()
	b.sampleOf(x).addTo(&c.probe)
	b.sampleOf(y).addTo(&c.probe)
	_, stats := c.applier.merger.Merge(nil, &c.probe)
	return stats.Duplicates == 1
}

// sampleOf returns a judged sample.
func (b *Batch) sampleOf(j candidate) *sample {
	if j.hist {
		return &b.hists[j.index].sample
	}
	return &sample{t: j.t, st: b.start(j.index), v: b.values[j.index]}
}

// countHeld counts a sample that is there already as written.
func (b *Batch) countHeld(j candidate) {
	if j.hist {
		b.result.Histograms++
	} else {
		b.result.Samples++
	}
}

// judgeExemplars sorts the exemplars as the ring compares them (by time, value and
// the hash of their labels), keeps those that it will take, and counts those it holds.
func (c *committer) judgeExemplars(b *Batch) {
	if len(b.exemplars) == 0 {
		return
	}
	slices.SortStableFunc(b.exemplars, func(a, b batchExemplar) int {
		if c := cmp.Or(cmp.Compare(a.Ts, b.Ts), cmp.Compare(a.Value, b.Value)); c != 0 {
			return c
		}
		return cmp.Compare(a.Labels.Hash(), b.Labels.Hash())
	})
	b.exemplars = slices.DeleteFunc(b.exemplars, func(e batchExemplar) bool {
		err := c.head.exemplars.judge(e.series.labels, e.Exemplar)
		if err == nil {
			return false
		}
		if errors.Is(err, storage.ErrDuplicateExemplar) {
			b.result.Exemplars++
			return true
		}
		b.refuseExemplar(e, err)
		return true
	})
}

// refuseExemplar notes that the ring does not take e, and why.
func (b *Batch) refuseExemplar(e batchExemplar, err error) {
	b.result.Refused.Add(1, &Refusal{
		Item: ItemExemplar, Reason: exemplarReason(err), Detail: err.Error(),
		Series: seriesText(e.series.labels), T: e.Ts, Value: FormatFloat(e.Value),
	})
}

func exemplarReason(err error) string {
	switch {
	case errors.Is(err, storage.ErrOutOfOrderExemplar):
		return ReasonExemplarOrder
	case errors.Is(err, storage.ErrExemplarsDisabled):
		return ReasonExemplarsOff
	default:
		return ReasonExemplar
	}
}

// judgeMetadata keeps the last entry of each family and drops what is known by
// now and what the table has no room for.
func (c *committer) judgeMetadata(b *Batch) {
	if len(b.metadata) == 0 {
		return
	}
	last := make(map[string]int, len(b.metadata))
	for i := range b.metadata {
		last[b.metadata[i].Family] = i
	}
	table := &c.head.metadata
	i, pending := -1, 0
	b.metadata = slices.DeleteFunc(b.metadata, func(m record.Metadata) bool {
		if i++; last[m.Family] != i {
			return true
		}
		if table.knows(m.Family, m.Type, m.Unit, m.Help) {
			return true
		}
		if !table.room(m.Family, pending) {
			b.refuseMetadata(m.Family, ReasonMetadataLimit, fmt.Sprintf("the table holds %d families", maxFamilies))
			return true
		}
		pending++
		return false
	})
}
