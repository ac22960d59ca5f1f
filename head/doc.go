// Package head is where series live and samples are written: everything that
// is not in blocks yet, in memory, with the log behind it.
//
// In come batches, one a request: the receiver looks up each series by a hash
// of its wire form (Lookup), creates unknown ones (Resolve), fills a Batch and
// commits it. Out go the Result of each batch, what was refused and why, and
// views, from which Readers give the samples of a series in order of time.
//
//	Lookup, Resolve    identity.go   wire form -> Series; labels checked, sorted, relabelled
//	                   table.go      where series are found, by wire form and by labels
//	                   postings      where they are found by matchers
//	Commit             committer.go  one goroutine takes the waiting batches as a group:
//	                   judge.go      what is too old, late or new is taken out
//	                   wal           a frame a batch, one sync a group
//	                   applier.go    each sample to its part, in the order of the log
//	Delete             delete.go     a frame like a batch; what came before it goes, nothing later
//	View, Reader       view.go       tail, chunks and late samples, merged
//	Replay             replay.go     the log through the same applier, unjudged
//
// A container holds an aligned range of time. Near, it has a part a series: a
// stream of what is not sealed yet in order of arrival, sealed chunks, and late
// samples that wait to be merged into those. Cold, when the range is long over,
// it has such a stream a series, and chunks of what was packed, both in order of
// arrival. Freeze closes containers for a flush, Drop lets go of them. Collect lets
// go of the series that nothing holds any more.
//
// What holds at any moment:
//
//   - A batch is visible only once it is durable, whole, and in the order of the
//     log; so a restart changes no answer, and a batch answered with an error has
//     stored nothing while the process lives.
//   - A label set is one series, however it is written; a hash alone never decides
//     that two label sets are the same.
//   - For one series and timestamp the last number counts, without one the last
//     stale marker, on whichever way the samples came to meet.
//   - Each segment of the log names the series that its frames use.
//   - Chunks and lists of containers are replaced, never changed.
//   - What a sender can make grow is bounded: series, labels, aliases, dropped
//     wire forms, metadata, late samples that wait.
//
// Ownership: the committer's goroutine owns judging, the log and all writing of
// parts; Replay stands in for it until it has returned. Head.mu is held for
// writing while a batch is applied, for reading while a reader copies what it
// needs of one series. identity.mu guards the creation of series; it is taken
// inside Head.mu if at all, never around it. Look-ups by wire form take no lock. A Batch
// belongs to its request except during Commit.
//
// Not here: the wire format (receiver), bytes on disk (wal, wal/record), the
// codec (chunkenc), matchers (postings), merging (ooo), the data directory, blocks and retention (store).
package head
