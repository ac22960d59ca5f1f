// Command rwsink receives Prometheus remote write and serves remote read.
//
// In: flags and files named by them. Out: a process that serves HTTP until a
// signal, or one answer on standard output (bench, check, dump, export, probe, version).
//
// This package holds flags and wiring, nothing else: the flags of serve stand in
// flags.go, those of import, export and bench beside them, what their values may be
// in bounds.go, and each becomes a field of another package's Options; serve.go opens
// the store and starts one actor for each thing that runs; routes.go says which handler
// answers which path. What is decided is decided in the packages below.
//
// Start: listen, open the directory, then replay the log while /-/ready and
// every write say why they must wait. Stop, at SIGTERM or SIGINT: take no
// connection, let requests under way finish within shutdownTimeout, stop the
// replay, close the log. A second signal ends the process at once; nothing that
// was acknowledged is lost by that.
//
// Exit status: 0 after a signal or a finished command, 1 when something failed,
// and then the last line on standard error says what.
package main
