package chunkenc

import (
	"encoding/binary"

	"github.com/prometheus/prometheus/model/histogram"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Prometheus's histogram chunks begin with count <2b> | flags <1b>; the two high
// bits of flags say what is known about a counter reset at the first sample.
const (
	promHeaderSize = 3
	promFlags      = 2
)

// histScratch is what sealing histograms keeps between calls.
type histScratch struct {
	h  histogram.Histogram      // a shallow copy: the appender rewrites what it is given
	fh histogram.FloatHistogram // likewise
}

// histRun is a Prometheus chunk that is being filled. The flags of its header are
// ours: gauge, or counter reset when the first sample says so, else unknown. A
// reset that the appender finds on its own is not written down, since a late
// sample may come to stand before it.
type histRun struct {
	first int // index of its first sample in the batch
	chunk promenc.Chunk
	app   promenc.Appender
}

// sealHistograms appends the chunks of a batch of histograms of either kind.
func (e *Encoder) sealHistograms(dst []Chunk, s *Samples) []Chunk {
	var run histRun
	for i := range s.T {
		if run.chunk != nil && i-run.first < MaxSamples {
			next, recoded, app, err := e.appendHistogram(run.app, s, i)
			if err != nil {
				panic("BUG: chunkenc: append to a histogram chunk: " + err.Error())
			}
			run.app = app
			if next == nil {
				continue
			}
			if recoded {
				run.chunk = next
				continue
			}
			dst = e.closeRun(dst, s, &run, i)
			run.first, run.chunk = i, next
			continue
		}
		if run.chunk != nil {
			dst = e.closeRun(dst, s, &run, i)
		}
		run = e.openRun(s, i)
	}
	return e.closeRun(dst, s, &run, s.Len())
}

// openRun begins a chunk with sample i.
func (e *Encoder) openRun(s *Samples, i int) histRun {
	var c promenc.Chunk
	if s.Kind == KindHistogram {
		c = promenc.NewHistogramChunk()
	} else {
		c = promenc.NewFloatHistogramChunk()
	}
	app, err := c.Appender()
	if err == nil {
		_, _, app, err = e.appendHistogram(app, s, i)
	}
	if err != nil {
		panic("BUG: chunkenc: begin a histogram chunk: " + err.Error())
	}
	return histRun{first: i, chunk: c, app: app}
}

// appendHistogram appends sample i. The appender may rewrite the spans and
// buckets of what it is given (as new slices), so it gets a shallow copy.
func (e *Encoder) appendHistogram(app promenc.Appender, s *Samples, i int) (promenc.Chunk, bool, promenc.Appender, error) {
	if s.Kind == KindHistogram {
		h := &e.hist.h
		*h = *s.H[i]
		h.PositiveSpans, h.NegativeSpans = withoutEmptySpans(h.PositiveSpans), withoutEmptySpans(h.NegativeSpans)
		return app.AppendHistogram(nil, 0, s.T[i], h, false)
	}
	h := &e.hist.fh
	*h = *s.FH[i]
	h.PositiveSpans, h.NegativeSpans = withoutEmptySpans(h.PositiveSpans), withoutEmptySpans(h.NegativeSpans)
	return app.AppendFloatHistogram(nil, 0, s.T[i], h, false)
}

// closeRun appends the run as a chunk: samples run.first up to end.
func (e *Encoder) closeRun(dst []Chunk, s *Samples, run *histRun, end int) []Chunk {
	part := s.Slice(run.first, end)
	enc := EncHistogram
	if s.Kind == KindFloatHistogram {
		enc = EncFloatHistogram
	}
	var flags byte
	if anyStart(part.ST) {
		flags = flagStart
	}
	e.buf = appendHeader(e.buf[:0], enc, flags, part.Len())
	if flags != 0 {
		e.buf = e.ints.append(e.buf, part.ST)
	}
	body := run.chunk.Bytes()
	e.buf = binary.AppendUvarint(e.buf, uint64(len(body)))
	at := len(e.buf) + promFlags
	e.buf = append(e.buf, body...)
	var known promenc.CounterResetHeader
	switch hintOf(&part, 0) {
	case histogram.GaugeType:
		known = promenc.GaugeType
	case histogram.CounterReset:
		known = promenc.CounterReset
	}
	e.buf[at] = e.buf[at]&^promenc.CounterResetHeaderMask | byte(known)
	return append(dst, chunkOf(&part, enc, e.buf))
}

// hintOf returns the counter reset hint of sample i.
func hintOf(s *Samples, i int) histogram.CounterResetHint {
	if s.Kind == KindHistogram {
		return s.H[i].CounterResetHint
	}
	return s.FH[i].CounterResetHint
}

// withoutEmptySpans returns spans of the same meaning without those of length 0,
// which could stand there in any number and cost every decoded sample memory.
func withoutEmptySpans(spans []histogram.Span) []histogram.Span {
	clean := true
	for _, s := range spans {
		clean = clean && s.Length > 0
	}
	if clean {
		return spans
	}
	out := make([]histogram.Span, 0, len(spans))
	var offset int32
	for _, s := range spans {
		offset += s.Offset
		if s.Length > 0 {
			out = append(out, histogram.Span{Offset: offset, Length: s.Length})
			offset = 0
		}
	}
	return out
}

// histDecoder is what opening histogram chunks keeps between calls.
type histDecoder struct {
	ints     promenc.HistogramChunk
	floats   promenc.FloatHistogramChunk
	intsIt   promenc.Iterator
	floatsIt promenc.Iterator
}

// histograms appends the samples of a histogram chunk. Offsets are into c.Data.
func (d *Decoder) histograms(s *Samples, c *Chunk, h *header) error {
	at, err := d.readStart(s, c.Data, h.size, h)
	if err != nil {
		return err
	}
	size, width := binary.Uvarint(c.Data[at:])
	if width <= 0 || size != uint64(len(c.Data)-at-width) {
		return corrupt(h.enc, at, "want a histogram chunk of exactly the bytes that follow")
	}
	at += width
	body := c.Data[at:]
	if size, err := checkLayout(body, h.n, h.enc == EncFloatHistogram); err != nil {
		return corrupt(h.enc, at+size, "%w", err)
	}
	var it promenc.Iterator
	if h.enc == EncHistogram {
		d.hist.ints.Reset(body)
		d.hist.intsIt = d.hist.ints.Iterator(d.hist.intsIt)
		it = d.hist.intsIt
	} else {
		d.hist.floats.Reset(body)
		d.hist.floatsIt = d.hist.floats.Iterator(d.hist.floatsIt)
		it = d.hist.floatsIt
	}
	return d.readHistograms(s, h, it, at, promenc.CounterResetHeader(body[promFlags]&promenc.CounterResetHeaderMask))
}

// readHistograms appends what it gives, with the hints that the header allows.
func (d *Decoder) readHistograms(s *Samples, h *header, it promenc.Iterator, at int, known promenc.CounterResetHeader) error {
	for i := range h.n {
		if it.Next() == promenc.ValNone {
			return corrupt(h.enc, at, "histogram %d of %d: %w", i, h.n, it.Err())
		}
		hint := histogram.UnknownCounterReset
		switch {
		case known == promenc.GaugeType:
			hint = histogram.GaugeType
		case known == promenc.CounterReset && i == 0:
			hint = histogram.CounterReset
		}
		if h.enc == EncHistogram {
			t, v := it.AtHistogram(nil)
			v.CounterResetHint = hint
			s.T, s.H = append(s.T, t), append(s.H, v)
		} else {
			t, v := it.AtFloatHistogram(nil)
			v.CounterResetHint = hint
			s.T, s.FH = append(s.T, t), append(s.FH, v)
		}
	}
	return nil
}
