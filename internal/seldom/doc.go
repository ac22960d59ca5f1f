// Package seldom thins out what is logged of trouble that lasts: a disk that is
// full, or senders that are refused, would fill the log with one line for every
// request.
//
// In: every occasion to log a line, from any goroutine. Out: whether to, and how
// many before it were not logged, which the line should say.
//
// Invariants:
//   - The first line of trouble is logged at once, and then one in Every.
//   - Of those that are not, every one is counted with a later line, or with Open,
//     which says that the trouble is over.
//   - Time is that of the monotonic clock: one that is set back holds up nothing.
//
// A Gate takes no lock and starts no goroutine. Not here: what the lines say, and
// how often anything else is done.
package seldom
