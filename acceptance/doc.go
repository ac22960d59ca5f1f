// Package acceptance tests rwsink from outside. It holds tests only.
//
// What comes in is the program itself: TestMain builds cmd/rwsink once for a run
// (with the race detector when the tests have it) and each test starts it as a
// process on 127.0.0.1 with a data directory of its own, speaks HTTP to it,
// ends it with SIGTERM or kills it with SIGKILL, and starts it again. What goes
// out is a verdict on the promises that a user can see:
//
//   - what was acknowledged is readable, once, in order of time and bit for bit,
//     in both read modes, and a restart of either kind changes no answer;
//   - what was refused is named, and cost nothing that stood beside it;
//   - what was answered with 503 is not there;
//   - no input makes the program panic, hang or drop the connection.
//
// The expectation is always a model: a map of series to a map of timestamps with
// the one rule for equal timestamps. It is written beside the requests and never
// read from the program. The readers here decode frames, checksums and chunks
// with Prometheus's own decoder and check every streamed answer against the
// rules of the protocol, whatever else the test is about.
//
// Files: server, body, post, read, stream and model are the harness; the rest are
// tests, one file a noun. A test that runs rounds takes a few of them, and many
// more when RWSINK_SOAK is set. RWSINK_BINARY names a program to test instead of
// the one built here. A test with random input prints its seed; RWSINK_SEED sets it.
//
// Not here: tests of a package (they stand beside it), real senders and readers
// (e2e), speed (bench).
package acceptance
