// Package receiver is the HTTP handler of Prometheus remote write 1.0 and 2.0.
//
// In: POST requests whose body is a snappy block that holds a
// prometheus.WriteRequest or an io.prometheus.write.v2.Request. Out: batches
// for the head, and an answer that says exactly what was stored.
//
// A request goes through these steps, and the first that fails answers:
//
//  1. method (405), Content-Encoding and Content-Type (415), requests in flight
//     and the head's state (503);
//  2. the body is read once into pooled memory, under its limit;
//  3. snappy: the decoded length is checked before anything is allocated for it;
//  4. a scanner walks the wire form and yields one series at a time into
//     columns that it reuses: no objects for samples, labels or series;
//  5. identity: a series the head knows is recognised by a 128-bit hash of how
//     its labels stand on the wire; only an unknown one has its labels decoded;
//  6. histograms and exemplars, which the head keeps, are built and validated;
//  7. the batch is committed and the answer written.
//
// Invariants:
//   - What is valid is stored, whatever stands beside it. What is refused is
//     counted by reason and named in the body of a 400 (or of --write.refused-status).
//   - A message that is malformed on the wire is answered 400 and stores nothing;
//     it creates no series either, since everything is scanned before the first one is.
//   - 5xx is only answered for what may succeed later, with Retry-After, and then
//     nothing was stored. Everything that a client can cause is 4xx.
//   - Nothing that outlives a request points into its body.
//   - No byte count, index or length on the wire is trusted: limits stand in
//     limits.go and are checked before memory is taken.
//   - Scanning and recognising known series allocates nothing.
//
// A request owns its scratch memory from a pool until its batch is built; the
// batch belongs to the request's goroutine until Commit takes it. The handler
// itself has no lock and no goroutine.
//
// Not here: order of samples, time bounds, duplicates, limits on series and the
// checks of label sets (package head); authentication and TLS (the web server).
package receiver
