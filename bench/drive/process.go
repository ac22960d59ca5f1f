package drive

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// ReadUsage returns the usage of a running process.
func ReadUsage(pid int) (Usage, error) {
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

// DiskBytes is the sum of the sizes of the files below dir. Files that go
// meanwhile count nothing.
func DiskBytes(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) && path != dir {
				return nil
			}
			return err
		}
		if d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum, err
}
