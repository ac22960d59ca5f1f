// Package chunkenc is the codec of rwsink: it turns a batch of samples of one
// kind into an immutable chunk and back.
//
// In: Samples, columns that the caller owns, strictly increasing in time. Out:
// Chunk, a byte slice with its bounds, count and encoding beside it. Everything
// is bit-exact: every NaN payload, both zeros, every int64 of time.
//
// A float chunk (EncDelta, EncRaw) is two columns, times and values, and a third
// for start timestamps that costs nothing when there are none. The time column
// stands inside the chunk, or is shared: a TimeColumn that many chunks name
// (EncTime). Histogram chunks wrap the chunks of Prometheus's tsdb/chunkenc
// with a start column beside them. docs/format/chunk.md has the bytes.
//
// The parts, each a page: ints.go is the one packer (predictors, blocks of 256
// residuals, which widths.go plans) over the generated kernels of unpack.go; runs.go is for
// columns that repeat; values.go turns floats into integers; xorbits.go bounds
// what any of this may cost; xor.go writes Prometheus's own chunks; layout.go
// checks a histogram chunk before Prometheus's iterator trusts it.
//
// Everything here is batch-shaped: no reader interface, no call per sample, no
// allocation once the caller's memory is large enough. Decoding any byte string
// gives an error with its position, never a panic, and never allocates more
// than the chunk's own count (at most MaxSamples) allows.
//
// Not here: what happens when two samples share a timestamp, or where a series'
// chunks are cut (package head), and the merge of late samples (package ooo).
// The package imports nothing of rwsink and holds no goroutine and no lock; a
// Chunk is immutable and may be shared.
package chunkenc
