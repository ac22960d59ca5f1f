package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is what a process has used up to now.
type Usage struct {
	CPU        time.Duration // user and system, in ticks of 10 ms
	RSS        int64         // bytes resident now
	Anon       int64         // of them, those that are of no file
	Peak       int64         // the most that were resident
	WriteBytes int64         // passed to write calls, files and sockets
}

// tick is the unit of times in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// Read returns the usage of a running process.
func Read(pid int) (Usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	var u Usage
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return u, fmt.Errorf("process %d: %w", pid, err)
	}
	// The name, in parentheses, may hold anything: fields are counted behind it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("process %d: %s/stat has %d fields behind the name, want at least 13", pid, dir, len(fields))
	}
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, fmt.Errorf("process %d: %s/stat: %w", pid, dir, err)
		}
		u.CPU += time.Duration(n) * tick
	}
	status, err := keyed(filepath.Join(dir, "status"))
	if err != nil {
		return u, fmt.Errorf("process %d: %w", pid, err)
	}
	u.RSS, u.Anon, u.Peak = status["VmRSS"]<<10, status["RssAnon"]<<10, status["VmHWM"]<<10
	if io, err := keyed(filepath.Join(dir, "io")); err == nil { // only for processes of the same user
		u.WriteBytes = io["wchar"]
	}
	return u, nil
}

// keyed reads lines of "key: number".
func keyed(name string) (map[string]int64, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		if f := strings.Fields(value); len(f) > 0 {
			if n, err := strconv.ParseInt(f[0], 10, 64); err == nil {
				out[key] = n
			}
		}
	}
	return out, nil
}

// CPUTime is the user and system time that this process has taken so far, to the
// microsecond.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("BUG: a process cannot ask for its own usage: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Resident is the memory of this process that is resident, in bytes, 0 where the
// system does not say.
func Resident() int64 {
	u, err := Read(os.Getpid())
	if err != nil {
		return 0
	}
	return u.RSS
}
