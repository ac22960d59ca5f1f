// Package rounds measures variants of a piece of work against each other, for benchmarks
// on a machine that others use too.
//
// In: functions that each do the same number of units of work, without a goroutine of
// their own. Out, for each: ns of CPU time a unit, the median of the rounds and the
// least pass, and the median of the rounds' ratios to the first.
//
// A measurement is many short rounds in each of which every variant runs in turn: what a
// neighbour does to caches and clock meets both sides of a round's ratio, and the few
// rounds in which it begins or ends are not the median one. Time is CPU time of the
// thread, to which the goroutine is locked meanwhile: other load is not counted, and
// neither is what the collector does beside it, so the work should not allocate.
//
// Not here: what the figures are held against (the tables of chunkenc and ooo). Tests
// import this, the program does not.
package rounds
