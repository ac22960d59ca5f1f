// Package admin is the HTTP handler of what changes the data on demand:
// delete_series, clean_tombstones, snapshot and flush, below /api/v1/admin/tsdb.
//
// In: POST or PUT requests, with parameters in the URL or in a form. Out: calls
// of the store, and answers as Prometheus's API gives them: 204, or JSON with
// "success" and data, or with "error", a type and a text.
//
// Invariants:
//   - An answer of 204 or "success" says that it is done and durable.
//   - A parameter is judged before anything is done; one that is wrong is 400 and names it.
//   - Not enabled is 500 with the type "unavailable", as in Prometheus; a store
//     that is not ready, or refuses for now, is 503 with Retry-After.
//   - A client that goes away ends the work, but for a delete: what is not in a
//     block by then stays in the head and the log.
//
// It has no state, no lock and no goroutine: the store takes turns.
//
// Not here: what a delete or a snapshot is (package store); authentication, and
// the page that lists the endpoints (the command).
package admin
