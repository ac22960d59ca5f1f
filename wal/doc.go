// Package wal is rwsink's log: the one place where an accepted batch becomes durable.
//
// In come groups of frames from one committer: Begin, Write for each batch, Commit.
// A frame is a class byte and a batch as package record encodes it; it gets a log
// sequence number (LSN), 1 for the first of a directory and one more for each.
// Out comes, after a restart, Replay: every frame whose Commit returned nil, in
// order of LSN, once. docs/format/wal.md has the bytes, segment.go the code for them.
//
// What holds at any moment, whatever fails and wherever a crash falls:
//
//   - Under SyncAlways a frame is durable before its Commit returns. Under the
//     other policies, once a sync has covered it; a segment always is before the next begins.
//   - The name and header of a segment are durable before its first frame.
//   - A header names the first LSN of its segment. Frames of an older segment from
//     there on do not count. So a group whose Commit failed never comes back, even
//     where the disk refused to cut it off, and a segment that was ended at a former
//     start may keep its torn tail. One exception is left: where the disk refuses the
//     write, the cut and the next segment in a row, whether the group is on it
//     nobody can know, until a Begin or a start goes through.
//   - Nothing is written into a segment after an error, nor into one of a former process.
//   - LSNs have no holes. One that is missing is damage; a gap frame in the
//     repaired segment keeps it from being reported twice.
//   - No length is trusted before it was checked against the file.
//
// Ownership: the mutex own belongs to whoever changes the active file (Replay,
// Begin, Commit, Close); syncing is held while that file is synced out of turn or
// closed; mu guards the list of segments and is never held during input or output.
// Write touches only what belongs to the committer.
//
// A disk error closes the segment and fails the group; Begin tries once a second
// to create the next one. Nothing here panics because of a disk, and nothing waits.
//
// Replay (replay.go) tells a torn tail, which is normal at the end of the log, from
// damage; repair.go keeps the damaged file and puts a readable one in its place.
//
// Not here: what the payload means (package record), which series records a
// segment needs (the caller writes them again when Begin names a new segment),
// which segment is still needed (RemoveBefore is the caller's), and the lock on
// the directory.
package wal
