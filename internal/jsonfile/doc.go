// Package jsonfile is the form of the small files that rwsink keeps in JSON:
// what a block is, what was deleted, what was removed.
//
// In comes a struct that embeds Head first and Sum last, and a Kind that says
// what the file is. Out comes the file, and from the file the struct again, or
// why not: a *vfs.CorruptError, a *NewerError, or what the operating system says.
//
// Invariants:
//   - A file is replaced as a whole: there is the old one or the new one, durable,
//     whenever the power fails. What is being written has vfs.TmpSuffix behind its
//     name; the owner removes what a killed process left of that.
//   - A file of a newer rwsink is not damaged, and whoever meets one must leave it alone.
//     It is told from one whose version is damaged by its checksum: magic and version
//     stand first and the checksum last in every version.
//   - The checksum is the CRC-32 (Castagnoli) of the object as encoding/json writes
//     it without white space and with the checksum 0. So it does not depend on
//     indentation, nor on the fields there are.
//
// It has no state and no lock: who may write a file is its owner's affair.
//
// Not here: what the fields mean; files of other forms (VERSION, ID, meta.json,
// tombstones, the ledger of an export but for its first line: it is appended to, and
// of the form each line by itself has the checksum alone).
package jsonfile
