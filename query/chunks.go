package query

import (
	"fmt"

	"github.com/prometheus/prometheus/model/histogram"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/rwsink/rwsink/chunkenc"
)

// chunkSamples is the most samples of a chunk in a reply, as Prometheus cuts them.
const chunkSamples = 120

// chunker cuts the runs of one series into Prometheus's chunks and gives them to
// a framer: XOR, HISTOGRAM and FLOAT_HISTOGRAM only, at most chunkSamples each,
// never overlapping, with the times of their first and last sample.
//
// Histograms are cut where Prometheus's own appender cuts: at a counter reset,
// where zero bucket, schema or bounds change, after a stale marker. A chunk that
// begins anywhere else says of its first sample that a reset is unknown.
type chunker struct {
	to   *framer
	data []byte // scratch: the XOR chunk under way

	// Floats that do not fill a chunk yet.
	t [chunkSamples]int64
	v [chunkSamples]float64
	n int

	hist histChunk

	any  bool
	last int64 // time of the newest sample taken
}

// histChunk is the histogram chunk under way.
type histChunk struct {
	kind       chunkenc.Kind
	gauge      bool
	chk        promenc.Chunk
	app        promenc.Appender
	n          int // samples in chk; 0 if there is none
	minT, maxT int64
}

// begin starts a series.
func (c *chunker) begin(to *framer) {
	c.to, c.n, c.any = to, 0, false
	c.hist = histChunk{}
}

// add takes a run. Histograms in it may be changed.
func (c *chunker) add(s *chunkenc.Samples) error {
	if s.Len() == 0 {
		return nil
	}
	if c.any && s.T[0] <= c.last {
		return fmt.Errorf("series goes back in time: %d follows %d", s.T[0], c.last)
	}
	c.any, c.last = true, s.T[s.Len()-1]
	if s.Kind == chunkenc.KindFloat {
		if err := c.sealHist(); err != nil {
			return err
		}
		return c.addFloats(s.T, s.V)
	}
	if err := c.sealFloats(); err != nil {
		return err
	}
	for i, t := range s.T {
		var err error
		if s.Kind == chunkenc.KindHistogram {
			err = c.addHist(s.Kind, t, s.H[i], nil)
		} else {
			err = c.addHist(s.Kind, t, nil, s.FH[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end gives away what is left of the series.
func (c *chunker) end() error {
	if err := c.sealFloats(); err != nil {
		return err
	}
	return c.sealHist()
}

// addFloats fills the chunk under way, gives whole chunks away without copying
// their samples, and keeps the rest.
func (c *chunker) addFloats(t []int64, v []float64) error {
	if c.n > 0 {
		n := copy(c.t[c.n:], t)
		copy(c.v[c.n:], v[:n])
		c.n += n
		t, v = t[n:], v[n:]
		if c.n < chunkSamples {
			return nil
		}
		if err := c.sealFloats(); err != nil {
			return err
		}
	}
	for len(t) >= chunkSamples {
		if err := c.xor(t[:chunkSamples], v[:chunkSamples]); err != nil {
			return err
		}
		t, v = t[chunkSamples:], v[chunkSamples:]
	}
	c.n = copy(c.t[:], t)
	copy(c.v[:], v)
	return nil
}

func (c *chunker) sealFloats() error {
	if c.n == 0 {
		return nil
	}
	n := c.n
	c.n = 0
	return c.xor(c.t[:n], c.v[:n])
}

func (c *chunker) xor(t []int64, v []float64) error {
	c.data = chunkenc.AppendXOR(c.data[:0], t, v)
	return c.to.chunk(t[0], t[len(t)-1], byte(promenc.EncXOR), c.data)
}

// addHist takes one histogram: h or fh, as kind says.
func (c *chunker) addHist(kind chunkenc.Kind, t int64, h *histogram.Histogram, fh *histogram.FloatHistogram) error {
	var hint histogram.CounterResetHint
	if kind == chunkenc.KindHistogram {
		hint = h.CounterResetHint
	} else {
		hint = fh.CounterResetHint
	}
	gauge := hint == histogram.GaugeType
	// The appender cuts between gauges and counters too, but it calls the first
	// counter after a gauge "not a reset", which nobody knows.
	if c.hist.n == chunkSamples || c.hist.kind != kind || c.hist.gauge != gauge {
		if err := c.sealHist(); err != nil {
			return err
		}
	}
	if c.hist.n == 0 {
		if err := c.hist.open(kind, gauge, t); err != nil {
			return err
		}
	}
	var (
		next    promenc.Chunk
		recoded bool
		app     promenc.Appender
		err     error
	)
	if kind == chunkenc.KindHistogram {
		next, recoded, app, err = c.hist.app.AppendHistogram(nil, 0, t, h, false)
	} else {
		next, recoded, app, err = c.hist.app.AppendFloatHistogram(nil, 0, t, fh, false)
	}
	if err != nil {
		return fmt.Errorf("histogram at %d: %w", t, err)
	}
	if next != nil && !recoded {
		if err := c.sealHist(); err != nil {
			return err
		}
		c.hist.minT = t
	}
	if next != nil {
		c.hist.chk = next
	}
	c.hist.app, c.hist.maxT = app, t
	c.hist.n++
	return nil
}

// sealHist gives the histogram chunk away, if there is one.
func (c *chunker) sealHist() error {
	if c.hist.n == 0 {
		return nil
	}
	c.hist.n = 0
	return c.to.chunk(c.hist.minT, c.hist.maxT, byte(c.hist.chk.Encoding()), c.hist.chk.Bytes())
}

// open begins an empty chunk.
func (h *histChunk) open(kind chunkenc.Kind, gauge bool, t int64) (err error) {
	*h = histChunk{kind: kind, gauge: gauge, minT: t}
	if kind == chunkenc.KindHistogram {
		h.chk = promenc.NewHistogramChunk()
	} else {
		h.chk = promenc.NewFloatHistogramChunk()
	}
	h.app, err = h.chk.Appender()
	return err
}
