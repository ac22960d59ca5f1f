package receiver

// item is what a scanner came upon.
type item uint8

const (
	itemEnd item = iota
	itemEntry
	itemMetadata
)

// scanner1 walks a prometheus.WriteRequest.
type scanner1 struct {
	body   []byte
	pos    int
	entry  *entry // where the next series entry is scanned to
	meta   metadata1
	totals totals
}

// metadata1 is a prometheus.MetricMetadata; its strings stand in the body.
type metadata1 struct {
	typ                uint64
	family, help, unit []byte
}

// reset begins with body.
func (s *scanner1) reset(body []byte) {
	s.body, s.pos, s.totals = body, 0, totals{}
}

func (s *scanner1) trim() {
	s.body, s.meta = nil, metadata1{}
	s.entry.trim()
}

// next moves to the next series entry, in s.entry, or metadata, in s.meta.
func (s *scanner1) next() (item, error) {
	b := s.body
	for s.pos < len(b) {
		at := s.pos
		num, wt, q := tag(b, at)
		from := q
		switch num {
		case 1, 3:
			from, q = bytesField(b, q, wt)
		case 4, 5:
			return itemEnd, &schemaError{msgRequest1, num, msgRequest2}
		default:
			q = skip(b, q, wt)
		}
		if q < 0 {
			return itemEnd, fault(q, msgRequest1, num, at)
		}
		s.pos = q
		switch num {
		case 1:
			if err := count(&s.totals.entries, "series entries", maxEntries); err != nil {
				return itemEnd, err
			}
			return itemEntry, s.series(b[:q], from)
		case 3:
			if err := count(&s.totals.metadata, "metadata entries", maxMetadata); err != nil {
				return itemEnd, err
			}
			return itemMetadata, s.metadata(b[:q], from)
		}
	}
	return itemEnd, nil
}

// tagLabel is the tag of a TimeSeries' labels.
const tagLabel = 1<<3 | wtBytes

// series scans an entry from p to the end of b. Labels that come first are only
// stepped over: what they hold is read when the series turns out to be unknown.
func (s *scanner1) series(b []byte, p int) error {
	s.entry = s.entry.begin(s.totals.entries)
	e := s.entry
	from := p
	for len(b)-p >= 3 && b[p] == tagLabel {
		next := p + 2 + int(b[p+1])
		if b[p+1] >= 0x80 { // a length of two bytes
			if b[p+2] >= 0x80 {
				break
			}
			next = p + 3 + (int(b[p+1])&0x7f | int(b[p+2])<<7)
		}
		if next > len(b) {
			break
		}
		p = next
	}
	labelsEnd := p
	e.ident, e.identAt = b[from:p:p], from
	for p < len(b) && b[p] == tagSample {
		t, v, next, ok := fastSample(s.body, p, len(b))
		if !ok {
			break
		}
		if s.totals.samples == maxSamples {
			return &tooManyError{"samples", maxSamples}
		}
		s.totals.samples++
		e.t, e.v = append(e.t, t), append(e.v, v)
		p = next
	}
	if p == len(b) {
		return nil
	}
	return s.seriesSlow(b, p, labelsEnd)
}

// seriesSlow scans what is left of an entry, of any form. identEnd is where the
// labels scanned so far end; it becomes negative when they are no longer one
// piece of the body.
func (s *scanner1) seriesSlow(b []byte, p, identEnd int) error {
	e := s.entry
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		from := q
		if num >= 1 && num <= 4 {
			from, q = bytesField(b, q, wt)
		} else {
			q = skip(b, q, wt)
		}
		if q < 0 {
			return fault(q, msgSeries1, num, at)
		}
		var err error
		switch num {
		case 1:
			identEnd = s.addLabel(b, at, q, identEnd)
		case 2:
			err = s.addSample(b[:q], from)
		case 3:
			e.exemplars = append(e.exemplars, extent{from, q})
			err = count(&s.totals.exemplars, "exemplars", maxExemplars)
		case 4:
			e.histograms = append(e.histograms, extent{from, q})
			err = count(&s.totals.histograms, "histograms", maxHistograms)
		}
		if err != nil {
			return err
		}
		p = q
	}
	return nil
}

func (s *scanner1) addSample(b []byte, p int) error {
	t, _, v, err := slowSample(b, p, false)
	if err != nil {
		return err
	}
	s.entry.t, s.entry.v = append(s.entry.t, t), append(s.entry.v, v)
	return count(&s.totals.samples, "samples", maxSamples)
}

// addLabel adds the label field that stands from at to end. As long as all of
// them stand together ident is a piece of the body; otherwise they are gathered,
// so that the key depends on the labels alone.
func (s *scanner1) addLabel(b []byte, at, end, identEnd int) int {
	e := s.entry
	switch {
	case len(e.ident) == 0:
		e.ident, e.identAt = b[at:end:end], at
		return end
	case at == identEnd:
		e.ident = b[at-len(e.ident) : end : end]
		return end
	case identEnd >= 0:
		e.gathered = append(e.gathered[:0], e.ident...)
	}
	e.gathered = append(e.gathered, b[at:end]...)
	e.ident = e.gathered
	return -1
}

// metadata scans a MetricMetadata from p to the end of b.
func (s *scanner1) metadata(b []byte, p int) error {
	m := &s.meta
	*m = metadata1{}
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		from := q
		switch num {
		case 1:
			m.typ, q = varintField(b, q, wt)
		case 2, 4, 5:
			from, q = bytesField(b, q, wt)
		default:
			q = skip(b, q, wt)
		}
		if q < 0 {
			return fault(q, msgMetadata1, num, at)
		}
		switch num {
		case 2:
			m.family = b[from:q]
		case 4:
			m.help = b[from:q]
		case 5:
			m.unit = b[from:q]
		}
		p = q
	}
	return nil
}
