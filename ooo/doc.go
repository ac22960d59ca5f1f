// Package ooo keeps the late samples of a series and merges them into its chunks.
//
// In: late samples one by one (Buffer), and the base: what the series already
// holds, decoded into runs of one kind each, ascending and disjoint. Out: runs
// again, without a timestamp twice, ready to be cut and sealed or to be read.
//
// A Buffer is in order of arrival: adding is an append, 16 bytes a float sample.
// Sorting waits for a merge. The owner of a Buffer takes out (Take) or copies
// (CopyRange) the samples of a range of time, and merges those; for many ranges
// of one buffer it has a Merger sort it first.
//
// A merge, in steps:
//
//  1. The late samples are sorted by time, stably, unless they already are.
//  2. For each timestamp t among them, the base before t is found by a galloping
//     search and copied as one stretch.
//  3. The samples at t are resolved in order of arrival, the base's first: the
//     last number wins, without one the last stale marker. A sample equal to
//     what stands there is a duplicate and changes nothing.
//  4. If the base's sample won, it stays in the base and goes out with the next
//     stretch; else the winner goes out alone and the base's is skipped.
//  5. The rest of the base is copied.
//
// Floats without start timestamps take these steps in a kernel of their own;
// everything else goes through the same steps in mixed.go.
//
// Equal are floats of the same bits, histograms that differ only in reset hint
// and empty buckets, and stale histograms; and then only with the same start
// timestamp. An ordinary NaN is a number.
//
// A reset hint stays with its sample, late or not: that a counter was reset is known to
// its sender alone where no bucket shows it, and was so whichever sample comes to stand
// before. That it was not is another matter: it may be untrue of the sample that stands
// before in the end. Chunks do not keep it, and whoever hands samples out leaves it away.
//
// Merging in several passes gives what one pass over the same arrivals gives,
// counts included. A histogram that was handed over is shared and never changed.
//
// Nothing here locks: a Buffer has one writer, and its owner keeps readers and
// writer apart; a Merger and what it returned serve one goroutine. Not here:
// when to merge, where to cut, what is too late to be taken (package head).
package ooo
