// Package bench measures remote-write receivers and prints what they cost.
//
// In: a load (bench/load), a URL to send it to (bench/drive) or the programs to
// start. Out: tables, or JSON, of samples a second, latency, answers, processor
// time a million samples, resident memory, bytes on disk; and what was read back.
//
//   - Load is one load against one URL (`rwsink bench`).
//   - Floor is the least that a receiver must do with the same bodies, in one thread,
//     step by step; Sink is an HTTP server that reads bodies and does nothing.
//     Their sum is the unit in which a receiver is told: it moves with the machine.
//   - OOO is the table of a database with fixed chunks, for ours.
//   - Peers are rwsink, Prometheus and VictoriaMetrics side by side.
//   - Goals are the promises of the project, each with its figure beside it.
//
// How a server is measured: started fresh, with a directory of its own, pinned to
// the first CPU (Go then runs one P), while this process sends from the last
// one, with bodies made beforehand and its collector off. Its user and system time
// come from /proc, so does its memory. What is compared runs interleaved, in
// rounds, over equal data; figures are medians with the range, or with the 90 %
// interval of the median, and ratios are of runs of the same round.
//
// Servers listen on free ports of 127.0.0.1, and are ended by their process id.
//
// It meets every server over HTTP alone: of the program it imports nothing. Not
// here: flags (cmd/rwsink), benchmarks of single packages (beside those).
package bench
