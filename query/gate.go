package query

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// waitersPerSlot bounds the queue before the gate: so many reads may wait for
// each slot. A read that waits holds a connection and no memory of its own.
const waitersPerSlot = 16

// errBusy says that the queue before the gate is full.
var errBusy = errors.New("too many remote reads are waiting")

// gate lets a fixed number of reads run and a bounded number of others wait.
type gate struct {
	slots   chan struct{} // one element a running read
	queue   chan struct{} // one element a waiting read
	running prometheus.Gauge
	waiting prometheus.Gauge
}

func newGate(slots int, running, waiting prometheus.Gauge) *gate {
	return &gate{
		slots:   make(chan struct{}, slots),
		queue:   make(chan struct{}, slots*waitersPerSlot),
		running: running,
		waiting: waiting,
	}
}

// enter takes a slot, waiting for one if need be. The error is errBusy or ctx's.
func (g *gate) enter(ctx context.Context) error {
	select {
	case g.slots <- struct{}{}:
		g.running.Inc()
		return nil
	default:
	}
	select {
	case g.queue <- struct{}{}:
	default:
		return errBusy
	}
	g.waiting.Inc()
	defer func() {
		<-g.queue
		g.waiting.Dec()
	}()
	select {
	case g.slots <- struct{}{}:
		g.running.Inc()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives the slot back.
func (g *gate) leave() {
	g.running.Dec()
	<-g.slots
}
