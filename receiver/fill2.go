package receiver

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/rwsink/rwsink/head"
)

// fill2 adds everything in an io.prometheus.write.v2.Request to the batch. An
// error means that the batch must not be committed.
func (f *filler) fill2(body []byte) error {
	if err := f.scan2.reset(body, f.seed); err != nil {
		return err
	}
	return f.fill(f.next2, f.entry2)
}

// next2 scans to the n-th entry of a window, with its key if it has one.
func (f *filler) next2(n int) (item, error) {
	s := &f.scan2
	s.entry = &f.entries[n]
	it, err := s.next()
	if err != nil || it == itemEnd {
		return it, err
	}
	f.keys[n] = head.Key{}
	if s.entry.refsFault == "" {
		f.keys[n] = s.key()
	}
	return it, nil
}

// entry2 adds an entry; s is what the head knows under its key, if its references are labels.
func (f *filler) entry2(e *entry, key head.Key, s *head.Series) error {
	if e.refsFault != "" {
		r := &head.Refusal{Reason: reasonReferences, Detail: entryNumber(e.refsFault, e.number)}
		if e.meta != (entryMeta{}) {
			f.refuse(1, r, head.ItemMetadata, 0, "")
		}
		return f.put(e, target{refusal: r}, version2)
	}
	to := known(s)
	if s == nil && !e.empty() {
		if err := f.check2(); err != nil {
			return err
		}
		f.labels = f.scan2.appendLabels(f.labels[:0], e.refs)
		var err error
		if to, err = f.resolve(key); err != nil {
			return err
		}
	}
	if e.meta != (entryMeta{}) {
		if err := count(&f.metadata, "metadata entries", maxMetadata); err != nil {
			return err
		}
		f.metadata2(e, to)
	}
	if e.empty() {
		return nil
	}
	return f.put(e, to, version2)
}

// told is the metadata that a request has told last of the metric of one name.
type told struct {
	metric string // may stand in the body
	meta   entryMeta
}

// metadata2 adds the metadata of an entry, unless the request told it last of
// its metric: senders repeat it with every series. Reference 0 means none,
// whatever the table holds there.
func (f *filler) metadata2(e *entry, to target) {
	s, m := &f.scan2, e.meta
	ref, name := s.metricName(e.refs)
	if to.series != nil && f.head.Relabels() {
		name = to.series.Labels().Get(model.MetricNameLabel)
	}
	n := uint64(len(s.symbols))
	switch {
	case name == "":
		f.refuseMetadata("", "the entry has no metric name")
		return
	case m.help != 0 && m.help >= n:
		f.refuseMetadata(name, refRange("help_ref", m.help, len(s.symbols)))
		return
	case m.unit != 0 && m.unit >= n:
		f.refuseMetadata(name, refRange("unit_ref", m.unit, len(s.symbols)))
		return
	}
	if len(f.told) == 0 {
		f.told = slices.Grow(f.told, len(s.symbols))[:len(s.symbols)]
	}
	if now := (told{name, m}); f.told[ref] != now {
		f.told[ref] = now
		typ := metricType(m.typ)
		f.batch.Metadata(familyName(name, typ), typ, f.text(m.unit), f.text(m.help))
	}
}

// text returns a symbol for as long as the body lives.
func (f *filler) text(ref uint64) string {
	if ref == 0 {
		return ""
	}
	return borrow(f.scan2.symbol(uint32(ref)))
}

// metricName returns the metric name that stands in refs, as a symbol and as a
// string for as long as the body lives; "" where there is none.
func (s *scanner2) metricName(refs []uint32) (ref uint32, name string) {
	for i := 0; i+1 < len(refs); i += 2 {
		if string(s.symbol(refs[i])) == model.MetricNameLabel {
			return refs[i+1], borrow(s.symbol(refs[i+1]))
		}
	}
	return 0, ""
}

// familySuffixes are what the names of a family's series add to its name.
var familySuffixes = map[model.MetricType][]string{
	model.MetricTypeHistogram:      {"_bucket", "_count", "_sum"},
	model.MetricTypeGaugeHistogram: {"_bucket", "_gcount", "_gsum"},
	model.MetricTypeSummary:        {"_count", "_sum"},
}

// familyName returns the family of a series with this metric name: metadata of
// 1.0 is told by family, of 2.0 by series.
func familyName(metric string, typ model.MetricType) string {
	for _, suffix := range familySuffixes[typ] {
		if name, ok := strings.CutSuffix(metric, suffix); ok && name != "" {
			return name
		}
	}
	return metric
}

// check2 makes sure, once a request and before its first series is created,
// that all of the body is well formed.
func (f *filler) check2() error {
	if f.checked {
		return nil
	}
	s := &f.ahead2
	s.body, s.pos, s.totals = f.scan2.body, f.scan2.first, totals{}
	s.symbols = f.scan2.symbols
	for {
		it, err := s.next()
		if err != nil {
			return err
		}
		if it == itemEnd {
			f.checked = true
			return nil
		}
		for _, x := range s.entry.histograms {
			if err := f.hist.decode(s.body[:x.end], x.from, true); err != nil {
				return err
			}
		}
		for _, x := range s.entry.exemplars {
			if err := f.exemplar.decode2(s.body[:x.end], x.from, s); err != nil {
				return err
			}
		}
	}
}
