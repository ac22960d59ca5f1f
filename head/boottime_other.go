//go:build !linux

package head

import "time"

// sinceBoot is a monotonic clock; whether it goes on while the machine is
// suspended is up to the operating system.
func sinceBoot() time.Duration { return time.Since(started) }
