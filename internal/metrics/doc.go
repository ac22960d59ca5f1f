// Package metrics is where the names of rwsink's metrics stand, one file for
// each package that counts.
//
// In: what those packages count, through the fields of a small struct of their
// own (metrics.Head is package head's, and so on). Out: metrics at a registry of
// client_golang, under names that begin with rwsink_ and follow Prometheus's
// naming: base units, _total for counters, one meaning a name.
//
// Metrics watch and never decide: no package reads one back to choose what to
// do. A nil registry registers nothing, and the fields work all the same, so
// that tests need none. Steady-state counting on the write path allocates
// nothing: counters with labels are resolved when the struct is made.
//
// Not here: the metrics of the runtime, the process and the version, which
// cmd/rwsink registers; and the page itself. The fields are safe for concurrent
// use, as client_golang's are; the package has no goroutine and no lock.
package metrics
