// Package instant is how a user writes a time: on a command line, and in a
// parameter of a request.
//
// In comes a text: RFC 3339 with up to nanoseconds, or a number of seconds since
// 1970, with or without a fraction. Out come Unix milliseconds, rounded, and of
// those RFC 3339 in UTC again.
//
// Invariants:
//   - What is written by String is read by Set as the same time, in the years 0 to 9999.
//   - A number that is not a time (NaN, an infinity, one whose milliseconds do
//     not fit) is refused, and leaves the time as it was.
//   - The least and the greatest of all times stand for no bound; they are
//     written as nothing.
//
// It has no state. Not here: durations, which are written as Prometheus's are,
// and what a time is for.
package instant
