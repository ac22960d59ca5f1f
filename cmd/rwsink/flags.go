package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/query"
	"github.com/rwsink/rwsink/wal"
)

// config is what the flags of serve say.
type config struct {
	web      web.FlagConfig
	adminAPI bool // --web.enable-admin-api
	storage  storageConfig
	limits   limitsConfig
	write    writeConfig
	read     readConfig

	window         window         // --ooo.window
	externalLabels externalLabels // --external-label
}

type storageConfig struct {
	path          string
	retention     model.Duration
	retentionSize size
	blockDuration model.Duration
	headMemory    size
	headMemorySet bool
	walSync       string
	walMaxSize    size
	encoding      string
	chunkSamples  count
	exemplars     uint
	trustClock    bool
}

type limitsConfig struct {
	maxFuture model.Duration
	body      size
	decoded   size
	inFlight  count
	series    uint
	labels    count
	maxMemory size
}

type writeConfig struct {
	relabelFile   string
	refusedStatus string
}

type readConfig struct {
	sampleLimit   count
	concurrency   count
	maxFrameBytes size
}

// serveFlags defines the flags of serve.
func serveFlags(cmd *kingpin.CmdClause) *config {
	c := &config{}
	c.web.WebSystemdSocket = new(bool)
	c.web.WebListenAddresses = cmd.Flag("web.listen-address", "Address to listen on. Repeatable.").
		Default(":9201").Strings()
	c.web.WebConfigFile = cmd.Flag("web.config.file", "File that enables TLS or authentication, in the format of Prometheus's exporters.").
		Default("").String()
	cmd.Flag("web.enable-admin-api", "Serve the endpoints below /api/v1/admin and /debug/pprof, for whoever reaches the address.").
		BoolVar(&c.adminAPI)
	c.storage.flags(cmd)
	c.limits.flags(cmd)
	c.write.flags(cmd)
	c.read.flags(cmd)
	cmd.Flag("ooo.window", "How late a sample may be: a duration, 0 for none, or 'retention' for as far as retention reaches.").
		Default("retention").SetValue(&c.window)
	cmd.Flag("external-label", "Label, as name=value, that every series of this rwsink carries towards remote-read clients. Repeatable.").
		SetValue(&c.externalLabels)
	checked(cmd)
	cmd.Validate(func(*kingpin.CmdClause) error { return c.relations() })
	return c
}

func (c *storageConfig) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.path", "Data directory; created when it is not there.").
		Default("data").StringVar(&c.path)
	c.retention = model.Duration(15 * 24 * time.Hour)
	cmd.Flag("storage.retention.time", "Age beyond which samples are refused and blocks removed; 0 accepts any age and keeps everything.").
		Default("15d").SetValue(&c.retention)
	cmd.Flag("storage.retention.size", "Bytes of blocks, log and samples of long ago together, beyond which the oldest blocks are removed; 0 is no limit.").
		Default("0").SetValue(&c.retentionSize)
	cmd.Flag("storage.block-duration", "Time range that one block spans when it is flushed.").
		Default("2h").SetValue(&c.blockDuration)
	cmd.Flag("storage.head-memory", "Bytes of samples of ranges long past that are held in memory; beyond it the largest ranges are flushed. Unless given, at most a quarter of --limits.max-memory.").
		Default("256MiB").IsSetByUser(&c.headMemorySet).SetValue(&c.headMemory)
	cmd.Flag("storage.wal-sync", "When a write is on disk before it is acknowledged: always; interval (synced every 100 ms); never (the operating system decides).").
		Default("always").EnumVar(&c.walSync, "always", "interval", "never")
	cmd.Flag("storage.wal-max-size", "Bytes of the log beyond which whatever needs its oldest part is flushed.").
		Default("2GiB").SetValue(&c.walMaxSize)
	cmd.Flag("storage.chunk-encoding", "Encoding of float chunks: delta, or raw (uncompressed, the yardstick).").
		Default("delta").EnumVar(&c.encoding, "delta", "raw")
	cmd.Flag("storage.chunk-samples", "Samples that a chunk in memory holds at most in steady scraping; a chunk of a block has up to four times as many.").
		Default("240").SetValue(&c.chunkSamples)
	cmd.Flag("storage.exemplars", "Exemplars kept; 0 keeps none.").
		Default("100000").UintVar(&c.exemplars)
	cmd.Flag("storage.trust-clock", "Take the clock as right although the newest stored sample is ahead of it.").
		BoolVar(&c.trustClock)
}

func (c *limitsConfig) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("limits.max-future", "How far ahead of this machine's clock a sample may be.").
		Default("10m").SetValue(&c.maxFuture)
	cmd.Flag("limits.body", "Bytes of a compressed write request.").
		Default("32MiB").SetValue(&c.body)
	cmd.Flag("limits.decoded", "Bytes of a write request once decompressed.").
		Default("32MiB").SetValue(&c.decoded)
	cmd.Flag("limits.in-flight", "Write requests worked on at a time; the next ones are answered 503.").
		Default("256").SetValue(&c.inFlight)
	cmd.Flag("limits.series", "Series held; beyond it no new one is created, the others go on. 0 is no limit.").
		Default("0").UintVar(&c.series)
	cmd.Flag("limits.labels", "Labels of a series.").
		Default("256").SetValue(&c.labels)
	cmd.Flag("limits.max-memory", "Memory that the process aims to stay below (sets GOMEMLIMIT); by default 0.8 of the container's limit, if there is one.").
		Default("0").SetValue(&c.maxMemory)
}

func (c *writeConfig) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("write.relabel-config", "File of relabel_configs, as in Prometheus, that new series pass through.").
		Default("").StringVar(&c.relabelFile)
	cmd.Flag("write.refused-status", "Status of a write some of which was refused for good: 400, or 204 for senders that retry a 400 for ever.").
		Default("400").EnumVar(&c.refusedStatus, "400", "204")
}

func (c *readConfig) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("read.sample-limit", "Samples a query returns at most where the answer is not streamed; 0 is no limit.").
		Default(strconv.Itoa(query.DefaultSampleLimit)).SetValue(&c.sampleLimit)
	cmd.Flag("read.concurrent-limit", "Remote reads served at a time; eight times as many wait, the next ones are answered 503. 0 is no limit.").
		Default(strconv.Itoa(query.DefaultConcurrency)).SetValue(&c.concurrency)
	cmd.Flag("read.max-frame-bytes", "Bytes of one frame of a streamed answer; clients refuse more than 50,000,000.").
		Default(strconv.Itoa(query.DefaultMaxFrameBytes)).SetValue(&c.maxFrameBytes)
}

// logFlags defines the flags of all commands, whose errors name them, too.
func logFlags(app *kingpin.Application, log *promslog.Config) {
	promslogflag.AddFlags(app, log)
	app.GetFlag(promslogflag.LevelFlagName).SetValue(named{Value: log.Level, flag: promslogflag.LevelFlagName})
	app.GetFlag(promslogflag.FormatFlagName).SetValue(named{Value: log.Format, flag: promslogflag.FormatFlagName})
}

// syncPolicy is --storage.wal-sync.
func (c *storageConfig) syncPolicy() wal.SyncPolicy {
	switch c.walSync {
	case "interval":
		return wal.SyncInterval
	case "never":
		return wal.SyncNever
	}
	return wal.SyncAlways
}

// floatEncoding is --storage.chunk-encoding.
func (c *storageConfig) floatEncoding() chunkenc.Encoding {
	if c.encoding == "raw" {
		return chunkenc.EncRaw
	}
	return chunkenc.EncDelta
}

// window is the value of --ooo.window; negative is "retention".
type window time.Duration

func (w *window) Set(s string) error {
	if s == "retention" {
		*w = -1
		return nil
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("want a duration or 'retention': %w", err)
	}
	*w = window(d)
	return nil
}

func (w *window) String() string {
	if *w < 0 {
		return "retention"
	}
	return model.Duration(*w).String()
}

// size is a number of bytes, with or without a unit of powers of two.
type size int64

func (n *size) Set(s string) error {
	if v, err := strconv.ParseUint(s, 10, 63); err == nil {
		*n = size(v)
		return nil
	}
	b, err := units.ParseBase2Bytes(s)
	if err != nil || b < 0 {
		return fmt.Errorf("%q is not a size such as 32MiB", s)
	}
	*n = size(b)
	return nil
}

func (n *size) String() string { return byteSize(float64(*n)) }

// count is a number of things.
type count uint

func (n *count) Set(s string) error {
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return fmt.Errorf("%q is not a number of things", s)
	}
	*n = count(v)
	return nil
}

func (n *count) String() string { return strconv.FormatUint(uint64(*n), 10) }

// orNone returns what the packages take for n where 0 says that there is no limit, or
// nothing is kept: they have a default for it.
func orNone(n uint) int {
	if n == 0 {
		return -1
	}
	return int(n)
}

// externalLabels are the values of --external-label, and of import's --label.
type externalLabels map[string]string

func (e *externalLabels) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	switch {
	case !ok:
		return fmt.Errorf("%q: want name=value", s)
	case !model.UTF8Validation.IsValidLabelName(name):
		return fmt.Errorf("%q is not a label name", name)
	case name == model.MetricNameLabel:
		return fmt.Errorf("%q: no series lacks a %s", s, name)
	case !model.LabelValue(value).IsValid() || value == "":
		return fmt.Errorf("label %s: %q is not a label value", name, value)
	}
	if _, ok := (*e)[name]; ok {
		return fmt.Errorf("label %s is given twice", name)
	}
	if *e == nil {
		*e = externalLabels{}
	}
	(*e)[name] = value
	return nil
}

func (e *externalLabels) String() string     { return e.labels().String() }
func (e *externalLabels) IsCumulative() bool { return true }
func (e *externalLabels) labels() labels.Labels {
	return labels.FromMap(*e)
}

// oneOf defines a flag that takes one of several values, the first unless it is given;
// its help names them.
func oneOf(cmd *kingpin.CmdClause, to *string, name, help string, values ...string) {
	cmd.Flag(name, help+" One of: ["+strings.Join(values, ", ")+"]").Default(values[0]).EnumVar(to, values...)
}
