package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/rwsink/rwsink/store"
)

// exportConfig is what the flags of export say.
type exportConfig struct {
	path, output  string
	from, to      instant
	selectors     []string
	blockDuration model.Duration
}

// exportFlags defines the flags of export.
func exportFlags(cmd *kingpin.CmdClause) *exportConfig {
	c := &exportConfig{from: math.MinInt64, to: math.MaxInt64}
	cmd.Flag("storage.path", "Data directory, which no process uses.").Default("data").StringVar(&c.path)
	cmd.Flag("from", "First time, as RFC 3339 or in Unix seconds; without it, as far back as there is something.").SetValue(&c.from)
	cmd.Flag("to", "Last time, included.").SetValue(&c.to)
	cmd.Flag("match", "Selector of series, as in PromQL. Repeatable; without it, every series.").StringsVar(&c.selectors)
	cmd.Flag("block-duration", "Time range of one block.").Default("2h").SetValue(notZero(&c.blockDuration))
	cmd.Arg("output", "Directory of the blocks; made when it is not there, and otherwise empty.").Required().StringVar(&c.output)
	nameErrors(cmd)
	return c
}

// export writes blocks of Prometheus and says what it wrote. A signal ends it;
// the blocks that are whole stay.
func export(w io.Writer, c *exportConfig, logger *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var matchers [][]*labels.Matcher
	for _, s := range c.selectors {
		ms, err := parser.NewParser(parser.Options{}).ParseMetricSelector(s)
		if err != nil {
			return fmt.Errorf("--match=%s: %w", s, err)
		}
		matchers = append(matchers, ms)
	}
	out, err := store.Export(ctx, store.ExportOptions{
		Path: c.path, Output: c.output, From: int64(c.from), To: int64(c.to), Matchers: matchers,
		BlockDuration: time.Duration(c.blockDuration), Logger: logger,
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%d blocks, %d chunks, %d samples in %s\n", out.Blocks, out.Chunks, out.Samples, c.output)
	return err
}

// instant is a time in Unix milliseconds.
type instant int64

func (i *instant) Set(s string) error {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(seconds) < math.MaxInt64/1000 {
		*i = instant(math.Round(seconds * 1000))
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("%q is neither a time such as 2006-01-02T15:04:05Z nor a number of seconds", s)
	}
	*i = instant(t.UnixMilli())
	return nil
}

func (i *instant) String() string {
	if *i == math.MinInt64 || *i == math.MaxInt64 {
		return ""
	}
	return time.UnixMilli(int64(*i)).UTC().Format(time.RFC3339Nano)
}
