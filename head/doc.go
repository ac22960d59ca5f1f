// Package head keeps the live series: identity, the committer, near partitions and replay.
package head
