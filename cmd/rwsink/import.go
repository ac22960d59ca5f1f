package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/instant"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/transfer"
)

// importConfig is what the flags of import say.
type importConfig struct {
	path          string
	inputs        []string
	format        string
	from, to      instant.Time
	retention     model.Duration
	maxFuture     model.Duration
	blockDuration model.Duration
	labels        externalLabels
	progress      string
}

// importFlags defines the flags of import.
func importFlags(cmd *kingpin.CmdClause) *importConfig {
	c := &importConfig{from: math.MinInt64, to: math.MaxInt64}
	cmd.Flag("storage.path", "Data directory, which no process uses; created when it is not there.").Default("data").StringVar(&c.path)
	cmd.Flag("storage.retention.time", "As for serve, and the same: older samples are refused. 0 takes everything.").Default("15d").SetValue(&c.retention)
	cmd.Flag("storage.block-duration", "As for serve, and the same.").Default("2h").SetValue(&c.blockDuration)
	cmd.Flag("limits.max-future", "How far ahead of the clock a sample may be.").Default("10m").SetValue(&c.maxFuture)
	oneOf(cmd, &c.format, "format", "Form of the inputs; auto looks at each.",
		string(transfer.Auto), string(transfer.Blocks), string(transfer.OpenMetrics), string(transfer.JSON))
	cmd.Flag("from", "First time to take, as RFC 3339 or in Unix seconds.").SetValue(&c.from)
	cmd.Flag("to", "Last time to take, included.").SetValue(&c.to)
	cmd.Flag("label", "Label, as name=value, that every series gets that has none of that name: the external_labels of the Prometheus that the samples are from. Repeatable.").
		SetValue(&c.labels)
	progressFlag(cmd, &c.progress)
	cmd.Arg("input", "Block of Prometheus or directory of blocks; file of OpenMetrics text or of JSON lines, packed by gzip or not; - for standard input. Repeatable.").
		Required().StringsVar(&c.inputs)
	checked(cmd)
	return c
}

// errRefused says that an import was carried through, but for what it named.
var errRefused = errors.New("not all of it was taken")

// importInto fills samples into a directory, names what it refuses on standard
// error, and says what became of everything. A signal ends it; what is written stays.
func importInto(stdout, stderr io.Writer, c *importConfig, log promslog.Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for i, name := range c.inputs {
		c.inputs[i] = dash(name)
	}
	progress := newProgress(c.progress, stderr)
	aside := progress.Aside(stderr)
	log.Writer = aside
	out, err := transfer.Import(ctx, transfer.ImportOptions{
		Store: store.Options{Path: c.path, Logger: promslog.New(&log), Head: head.Options{
			BlockDuration: time.Duration(c.blockDuration),
			Accept:        head.Accept{Now: time.Now, Retention: time.Duration(c.retention), MaxFuture: time.Duration(c.maxFuture), Window: -1},
		}},
		Inputs: c.inputs, Stdin: os.Stdin, Format: transfer.Format(c.format), From: int64(c.from), To: int64(c.to),
		Labels: c.labels.labels(), Progress: progress, Say: func(s string) { fmt.Fprintln(aside, s) },
	})
	if err != nil {
		return fmt.Errorf("import: %w (%s so far)", err, out)
	}
	if _, err := fmt.Fprintln(stdout, out); err != nil {
		return err
	}
	if out.Refused() {
		return fmt.Errorf("import: %w", errRefused)
	}
	return nil
}
