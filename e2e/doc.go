// Package e2e tests rwsink with real programs on loopback: Prometheus writes to
// it, another Prometheus reads everything back, and rwsink is killed meanwhile.
//
// In: rwsink, built from this tree; Prometheus and promtool, built from their
// module as this module's go.mod pins it, once, into $RWSINK_CACHE (../.cache by default);
// Debian's prometheus-node-exporter, which must be installed. Out: failing
// tests, with the logs of the programs in the folder that the failure names.
//
// What runs: Prometheus A scrapes node_exporter, itself, rwsink and a target of
// odd values every second and writes to rwsink, with protocol 1.0 in one run and
// 2.0 in another. Prometheus B has no data of its own and reads from rwsink. The
// same expressions, at instants that A has had acknowledged, must give the same
// answers from A and from B, value for value, before rwsink is killed with
// SIGKILL in the middle of writing, and after.
//
// What rwsink exports is read by promtool and served by a Prometheus of its own,
// and what is imported from there is served by an rwsink of its own: the same
// expressions again.
//
// The compose test builds rwsink's image and one of Prometheus, starts the stack
// of ../compose in the Docker engine and kills rwsink's process there.
//
// Every program listens on a free port of 127.0.0.1 and is ended by its process
// id. `go test` runs the short form; RWSINK_E2E=long runs for minutes and kills
// rwsink ten times. This is a module of its own, so that nothing it needs is
// among the dependencies of the program.
package e2e
