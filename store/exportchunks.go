package store

import (
	"fmt"

	"github.com/prometheus/prometheus/model/histogram"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/rwsink/rwsink/chunkenc"
)

// standardSamples is the most samples of a chunk: Prometheus's own cut.
const standardSamples = 120

// chunkCutter makes Prometheus's chunks of the samples of a series.
type chunkCutter struct {
	done  []chunks.Meta
	t     []int64 // floats that wait
	v     []float64
	hist  promenc.Chunk // of histograms, open; nil when there is none
	app   promenc.Appender
	kind  chunkenc.Kind
	gauge bool
	n     int // histograms in hist
	minT  int64
	maxT  int64
}

func (c *chunkCutter) reset() { *c = chunkCutter{t: c.t[:0], v: c.v[:0]} }

// add takes a run of samples.
func (c *chunkCutter) add(run *chunkenc.Samples) error {
	if run.Kind != chunkenc.KindFloat {
		for i := range run.T {
			if err := c.addHistogram(run, i); err != nil {
				return fmt.Errorf("histogram at %d: %w", run.T[i], err)
			}
		}
		return nil
	}
	c.sealHistogram()
	for i := range run.T {
		if len(c.t) == standardSamples {
			c.sealFloats()
		}
		c.t, c.v = append(c.t, run.T[i]), append(c.v, run.V[i])
	}
	return nil
}

// seal ends the chunk that is open.
func (c *chunkCutter) seal() {
	c.sealFloats()
	c.sealHistogram()
}

func (c *chunkCutter) sealFloats() {
	if len(c.t) == 0 {
		return
	}
	chunk, err := promenc.FromData(promenc.EncXOR, chunkenc.AppendXOR(nil, c.t, c.v))
	if err != nil {
		panic("BUG: XOR chunks are not known: " + err.Error())
	}
	c.done = append(c.done, chunks.Meta{Chunk: chunk, MinTime: c.t[0], MaxTime: c.t[len(c.t)-1]})
	c.t, c.v = c.t[:0], c.v[:0]
}

func (c *chunkCutter) sealHistogram() {
	if c.n > 0 {
		c.done = append(c.done, chunks.Meta{Chunk: c.hist, MinTime: c.minT, MaxTime: c.maxT})
	}
	c.hist, c.n = nil, 0
}

// addHistogram takes the i-th sample of a run. The appender cuts where a counter
// was reset or buckets went away; gauges and counters never share a chunk, since
// it would call the first counter behind a gauge no reset, which nobody knows.
func (c *chunkCutter) addHistogram(run *chunkenc.Samples, i int) (err error) {
	c.sealFloats()
	t, gauge := run.T[i], isGauge(run, i)
	if c.n == standardSamples || c.n > 0 && (c.kind != run.Kind || c.gauge != gauge) {
		c.sealHistogram()
	}
	if c.n == 0 {
		c.kind, c.gauge, c.minT = run.Kind, gauge, t
		if c.hist = promenc.Chunk(promenc.NewHistogramChunk()); c.kind == chunkenc.KindFloatHistogram {
			c.hist = promenc.NewFloatHistogramChunk()
		}
		if c.app, err = c.hist.Appender(); err != nil {
			return err
		}
	}
	var next promenc.Chunk
	var recoded bool
	if c.kind == chunkenc.KindHistogram {
		next, recoded, c.app, err = c.app.AppendHistogram(nil, 0, t, run.H[i], false)
	} else {
		next, recoded, c.app, err = c.app.AppendFloatHistogram(nil, 0, t, run.FH[i], false)
	}
	if err != nil {
		return err
	}
	if next != nil && !recoded {
		c.sealHistogram()
		c.minT = t
	}
	if next != nil {
		c.hist = next
	}
	c.maxT = t
	c.n++
	return nil
}

func isGauge(run *chunkenc.Samples, i int) bool {
	if run.Kind == chunkenc.KindHistogram {
		return run.H[i].CounterResetHint == histogram.GaugeType
	}
	return run.FH[i].CounterResetHint == histogram.GaugeType
}
