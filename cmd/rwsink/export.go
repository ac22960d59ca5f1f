package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/instant"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/transfer"
)

// exportConfig is what the flags of export say.
type exportConfig struct {
	path, output  string
	format        string
	from, to      instant.Time
	selectors     []string
	blockDuration model.Duration
	progress      string
}

// exportFlags defines the flags of export.
func exportFlags(cmd *kingpin.CmdClause) *exportConfig {
	c := &exportConfig{from: math.MinInt64, to: math.MaxInt64}
	cmd.Flag("storage.path", "Data directory, which no process uses.").Default("data").StringVar(&c.path)
	cmd.Flag("format", "Form of the output: blocks of Prometheus in a directory, or json, lines in a file.").
		Default(string(transfer.Blocks)).EnumVar(&c.format, string(transfer.Blocks), string(transfer.JSON))
	cmd.Flag("from", "First time, as RFC 3339 or in Unix seconds; without it, as far back as there is something.").SetValue(&c.from)
	cmd.Flag("to", "Last time, included.").SetValue(&c.to)
	cmd.Flag("match", "Selector of series, as in PromQL. Repeatable; without it, every series.").StringsVar(&c.selectors)
	cmd.Flag("block-duration", "Time range of one block, and of one step of either format.").Default("2h").SetValue(&c.blockDuration)
	progressFlag(cmd, &c.progress)
	cmd.Arg("output", "Directory of the blocks, or file of the lines (- for standard output). Not there yet, empty, or of an earlier run of the same export, which goes on.").
		Required().StringVar(&c.output)
	checked(cmd)
	return c
}

// export writes what a directory holds and says how much that is. A signal ends
// it; the ranges that are whole stay, and a repetition goes on behind them.
func export(stdout, stderr io.Writer, c *exportConfig, log promslog.Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var matchers [][]*labels.Matcher
	for _, s := range c.selectors {
		ms, err := parser.NewParser(parser.Options{}).ParseMetricSelector(s)
		if err != nil {
			return fmt.Errorf("--match=%s: %w", s, err)
		}
		matchers = append(matchers, ms)
	}
	c.output = dash(c.output)
	progress := newProgress(c.progress, stderr)
	log.Writer = progress.Aside(stderr)
	out, err := transfer.Export(ctx, transfer.ExportOptions{
		Store:  store.Options{Path: c.path, Logger: promslog.New(&log), Head: head.Options{Accept: head.Accept{Now: time.Now}}},
		Output: c.output, Stdout: stdout, Format: transfer.Format(c.format),
		Range: time.Duration(c.blockDuration), From: int64(c.from), To: int64(c.to), Matchers: matchers, Progress: progress,
	})
	if err != nil {
		return err
	}
	what := "blocks"
	if c.format == string(transfer.JSON) {
		what = "ranges"
	}
	summary := fmt.Sprintf("%d samples in %d %s in %s", out.Samples, out.Ranges, what, c.output)
	if c.output == transfer.Stdout {
		summary = fmt.Sprintf("%d samples in %d %s", out.Samples, out.Ranges, what)
	}
	if out.Kept > 0 {
		summary += fmt.Sprintf(" (%d of them were finished before)", out.Kept)
	}
	if out.Samples == 0 {
		summary += ": " + c.nothing(out)
	}
	if c.output == transfer.Stdout {
		stdout = log.Writer
	}
	_, err = fmt.Fprintln(stdout, summary)
	return err
}

// nothing says why an export has no samples: the directory has none, or none of those asked for.
func (c *exportConfig) nothing(out transfer.Exported) string {
	if out.Held == [2]int64{} {
		return fmt.Sprintf("%s holds no samples", c.path)
	}
	var b strings.Builder
	for _, s := range c.selectors {
		fmt.Fprintf(&b, " --match='%s'", s)
	}
	if c.from != math.MinInt64 {
		fmt.Fprintf(&b, " --from=%s", &c.from)
	}
	if c.to != math.MaxInt64 {
		fmt.Fprintf(&b, " --to=%s", &c.to)
	}
	from, to := instant.Time(out.Held[0]), instant.Time(out.Held[1])
	return fmt.Sprintf("nothing is selected by%s, %s holds samples of %s to %s", &b, c.path, &from, &to)
}
