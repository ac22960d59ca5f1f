// Package tidy holds the tests that keep the shape of the source tree.
//
// In: the files of the repository, parsed. Out: failing tests, nothing else; no
// other package imports this one.
//
//   - Floors: which package may import which, as one table (floors_test.go). A
//     package imports only what its row names; tests may in addition use what
//     stands on a lower floor and the helpers made for tests.
//   - Tails: how long a file, a function and a struct may grow (tails_test.go).
//     What needs more stands in a short list, each with its reason.
//   - Pages: a doc.go in every package, the lengths of the front pages, and that
//     code and pages speak of this project alone (pages_test.go).
//
// A new package gets its row here in the commit that creates it. A limit is not
// raised to let something through: the code is split, or the exception is
// written down where everybody sees it.
package tidy
