package receiver

import "github.com/rwsink/rwsink/head"

// scanner2 walks an io.prometheus.write.v2.Request. It goes over the top level
// twice, since nothing says that the symbols come before what refers to them:
// first for the symbols, then for the series.
type scanner2 struct {
	body    []byte
	first   int // where the first series entry may be
	pos     int
	number  int // of the series entry met last
	symbols []extent
	hashes  []head.Key // of the symbols
	ring    ring
	entry   *entry // where the next series entry is scanned to
	totals  totals
}

// reset begins with body: it reads the symbols and hashes them under seed.
func (s *scanner2) reset(body []byte, seed uint64) error {
	s.ring.init(seed)
	s.body, s.first, s.pos, s.number, s.totals = body, len(body), len(body), 0, totals{}
	s.symbols, s.hashes = s.symbols[:0], s.hashes[:0]
	for p := 0; p < len(body); {
		at := p
		num, wt, q := tag(body, p)
		from := q
		switch num {
		case 4, 5:
			from, q = bytesField(body, q, wt)
		case 1, 2, 3:
			return &schemaError{msgRequest2, num, msgRequest1}
		default:
			q = skip(body, q, wt)
		}
		if q < 0 {
			return fault(q, msgRequest2, num, at)
		}
		switch num {
		case 4:
			if len(s.symbols) >= maxSymbols {
				return &tooManyError{"symbols", maxSymbols}
			}
			s.symbols = append(s.symbols, extent{from, q})
			s.hashes = append(s.hashes, s.ring.symbolHash(body[from:q]))
		case 5:
			if s.totals.entries == 0 {
				s.first, s.pos = at, at
			}
			if err := count(&s.totals.entries, "series entries", maxEntries); err != nil {
				return err
			}
		}
		p = q
	}
	return nil
}

func (s *scanner2) trim() {
	s.body = nil
	s.symbols, s.hashes = pooled(s.symbols), pooled(s.hashes)
	s.entry.trim()
}

// symbol returns the bytes of symbol ref, which must be in range.
func (s *scanner2) symbol(ref uint32) []byte {
	x := s.symbols[ref]
	return s.body[x.from:x.end:x.end]
}

// next moves to the next series entry, in s.entry.
func (s *scanner2) next() (item, error) {
	b := s.body
	for s.pos < len(b) {
		// The first walk has found every field of the top level well formed.
		num, wt, p := tag(b, s.pos)
		if num != 5 {
			s.pos = skip(b, p, wt)
			continue
		}
		from, end := span(b, p)
		s.pos = end
		return itemEntry, s.series(b[:end], from)
	}
	return itemEnd, nil
}

// Tags of a TimeSeries: of its packed references and of its metadata.
const (
	tagRefs     = 1<<3 | wtBytes
	tagMetadata = 5<<3 | wtBytes
)

// key returns the key of the entry; its references must be labels.
func (s *scanner2) key() head.Key { return s.ring.key2(s.entry.refs, s.hashes) }

// series scans an entry from p to the end of b.
func (s *scanner2) series(b []byte, p int) error {
	s.number++
	s.entry = s.entry.begin(s.number)
	e := s.entry
	if len(b)-p >= 2 && b[p] == tagRefs {
		from, end := span(b, p+1)
		if end < 0 {
			return fault(end, msgSeries2, 1, p)
		}
		if q := s.packedRefs(b[:end], from); q < 0 {
			return fault(q, msgSeries2, 1, p)
		}
		p = end
	}
	for p < len(b) && b[p] == tagSample {
		t, v, next, ok := fastSample(s.body, p, len(b))
		if !ok {
			break
		}
		if s.totals.samples == maxSamples {
			return &tooManyError{"samples", maxSamples}
		}
		s.totals.samples++
		e.t, e.st, e.v = append(e.t, t), append(e.st, 0), append(e.v, v)
		p = next
	}
	// Senders write metadata behind the samples, empty where they have none.
	if len(b)-p >= 2 && b[p] == tagMetadata && int(b[p+1]) == len(b)-p-2 && b[p+1] < 0x80 {
		if err := s.metadata(b, p+2); err != nil {
			return err
		}
		p = len(b)
	}
	if p == len(b) {
		s.finish()
		return nil
	}
	return s.seriesSlow(b, p)
}

// packedRefs adds the references from p to the end of b.
func (s *scanner2) packedRefs(b []byte, p int) int {
	refs, symbols := s.entry.refs, uint64(len(s.symbols))
	for p < len(b) {
		ref := uint64(b[p])
		if ref < 0x80 {
			p++
		} else if p+1 < len(b) && b[p+1] < 0x80 {
			ref = ref&0x7f | uint64(b[p+1])<<7
			p += 2
		} else if ref, p = uvarintSlow(b, p); p < 0 {
			if p == faultTruncated {
				p = faultPacked
			}
			return p
		}
		if ref >= symbols || len(refs) >= 2*maxEntryLabels {
			s.badRef(ref)
			continue
		}
		refs = append(refs, uint32(ref))
	}
	s.entry.refs = refs
	return p
}

// badRef notes why the references of the entry name no labels; the first reason stays.
func (s *scanner2) badRef(ref uint64) {
	switch {
	case s.entry.refsFault != "":
	case ref >= uint64(len(s.symbols)):
		s.entry.refsFault = refRange("labels_refs", ref, len(s.symbols))
	default:
		s.entry.refsFault = tooManyLabels
	}
}

// finish judges the references once all of them are there.
func (s *scanner2) finish() {
	if e := s.entry; e.refsFault == "" && len(e.refs)%2 != 0 {
		e.refsFault = oddRefs(len(e.refs))
	}
}

// seriesSlow scans what is left of an entry, of any form.
func (s *scanner2) seriesSlow(b []byte, p int) error {
	e := s.entry
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		from := q
		switch {
		case num == 1:
			q = s.moreRefs(b, q, wt)
		case num >= 2 && num <= 5:
			from, q = bytesField(b, q, wt)
		case num == 6 && wt == wtVarint:
			var u uint64
			u, q = uvarint(b, q)
			e.start = int64(u)
		default:
			q = skip(b, q, wt)
		}
		if q < 0 {
			return fault(q, msgSeries2, num, at)
		}
		var err error
		switch num {
		case 2:
			err = s.addSample(b[:q], from)
		case 3:
			e.histograms = append(e.histograms, extent{from, q})
			err = count(&s.totals.histograms, "histograms", maxHistograms)
		case 4:
			e.exemplars = append(e.exemplars, extent{from, q})
			err = count(&s.totals.exemplars, "exemplars", maxExemplars)
		case 5:
			err = s.metadata(b[:q], from)
		}
		if err != nil {
			return err
		}
		p = q
	}
	s.finish()
	return nil
}

// moreRefs adds references, packed or single.
func (s *scanner2) moreRefs(b []byte, p, wt int) int {
	if wt == wtBytes {
		from, end := span(b, p)
		if end < 0 {
			return end
		}
		return s.packedRefs(b[:end], from)
	}
	if wt != wtVarint {
		return faultWireType
	}
	_, end := uvarint(b, p)
	if end < 0 {
		return end
	}
	return s.packedRefs(b[:end], p)
}

func (s *scanner2) addSample(b []byte, p int) error {
	t, st, v, err := slowSample(b, p, true)
	if err != nil {
		return err
	}
	e := s.entry
	e.t, e.st, e.v = append(e.t, t), append(e.st, st), append(e.v, v)
	return count(&s.totals.samples, "samples", maxSamples)
}

// metadata scans a Metadata from p to the end of b; a second one of an entry
// overrides field by field, as protobuf has it.
func (s *scanner2) metadata(b []byte, p int) error {
	m := &s.entry.meta
	for p < len(b) {
		at := p
		num, wt, q := tag(b, p)
		switch num {
		case 1:
			m.typ, q = varintField(b, q, wt)
		case 3:
			m.help, q = varintField(b, q, wt)
		case 4:
			m.unit, q = varintField(b, q, wt)
		default:
			q = skip(b, q, wt)
		}
		if q < 0 {
			return fault(q, msgMetadata2, num, at)
		}
		p = q
	}
	return nil
}
