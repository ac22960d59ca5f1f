// Package block is one block on disk: the samples of one range of time, its
// index included, in one directory that is written once and never changed.
//
//	<ULID>/
//	  rwsink.json     what rwsink must know of it (Info): magic, version,
//	                  generation, log ranges, encodings, files and their sizes
//	  meta.json       Prometheus's block meta
//	  index           Prometheus's index, packed in pages
//	  chunks/000001   Prometheus's chunk segments; the entries are package
//	                  chunkenc's chunks and shared time columns
//	  tombstones      Prometheus's tombstones; the one file that is replaced
//
// In: series sorted by labels with their sealed chunks (Writer, in the memory of
// Buffers, which Writers have in turn). Out: series
// by matchers, and their samples (Block, Reader), or all in turn (Cursor).
// docs/format/block.md has the bytes.
//
// A Writer works in <ULID>.tmp. Commit syncs every file and directory, renames,
// and syncs the parent: a block is whole or it is not there, and a directory
// that ends in .tmp is garbage of a process that was killed.
//
// A Block is immutable, but for what is deleted of it, and reference-counted.
// Whoever reads holds a reference; when the store removes a block its files are
// unlinked at once and its mappings closed with the last reference. A file that
// does not hold what it should is a *vfs.CorruptError with path and place.
//
// indexWriter writes the index, the bytes of Prometheus's library, into the pages
// of a packer. The library reads it through a packedIndex, which unpacks a page
// when it is asked for. Pages hold what was unpacked for all blocks of a store
// together, in bounded memory. The index of a block of version 1 is not packed,
// and is read as it is.
//
// A StandardWriter writes a block of Prometheus's, for others, with the library.
//
// Check verifies a block to its last byte, offline, and Dump prints its files.
//
// Not here: which blocks there are, when they are written, merged and removed
// (package store), and how samples of one timestamp rank (package ooo).
package block
