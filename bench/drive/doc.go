// Package drive sends a prepared load to a remote-write URL and reads everything back.
//
// In: a load.Set and a URL. Out: a Result, what was answered and how fast; a Verdict,
// what a read gave that differs from the load.
//
// Run gives each client of the load a connection of its own and sends its bodies
// in order, with as many requests under way as Options.InFlight says: HTTP/1.1
// pipelining, so their order stays. Headers and bodies are written as they lie in
// memory, the client does nothing else between two requests but to read an answer;
// on one core of its own it is not what is measured. Every answer is read and checked: its
// status, and in 2.0 the number of samples that it says were written.
//
// At a fixed rate the latency of a request counts from the moment when it was due,
// not from when the one before it let it go (else a stall would hide its own length).
//
// A transport error ends a run; an answer never does, whatever its status. Nothing
// is sent a second time.
//
// A writer and a reader goroutine each client; the Result belongs to the reader
// until the run is over. Not here: servers, tables, what a figure should be.
package drive
