package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cpus are where servers and this process run.
type cpus struct{ server, client int }

// split gives the first CPU that this process may use to servers and the last one
// to itself. With one CPU alone they share it.
func split() (cpus, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return cpus{}, fmt.Errorf("ask for the CPUs of this process: %w", err)
	}
	c := cpus{-1, -1}
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			if c.server < 0 {
				c.server = i
			}
			c.client = i
		}
	}
	return c, nil
}

// on runs f in a thread of its own that is pinned to a CPU; a process that f
// starts inherits that.
func on(cpu int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			done <- fmt.Errorf("pin to CPU %d: %w", cpu, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// quiet keeps all threads of this process on one CPU, with one P and without
// the collector, while f runs: a client that disturbs nothing.
func quiet(cpu int, f func() error) error {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("ask for the CPUs of this process: %w", err)
	}
	var one unix.CPUSet
	one.Set(cpu)
	if err := pinThreads(&one); err != nil {
		return err
	}
	procs := runtime.GOMAXPROCS(1)
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	defer func() {
		debug.SetGCPercent(percent)
		runtime.GOMAXPROCS(procs)
		_ = pinThreads(&all)
	}()
	return f()
}

// pinThreads moves every thread of this process; those that they start follow.
func pinThreads(set *unix.CPUSet) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, set); err != nil && err != unix.ESRCH {
			return fmt.Errorf("pin thread %d: %w", tid, err)
		}
	}
	return nil
}

// threadCPU is the processor time of the calling thread, in seconds.
func threadCPU() float64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic("BUG: the clock of a thread is not there: " + err.Error())
	}
	return float64(ts.Nano()) / 1e9
}

// machine names what this runs on.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	busy := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ := strings.Cut(string(text), " ")
		busy = ", load " + load
	}
	return fmt.Sprintf("%d CPUs (%s), %s%s", runtime.NumCPU(), model, runtime.Version(), busy)
}
