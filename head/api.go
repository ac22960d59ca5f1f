package head

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/wal"
)

// Seed is the secret under which wire forms are hashed in this process; see Key.
func (h *Head) Seed() uint64 { panic("BUG: not built") }

// Key is the 128-bit hash, under the head's secret seed, of one wire form of a label set.
type Key struct{ Hi, Lo uint64 }

// Label is one label as it stands on the wire; the bytes are borrowed for the call.
type Label struct{ Name, Value []byte }

// Series is a series of the head: an opaque handle, valid until its batch is committed.
type Series struct{ labels labels.Labels }

// Labels returns the series' own labels.
func (s *Series) Labels() labels.Labels { return s.labels }

// Options configure a Head. Zero values take the defaults of their flags, given here.
type Options struct {
	Log           *wal.Log          // not yet replayed
	BlockDuration time.Duration     // --storage.block-duration, 2h: the range of one container
	ChunkSamples  int               // --storage.chunk-samples, 240
	Encoding      chunkenc.Encoding // --storage.chunk-encoding, chunkenc.EncDelta
	Exemplars     int               // --storage.exemplars, 100,000; negative keeps none
	Accept        Accept
	Limits        Limits
	Relabel       []*relabel.Config // --write.relabel-config
	Logger        *slog.Logger
	Metrics       *metrics.Head
}

// Accept bounds the time of what is accepted, both ends included.
type Accept struct {
	Retention  time.Duration    // --storage.retention.time, 15d in the flag; 0 keeps everything
	Window     time.Duration    // --ooo.window; negative is "retention", 0 takes no late samples
	MaxFuture  time.Duration    // --limits.max-future, 10m in the flag; 0 is none at all
	TrustClock bool             // --storage.trust-clock
	Now        func() time.Time // time.Now
}

// Limits bound what a sender may create.
type Limits struct {
	Series     int // --limits.series, 0 is no limit
	Labels     int // --limits.labels, labels a series: 256
	LabelBytes int // bytes of all names and values of a series: 1 MiB and a half
}

// Head is the head.
type Head struct{}

// Lookup returns the series last resolved under key, or nil. dropped says that
// relabelling drops what is written under key: it counts as written.
func (h *Head) Lookup(key Key) (s *Series, dropped bool) { panic("BUG: not built") }

// Resolve finds or creates the series with these labels and remembers key as a
// wire form of it. The labels may come in any order; they are checked (empty
// or missing name, bad UTF-8, a name twice, no metric name, limits), empty
// values are dropped, the rest is sorted and relabelled. The error is a *Refusal
// without sample, timestamp or value.
func (h *Head) Resolve(key Key, wire []Label) (s *Series, dropped bool, err error) {
	panic("BUG: not built")
}

// Item says what was refused.
type Item uint8

// The items, in the order in which a body of errors lists them.
const (
	ItemSample Item = iota
	ItemHistogram
	ItemExemplar
	ItemMetadata
)

// Refusal is why something valid in form was not stored.
type Refusal struct {
	Item   Item
	Reason string // one of the Reason constants: a metric label and the words of the answer
	Detail string // what exactly, as valid UTF-8: got and want
	Series string // the label set, escaped; empty when there is none
	T      int64  // Unix milliseconds
	Value  string // the value, formatted; empty when there is none
}

func (r *Refusal) Error() string { panic("BUG: not built") }

// Refusals count what was refused, by item and reason, and keep the first of each.
// The zero value is ready.
type Refusals struct{}

// Add counts n items under r's item and reason.
func (rs *Refusals) Add(n int, r *Refusal) { panic("BUG: not built") }

// Merge adds those of other.
func (rs *Refusals) Merge(other *Refusals) { panic("BUG: not built") }

// Len returns how many items were refused, of one item kind.
func (rs *Refusals) Len(Item) int { panic("BUG: not built") }

// Any says whether anything was refused.
func (rs *Refusals) Any() bool { panic("BUG: not built") }

// Error lists, for each item and reason, the count and the first offender; valid UTF-8, at most a few KB.
func (rs *Refusals) Error() string { panic("BUG: not built") }

// Batch collects what one request holds, in the request's order. Get one from Head.NewBatch.
type Batch struct{}

// NewBatch returns an empty batch from a pool.
func (h *Head) NewBatch() *Batch { panic("BUG: not built") }

// Release gives the batch back; it must not be used afterwards.
func (b *Batch) Release() { panic("BUG: not built") }

// Float adds a float sample; st is its start timestamp or 0.
func (b *Batch) Float(s *Series, t, st int64, v float64) { panic("BUG: not built") }

// Histogram adds a native histogram: exactly one of hist and fh is set, and the batch keeps it.
// The caller has validated it.
func (b *Batch) Histogram(s *Series, t, st int64, hist *histogram.Histogram, fh *histogram.FloatHistogram) {
	panic("BUG: not built")
}

// Exemplar adds an exemplar of a series.
func (b *Batch) Exemplar(s *Series, t int64, v float64, ls labels.Labels) { panic("BUG: not built") }

// Metadata adds what is known of a metric family; the latest wins.
func (b *Batch) Metadata(family string, typ model.MetricType, unit, help string) {
	panic("BUG: not built")
}

// Result says what became of a batch.
type Result struct {
	// Written count what is stored now, was stored already, or was dropped on purpose by relabelling.
	Samples, Histograms, Exemplars int
	// Refused lists what was not stored.
	Refused Refusals
}

// UnavailableError means that nothing was stored and that the same request may succeed later.
type UnavailableError struct {
	RetryAfter time.Duration
	Err        error
}

func (e *UnavailableError) Error() string { return e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// Causes inside an UnavailableError.
var (
	ErrClosed       = errors.New("head: closed")
	ErrReplaying    = errors.New("head: the log is being replayed")
	ErrClockSuspect = errors.New("head: the clock is suspect")
)

// Commit judges, logs, syncs and applies the batch and returns once all of it
// is durable (as far as --storage.wal-sync says) and visible. The error is an
// *UnavailableError; then nothing was stored. ctx only bounds the wait for a
// place in the queue: once taken, a batch is carried through.
func (h *Head) Commit(ctx context.Context, b *Batch) (Result, error) { panic("BUG: not built") }

// Ready returns nil when writes are taken, or why not (one line for /-/ready).
func (h *Head) Ready() error { panic("BUG: not built") }
