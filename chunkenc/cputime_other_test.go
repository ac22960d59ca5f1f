//go:build !linux

package chunkenc_test

import "time"

var started = time.Now()

// cpuTime gives wall time in ns where a thread's CPU time is not to be had.
func cpuTime() int64 { return int64(time.Since(started)) }
