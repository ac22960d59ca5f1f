// Package transfer moves samples between a data directory and files: import and
// export.
//
// Import, in: blocks of Prometheus, OpenMetrics text, JSON lines. Out: blocks of
// class fill in the directory (store.Fill), which rank below all that was
// acknowledged. Export, in: a directory. Out: blocks of Prometheus, or JSON lines.
//
// Both work on a directory that no process uses, hold its lock, and go range of
// time by range of time, so that memory is bounded whatever the size: by the
// series of one range, and for text by the labels of all its series. Samples of
// text, in any order, are sorted in a file without a name first (spill.go).
// Blocks of Prometheus are walked side by side in order of labels (blocks.go,
// walk.go). Where an import adds labels (labels.go) the series of a block stand in
// another order then, and are looked at and sorted first.
//
// Both may be killed at any moment, and repeated. An import leaves whole blocks
// behind and finds at its repetition that their samples are there; an export
// keeps a ledger beside its output (ledger.go) of the ranges that are finished
// and of what they were made of.
//
// A damaged block of the directory ends either with an error; what is sound in it is
// kept and the block set aside when the directory is closed (store.CloseOffline), so
// that the repetition goes on.
//
// What makes no sense is refused where it stands, named with file and line, and
// costs nothing beside it (gate.go); whoever calls learns the counts.
//
// Everything here serves one goroutine. Not here: how a range becomes a block,
// and what is held already (package store); flags, and what is a terminal
// (cmd/rwsink).
package transfer
