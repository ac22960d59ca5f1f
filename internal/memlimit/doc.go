// Package memlimit finds the memory limit of the container that the process runs in.
//
// In: a view of the file system, as Linux shows it: /proc/self/cgroup and what
// is mounted at /sys/fs/cgroup. Out: the smallest limit, in bytes, of the
// process's control group and the groups above it, or none.
//
// Both hierarchies are read, the unified one (memory.max) and the older one of
// the memory controller (memory.limit_in_bytes); on a machine that mounts both,
// the smaller limit counts. A group that cannot be seen from inside the
// container is skipped: its own limit stands at the root of what it sees.
//
// Files that are not there, or that hold no number, are no error: without a
// limit that can be read there is none. Not here: what is done with the limit
// (cmd/rwsink sets the runtime's soft limit to a share of it). No goroutine, no
// lock, no state.
package memlimit
