// Package built tells tests how code was built: whether the race detector watches
// this very test, and what the compiler reports of a package.
//
// In: the working directory of the test, which is that of its package. Out: Race, a
// constant, and Facts, the compiler's report on inlining and bounds checks, to ask.
//
// Hot loops rest on what the compiler makes of them: a small function that is not
// inlined, or a bounds check that it cannot remove any more, costs a tenth and no
// test of behaviour sees it. So tests of these packages ask here.
//
// The report is always that of a plain build, without the race detector and without
// C, whatever the test itself was built with: it is the program's, but for the profile
// that bin/rwsink is optimised by. So the compiler's cache answers at once when the
// plain run and the one under the race detector ask alike.
//
// Not here: what allocates, which testing.AllocsPerRun tells.
package built
