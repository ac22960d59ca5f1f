// Package query serves Prometheus remote read over a store.
//
// In: POST /api/v1/read, a snappy block with a prompb.ReadRequest. Out: one of
//
//   - SAMPLES: one snappy block with a prompb.ReadResponse;
//   - STREAMED_XOR_CHUNKS: frames of one series each, see framer.
//
// A request runs on one view of the store. It goes through
//
//	gate -> decodeRequest -> External.Selector -> store.View.Select -> External.Apply
//	     -> store.Reader.Read -> timeseries or chunker and framer -> wire
//
// Invariants:
//
//   - Memory of a stream is bounded by its largest series and the list of series;
//     a SAMPLES reply is held in its compressed form alone, up to the sample limit.
//   - A reply is complete or visibly broken: an error before the first byte is a
//     status and a text, one after it aborts the connection.
//   - Series are sorted by their final labels, external ones included, no label
//     set twice; samples are strictly increasing in time; chunks do not overlap.
//   - Values keep every bit: both zeros, every NaN. So the encoders are ours and
//     write the wire straight from the store's columns, without message objects.
//
// Who owns what: a handler is shared and immutable but for its gate and its pool.
// A session belongs to the goroutine of one request and has all scratch memory.
// Runs that the store emits are borrowed until emit returns, which is why each
// is encoded, or copied for a merge, on the spot. A view holds what was
// acknowledged before it and may show later samples too: nothing is read twice.
//
// Not here: PromQL and the rest of the HTTP API; the merge of late samples and of
// containers (package store); flags; the server's own timeouts.
package query
