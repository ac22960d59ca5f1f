package main

import (
	"io"
	"os"

	"github.com/alecthomas/kingpin/v2"
	"golang.org/x/term"

	"github.com/rwsink/rwsink/transfer"
)

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
	oneOf(cmd, to, "progress", "Show progress on standard error: auto does on a terminal.", progressAuto, progressAlways, progressNever)
}

// newProgress returns what shows progress, or nil.
func newProgress(when string, stderr io.Writer) *transfer.Progress {
	f, ok := stderr.(*os.File)
	if when == progressAlways || when == progressAuto && ok && term.IsTerminal(int(f.Fd())) {
		return transfer.NewProgress(stderr)
	}
	return nil
}
