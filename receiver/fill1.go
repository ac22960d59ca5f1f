package receiver

import "github.com/rwsink/rwsink/head"

// fill1 adds everything in a prometheus.WriteRequest to the batch. An error
// means that the batch must not be committed.
func (f *filler) fill1(body []byte) error {
	f.scan1.reset(body)
	return f.fill(f.next1, f.entry1)
}

// next1 scans to the n-th entry of a window, with its key, or adds metadata.
func (f *filler) next1(n int) (item, error) {
	s := &f.scan1
	s.entry = &f.entries[n]
	it, err := s.next()
	switch {
	case err != nil:
		return it, err
	case it == itemEntry:
		f.keys[n] = key1(s.entry.ident, f.seed)
	case it == itemMetadata:
		f.metadata1(&s.meta)
	}
	return it, nil
}

// entry1 adds an entry; s is what the head knows under its key.
func (f *filler) entry1(e *entry, key head.Key, s *head.Series) error {
	to := known(s)
	if s == nil {
		if err := f.check1(); err != nil {
			return err
		}
		if e.empty() {
			return nil
		}
		var err error
		if to, err = f.identify1(key, e); err != nil {
			return err
		}
	}
	return f.put(e, to, version1)
}

// identify1 decodes the labels of an entry and resolves them.
func (f *filler) identify1(key head.Key, e *entry) (target, error) {
	labels, over, err := appendLabels1(f.labels[:0], e.ident, e.identAt)
	f.labels = labels
	if err != nil {
		return target{}, err
	}
	if over {
		return target{refusal: &head.Refusal{Reason: head.ReasonLabelLimit,
			Detail: entryNumber(tooManyLabels, e.number)}}, nil
	}
	return f.resolve(key)
}

// metadata1 adds a metadata entry.
func (f *filler) metadata1(m *metadata1) {
	if len(m.family) == 0 {
		f.refuseMetadata("", "no metric family name")
		return
	}
	f.batch.Metadata(borrow(m.family), metricType(m.typ), borrow(m.unit), borrow(m.help))
}

// check1 makes sure, once a request and before its first series is created,
// that all of the body is well formed.
func (f *filler) check1() error {
	if f.checked {
		return nil
	}
	s := &f.ahead1
	s.reset(f.scan1.body)
	for {
		it, err := s.next()
		if err != nil {
			return err
		}
		if it == itemEnd {
			f.checked = true
			return nil
		}
		if it == itemMetadata {
			continue
		}
		if err = checkLabels1(s.entry.ident, s.entry.identAt); err != nil {
			return err
		}
		for _, x := range s.entry.histograms {
			if err := f.hist.decode(s.body[:x.end], x.from, false); err != nil {
				return err
			}
		}
		for _, x := range s.entry.exemplars {
			if err := f.exemplar.decode1(s.body[:x.end], x.from); err != nil {
				return err
			}
		}
	}
}
