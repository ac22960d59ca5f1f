package head

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/tsdb"
)

// Head is the head.
type Head struct {
	options   Options
	log       *slog.Logger
	identity  *identity
	metadata  metadataTable
	exemplars *exemplarRing
	clock     *clock
	outage    outage

	// mu guards the containers' parts and what series say of them. The
	// committer holds it for writing while it applies a batch; readers hold it
	// while they copy what they need of one series.
	mu          sync.RWMutex
	containers  atomic.Pointer[containerList]
	collections atomic.Uint64 // counts what took series out of the identity table
	coldBytes   atomic.Int64  // of cold runs
	roomWait    time.Duration // how long a request may wait for these to become fewer
	holding     int           // how many series have samples in a container; the committer's
	deletes     []Delete      // known before Replay; after it, those of the log

	// intake guards the way into the queue.
	intake   sync.RWMutex
	state    error // nil when batches are taken
	queue    chan *Batch
	control  chan func(*committer) // what to do between two groups
	pressure chan struct{}         // see Pressure
	finished chan struct{}         // closed when the committer has ended
}

// UnavailableError means that nothing was stored and that the same request may succeed later.
type UnavailableError struct {
	RetryAfter time.Duration
	Err        error
}

func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Causes inside an UnavailableError; others come from the log.
var (
	ErrClosed       = errors.New("head: closed")
	ErrReplaying    = errors.New("head: the log is being replayed")
	ErrClockSuspect = errors.New("head: the clock is suspect")
)

// retryAfter is what a sender is told to wait: a new log segment is tried once a second.
const retryAfter = 2 * time.Second

// mostRoomWait is how long a request waits for memory: less than senders do for an answer.
const mostRoomWait = 10 * time.Second

func unavailable(err error) error { return &UnavailableError{RetryAfter: retryAfter, Err: err} }

// queueLen is how many batches may wait for the committer; more wait at the
// queue's door, bounded by the receiver's limit of requests in flight.
const queueLen = 64

// New returns an empty head that takes no writes until Replay has returned.
func New(o Options) (*Head, error) {
	o = o.WithDefaults()
	if o.BlockDuration < time.Millisecond || o.ChunkSamples < 1 {
		return nil, fmt.Errorf("head: block duration %v and %d samples a chunk: want at least 1ms and 1", o.BlockDuration, o.ChunkSamples)
	}
	identity := newIdentity(o)
	ring, err := newExemplarRing(o.Exemplars, identity.seed, tsdb.NewExemplarMetrics(o.Metrics.Registerer))
	if err != nil {
		return nil, err
	}
	h := &Head{
		options: o, log: o.Logger, identity: identity, exemplars: ring, clock: newClock(o.Accept, o.Metrics.ClockSuspect),
		state: ErrReplaying, queue: make(chan *Batch, queueLen), control: make(chan func(*committer)), pressure: make(chan struct{}, 1), finished: make(chan struct{}),
		roomWait: mostRoomWait,
	}
	h.metadata.byFamily = map[string]Metadata{}
	h.containers.Store(&containerList{})
	return h, nil
}

// Seed is the secret under which wire forms are hashed in this process; see Key.
func (h *Head) Seed() uint64 { return h.identity.seed }

// Lookup returns the series last resolved under key, or nil. dropped says that
// relabelling drops what is written under key: it counts as written.
func (h *Head) Lookup(key Key) (s *Series, dropped bool) {
	var out [1]*Series
	h.LookupAll([]Key{key}, out[:])
	if out[0].Dropped() {
		return nil, true
	}
	return out[0], false
}

// LookupAll is Lookup for many keys at once, which costs far less than one by
// one: it sets each of out, which has as many elements. What relabelling drops
// is a series that says so; it is only to be counted.
func (h *Head) LookupAll(keys []Key, out []*Series) { h.identity.lookup(keys, out) }

// Resolve finds or creates the series with these labels and remembers key as a
// wire form of it. The labels may come in any order; they are checked (empty
// or missing name, bad UTF-8, a name twice, no metric name, limits), empty
// values are dropped, the rest is sorted and relabelled. The error is a *Refusal
// without item, timestamp or value.
func (h *Head) Resolve(key Key, wire []Label) (s *Series, dropped bool, err error) {
	s, err = h.identity.resolve(key, wire)
	return s, err == nil && s == nil, err
}

// Relabels says that series may have other labels than their wire forms.
func (h *Head) Relabels() bool { return len(h.identity.relabel) > 0 }

// Ready returns nil when writes are taken, or why not (one line for /-/ready).
func (h *Head) Ready() error {
	h.intake.RLock()
	defer h.intake.RUnlock()
	return h.state
}

// Notice returns what an operator should know although the head is ready, a line
// each: that the log stores nothing, that the clock is suspect, and why. Either
// heals by itself. Empty when there is nothing.
func (h *Head) Notice() string {
	lines := make([]string, 0, 2)
	if why := h.outage.why.Load(); why != nil {
		lines = append(lines, *why)
	}
	if why := h.clockNotice(); why != "" {
		lines = append(lines, why)
	}
	return strings.Join(lines, "\n")
}

// clockNotice says why the clock is suspect now, if it is.
func (h *Head) clockNotice() string {
	if h.Ready() == nil { // what the clock is judged by is known
		h.clock.bounds()
	}
	if why := h.clock.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Commit judges, logs, syncs and applies the batch and returns once all of it
// is durable (as far as --storage.wal-sync says) and visible. The error is an
// *UnavailableError; then nothing was stored. ctx only bounds the wait for room
// and for a place in the queue: once taken, a batch is carried through.
func (h *Head) Commit(ctx context.Context, b *Batch) (Result, error) {
	err := h.room(ctx, b)
	if err == nil {
		err = h.enqueue(ctx, b)
	}
	if err != nil {
		return Result{}, unavailable(err)
	}
	<-b.done
	if b.err != nil {
		return Result{}, unavailable(b.err)
	}
	return b.result, nil
}

func (h *Head) enqueue(ctx context.Context, b *Batch) error {
	h.intake.RLock()
	defer h.intake.RUnlock()
	if h.state != nil {
		return h.state
	}
	select {
	case h.queue <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close refuses further batches, waits for those under way, and ends the
// committer. The log stays open; its owner closes it.
func (h *Head) Close() {
	h.intake.Lock()
	running := h.state == nil
	if !errors.Is(h.state, ErrClosed) {
		h.state = ErrClosed
		close(h.queue)
	}
	h.intake.Unlock()
	if running {
		<-h.finished
	}
}

// start takes writes from now on.
func (h *Head) start(c *committer) {
	h.intake.Lock()
	defer h.intake.Unlock()
	if h.state == ErrReplaying { //nolint:errorlint // the state is one of ours
		h.state = nil
		go c.run()
	}
}
