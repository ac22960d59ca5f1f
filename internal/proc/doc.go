// Package proc tells what a process has used: processor time, memory, bytes written.
//
// In: the id of a process of this machine. Out: a Usage, as /proc has it; of this
// process itself CPUTime and Resident.
//
// Processor time does not grow when others use the machine, so what a benchmark says
// of cost is told in it. It is that of all threads, the collector's work included, and
// of user and system together. /proc counts in ticks of 10 ms: what costs less shows
// as none or as a whole tick. CPUTime is to the microsecond.
//
// Memory is what is resident, pages of files included; Anon is without them, Peak the
// most that was ever resident.
//
// Not here: the time of one thread (internal/rounds), limits of memory (internal/memlimit).
package proc
