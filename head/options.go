package head

import (
	"log/slog"
	"time"

	"github.com/prometheus/prometheus/model/relabel"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/wal"
)

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
	LabelBytes int // bytes of all names and values of a series: 1.5 MiB
	ColdBytes  int // --storage.head-memory, what cold runs may hold: 256 MiB (room.go)
}

// Bounds of what a head keeps per thing a sender controls; each is a bound on
// memory, far above what real senders need.
const (
	defaultLabels     = 256
	defaultLabelBytes = 3 << 19
	defaultColdBytes  = 256 << 20
	// maxAliases is how many wire forms of one series are remembered: one a
	// protocol version and sender library; a sender that shuffles its labels
	// takes the slow path each time.
	maxAliases = 8
	// maxDroppedKeys is how many wire forms a shard of the identity table
	// remembers as dropped by relabelling before it forgets them all.
	maxDroppedKeys = 1 << 14
	// maxFamilies bounds the metadata table, maxMetadataBytes one entry of it, and
	// maxBatchMetadataBytes what one request brings: in 2.0 a help that stands in it
	// once can be that of many families.
	maxFamilies           = 100_000
	maxMetadataBytes      = 16 << 10
	maxBatchMetadataBytes = 32 << 20
)

// WithDefaults fills in what is zero.
func (o Options) WithDefaults() Options {
	setDefault(&o.BlockDuration, 2*time.Hour)
	setDefault(&o.ChunkSamples, 240)
	setDefault(&o.Encoding, chunkenc.EncDelta)
	setDefault(&o.Exemplars, 100_000)
	setDefault(&o.Limits.Labels, defaultLabels)
	setDefault(&o.Limits.LabelBytes, defaultLabelBytes)
	setDefault(&o.Limits.ColdBytes, defaultColdBytes)
	if o.Accept.Now == nil {
		o.Accept.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewHead(nil)
	}
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
