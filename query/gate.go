package query

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// waitersPerSlot bounds the queue before the gate: so many reads may wait for
// each slot, each with a body in memory.
const waitersPerSlot = 8

// errBusy says that the queue before the gate is full.
var errBusy = errors.New("too many remote reads are waiting")

// gate lets a fixed number of reads run and a bounded number of others come near.
//
//  1. admit takes a place, or errBusy.
//  2. The body is read: only then does the server see a client disconnect.
//  3. wait takes a slot, or gives up with its client.
//  4. leave gives slot and place back; dismiss the place of a read that got no slot.
type gate struct {
	places  chan struct{} // one element an admitted read
	slots   chan struct{} // one element a running read
	running prometheus.Gauge
	waiting prometheus.Gauge
}

func newGate(slots int, running, waiting prometheus.Gauge) *gate {
	return &gate{
		places:  make(chan struct{}, slots*(1+waitersPerSlot)),
		slots:   make(chan struct{}, slots),
		running: running,
		waiting: waiting,
	}
}

func (g *gate) admit() error {
	select {
	case g.places <- struct{}{}:
		return nil
	default:
		return errBusy
	}
}

func (g *gate) dismiss() { <-g.places }

// wait takes a slot. The error is ctx's.
func (g *gate) wait(ctx context.Context) error {
	g.waiting.Inc()
	defer g.waiting.Dec()
	select {
	case g.slots <- struct{}{}:
		g.running.Inc()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) leave() {
	g.running.Dec()
	<-g.slots
	<-g.places
}
