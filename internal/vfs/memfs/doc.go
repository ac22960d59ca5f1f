// Package memfs is a file system in memory that behaves like a disk at its worst:
// the other side of the seam of package vfs, for crash and fault sweeps.
//
// In goes a seed; everything that chance decides follows from it and from the
// order of the calls. What can happen:
//
//   - Crash is a power cut. Of what no Sync covered, each write survives whole, in
//     part, as zeros, or not at all, in any order, and a file's length goes its own
//     way. Of the names changed since SyncDir of their directories, any survive;
//     a change that builds on a lost one (on the same name) is lost with it.
//   - CutAfter lets the power fail in the middle of the k-th operation from now: it
//     has happened in part or not, its caller gets ErrPowerCut, and so does every
//     later one until Crash or Kill (then it was the process that ended there).
//   - Kill ends the process and not the machine: all that was written is there, but
//     what was not synced is still open to a later Crash.
//   - Fail makes calls of one kind fail. A failed write has written a part, a failed
//     Sync has lost a part for good (a later Sync does not bring it back), and a
//     failed change of names may have happened.
//   - SetCapacity fills the disk: a write beyond writes what fits and fails with ENOSPC.
//
// Rename replaces in one step, and a name that was made and synced stays: that is
// all the file system promises, and what package vfs allows its users to rely on.
//
// Everything in a FS belongs to its mutex; calls may come from any goroutine. After
// Crash or Kill the files of before fail with ErrStale.
//
// Not here: permissions, links, times, memory maps, damage to what was synced
// (tests do that with ReadFile and WriteFile).
package memfs
