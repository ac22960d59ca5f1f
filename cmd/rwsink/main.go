package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/version"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "rwsink:", err)
		os.Exit(1)
	}
}

// run parses the command line and runs its command.
func run(args []string, stdout, stderr io.Writer) error {
	app := kingpin.New("rwsink", "A Prometheus remote-write receiver that takes samples in any order.")
	app.HelpFlag.Short('h')
	app.UsageWriter(stdout)
	app.Version(versionText())
	log := promslog.Config{Writer: stderr}
	logFlags(app, &log)

	serveCmd := app.Command("serve", "Receive and serve. The default; serve --help explains its flags.").Default()
	cfg := serveFlags(serveCmd)

	dumpCmd := app.Command("dump", "Print one of rwsink's files, field by field.")
	dumpFile := dumpCmd.Arg("file", "A segment of the log, a file of a block, or a chunk.").Required().String()

	checkCmd := app.Command("check", "Verify a data directory that no process uses: every checksum, order and reference. Status 1 when there is a fault.")
	checkDir := checkCmd.Arg("dir", "The data directory.").Required().String()

	exportCmd := app.Command("export", "Write what a data directory that no process uses holds as blocks of Prometheus or JSON lines.")
	exportCfg := exportFlags(exportCmd)

	importCmd := app.Command("import", "Fill samples from blocks of Prometheus, OpenMetrics text or JSON lines into a data directory that no process uses. Status 1 when some were refused.")
	importCfg := importFlags(importCmd)
	benchRuns := benchFlags(app)

	probeCmd := app.Command("probe", "Ask a running rwsink whether it is ready: the health check of an image that holds nothing else.")
	probeURL := probeCmd.Arg("url", "What to get; without a path, /-/ready.").Default("http://127.0.0.1:9201/-/ready").String()

	versionCmd := app.Command("version", "Print the version.")

	cmd, err := app.Parse(args)
	if err != nil {
		return fmt.Errorf("%w, try %s", err, helpOf(args))
	}
	if run, ok := benchRuns[cmd]; ok {
		return runBench(run, stdout, stderr)
	}
	switch cmd {
	case serveCmd.FullCommand():
		return serve(cfg, promslog.New(&log))
	case dumpCmd.FullCommand():
		return dump(stdout, *dumpFile)
	case checkCmd.FullCommand():
		return check(stdout, *checkDir)
	case exportCmd.FullCommand():
		return export(stdout, stderr, exportCfg, log)
	case importCmd.FullCommand():
		return importInto(stdout, stderr, importCfg, log)
	case probeCmd.FullCommand():
		return probe(stdout, *probeURL)
	case versionCmd.FullCommand():
		_, err := fmt.Fprintln(stdout, versionText())
		return err
	}
	panic("BUG: command " + cmd + " is not wired")
}

// helpOf is the help that names the flags in the arguments: those before any
// command are flags of serve, which plain --help does not list.
func helpOf(args []string) string {
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		return "serve --help"
	}
	return "--help"
}

// versionText is what rwsink version prints; make build sets the version, go run does not.
func versionText() string {
	v := version.Version
	if v == "" {
		v = "(devel)"
	}
	return fmt.Sprintf("rwsink %s, revision %s, %s, %s/%s", v, version.GetRevision(), version.GoVersion, version.GoOS, version.GoArch)
}
