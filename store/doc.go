// Package store owns the data directory and gives views of what is in it.
//
// In comes a path. Open locks it, checks or writes its layout version, and opens
// the log and the head in it; Replay brings the head to where the log ends. Out
// come the head, for whoever writes, and views, for whoever reads: series sorted
// by labels, samples in order of time.
//
//	LOCK         held by the process; the operating system lets go of it
//	VERSION      the layout of the directory, a decimal number and a newline
//	ID           what tells the directory from others; made by the first export or snapshot
//	wal/         the segments of the log
//	blocks/      one directory a block, what is remembered of removed ones and of deletes
//	snapshots/   data directories of hard links
//	quarantine/  damaged blocks, set aside as they were found
//
// What holds at any moment:
//
//   - The directory, its parents and VERSION are durable before the log is
//     written to, so that no power cut takes away what was acknowledged.
//
//   - A directory of a newer layout is refused, only LOCK is made in it; so is one with
//     files but no VERSION, and nothing is made in it.
//
//   - A view holds every batch acknowledged before it was taken. It is immutable
//     but for later samples, which it may show.
//
//   - Damage to a chunk costs that chunk: what is sound in the block is written anew,
//     then the block is set aside (rescue.go). Any other damage to a block costs the block.
//
//   - What is deleted is seen no more, is durable in the log before that is said, and
//     stays deleted whatever is flushed, merged or brought back by a restart (deletes.go).
//
// Check verifies a directory that no process uses, and changes nothing in it.
// View.Export writes one of Prometheus's blocks, Fill adds samples from elsewhere in
// blocks that rank below all that was written; OpenOffline opens a directory for either.
//
// Ownership: a Store is opened, replayed and closed by one goroutine; Ready, Head
// and View serve any. A Reader serves one goroutine.
//
// Not here: what is accepted and how it is kept in memory (package head), the
// log's bytes (package wal), protocols.
package store
