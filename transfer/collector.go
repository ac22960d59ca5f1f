package transfer

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
)

// collector puts the samples of text into a spill.
type collector struct {
	gate  *gate
	adder *adder
	spill *spill
	known map[string]uint32 // number of a series, by what stands in the text

	exemplars uint64 // not kept
}

// maxKnown bounds the texts that are known at a time.
const maxKnown = 1 << 18

// series returns the number of the series that stands in the text as key;
// parse gives its labels when it is not known.
func (c *collector) series(key []byte, parse func() ([]head.Label, error)) (uint32, error) {
	if n, ok := c.known[string(key)]; ok {
		return n, nil
	}
	wire, err := parse()
	if err != nil {
		return 0, err
	}
	ls, err := head.Canonical(wire, limits)
	if err != nil {
		return 0, err
	}
	if ls, err = c.adder.to(ls); err != nil {
		return 0, err
	}
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	n := c.spill.series.number(ls)
	c.known[string(key)] = n
	return n, nil
}

// labels returns those of a series.
func (c *collector) labels(series uint32) labels.Labels { return c.spill.series.list[series] }

// float takes a sample, unless its time is not let in.
func (c *collector) float(at place, series uint32, t, st int64, v float64) error {
	return c.take(at, series, t, math.Float64bits(v), extra{st: st})
}

func (c *collector) take(at place, series uint32, t int64, bits uint64, e extra) error {
	if !c.gate.takes(t) {
		c.gate.turnAway(at, t, c.labels(series).String)
		return nil
	}
	c.gate.read++
	return c.spill.add(series, t, bits, e)
}
