// Package record is the payload of a log frame: one batch as records, one kind after another.
//
// In goes a Batch of columns and small structs, out come bytes, and back: Append
// and Decode are inverse to each other for every value that the types can hold,
// each NaN payload, the ends of int64 and any reference included. Nothing is
// validated, sorted or normalised here.
//
// Each record has its kind and its length, and at most one of a kind stands in a
// payload, in order of kind. An unknown kind, an unknown flag and bytes that are
// left over are errors that name the offset. docs/format/wal.md has the bytes; one
// file here has one kind: series.go, floats.go, histogram.go, metadata.go,
// exemplar.go, delete.go.
//
// Append allocates nothing but dst's growth. Decode reuses the columns of the Batch;
// labels, histograms and strings are fresh and the caller's. No count is trusted
// before it was checked against the bytes that are there, so what Decode allocates
// is bounded by a small multiple of the payload.
//
// Floats are the hot kind: a control byte and the bytes of a sample that are not
// implied. A batch of many series with one sample each takes 2 to 9 bytes a sample.
//
// Package record starts no goroutines and keeps no state; a Batch serves one goroutine.
// Not here: frames, checksums and LSNs (package wal).
package record
