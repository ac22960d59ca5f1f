//go:build !linux

package rounds

import "time"

var started = time.Now()

// CPUTime gives wall time in ns where a thread's CPU time is not to be had.
func CPUTime() int64 { return int64(time.Since(started)) }
