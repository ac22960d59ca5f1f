// Package vfs is the file seam of what rwsink keeps on disk: the few operations
// that the log and the store make, so that crash and fault sweeps run in memory
// (package memfs) with the same code that runs on a disk (OS).
//
// The seam promises no more than a disk does, and its users must not rely on more:
//
//   - what was written to a file is durable once Sync returned nil, and only then;
//     before that any part of it may be on the disk, in any order;
//   - a name made, changed or removed is durable once SyncDir of its directory
//     returned nil; Sync of a file says nothing of its name;
//   - after a Sync that failed, what it should have synced may be lost even if the
//     next Sync succeeds, so a file is never trusted again after one;
//   - Rename replaces in one step: after a crash there is the old or the new, never neither.
//
// An OS is a value without state; a File belongs to its opener, who closes it.
// Write, Truncate and Close of one File are for one goroutine at a time, ReadAt
// and Sync may run beside them. Errors are those of package os: errors.Is with
// fs.ErrNotExist and fs.ErrExist works on both implementations.
//
// CorruptError stands here because every file format reports damage with it.
//
// Not here: memory maps, locks, buffering, and any knowledge of what the files hold.
package vfs
