package rounds

import (
	"syscall"
	"unsafe"
)

// CPUTime gives the CPU time of this thread in ns: other load on the machine is not
// counted. The caller has locked the thread.
func CPUTime() int64 {
	const thread = 3 // CLOCK_THREAD_CPUTIME_ID; getrusage may count in clock ticks
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, thread, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return ts.Nano()
}
