package head

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is a monotonic clock that goes on while the machine is suspended,
// which Go's does not: a laptop that slept has not lost its clock.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(started)
	}
	return time.Duration(ts.Nano())
}
