package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"golang.org/x/term"

	"github.com/rwsink/rwsink/transfer"
)

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

// dash is a file's name as kingpin gives it, which makes nothing of a single dash.
func dash(name string) string {
	if name == "" {
		return transfer.Stdin
	}
	return name
}

// When progress is shown.
const (
	progressAuto   = "auto"
	progressAlways = "always"
	progressNever  = "never"
)

func progressFlag(cmd *kingpin.CmdClause, to *string) {
	cmd.Flag("progress", "Show progress on standard error: auto does on a terminal.").Default(progressAuto).
		EnumVar(to, progressAuto, progressAlways, progressNever)
}

// newProgress returns what shows progress, or nil.
func newProgress(when string, stderr io.Writer) *transfer.Progress {
	f, ok := stderr.(*os.File)
	if when == progressAlways || when == progressAuto && ok && term.IsTerminal(int(f.Fd())) {
		return transfer.NewProgress(stderr)
	}
	return nil
}
