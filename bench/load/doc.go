// Package load makes the bodies that a benchmark sends: which series there are,
// what their samples are, in which order they arrive, and their bytes.
//
// In: a Spec. Out: a Set of bodies, compressed, in memory that the garbage
// collector does not see, a list for each client; and, for whoever reads back,
// the same series and samples again, one by one.
//
// Everything is a pure function of the Spec: the sample k of series i has the same
// time and the same bits in every order of arrival and in every protocol, so
// that servers, protocols and shares of late samples are compared over equal data.
//
// The steps of Prepare, for each client at once:
//
//  1. order.go gives every sample of the client's series its place;
//  2. encode1.go or encode2.go makes entries of that, one or several samples each,
//     as Prometheus's sender does: labels sorted, in 2.0 a table of symbols a request;
//  3. bodies.go cuts requests, compresses each and keeps the bytes.
//
// A series belongs to one client, so the order of arrival of a series is the order
// here. Targets have 200 series: 40 families of 5; a scrape of a target has one
// timestamp. The labels look like those of a cluster: 335 bytes a series on the
// wire of 1.0 at the default of 10.4 labels beside the name.
//
// Not here: HTTP, clocks, anything about servers.
package load
