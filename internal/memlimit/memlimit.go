package memlimit

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// unlimited is the least number that stands for "no limit": the older hierarchy
// writes the largest multiple of its page size below 1<<63.
const unlimited = 1 << 62

// Container returns the memory limit in bytes of the container that root, the root
// of a file system, describes. ok is false when there is none, or none can be seen.
func Container(root fs.FS) (limit int64, ok bool) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	limit = unlimited
	for line := range strings.Lines(string(text)) {
		// hierarchy-ID:controller-list:cgroup-path
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[0] == "0" && f[1] == "":
			limit = min(limit, least(root, "sys/fs/cgroup", f[2], "memory.max"))
		case hasMemory(f[1]):
			limit = min(limit, least(root, "sys/fs/cgroup/memory", f[2], "memory.limit_in_bytes"))
		}
	}
	return limit, limit < unlimited
}

// hasMemory says whether a list of controllers names the memory controller.
func hasMemory(controllers string) bool {
	for c := range strings.SplitSeq(controllers, ",") {
		if c == "memory" {
			return true
		}
	}
	return false
}

// least returns the smallest number in the files of that name in group and every group above it.
func least(root fs.FS, mount, group, file string) int64 {
	limit := int64(unlimited)
	for g := path.Clean("/" + group); ; g = path.Dir(g) {
		if text, err := fs.ReadFile(root, path.Join(mount, g, file)); err == nil {
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil { // else "max"
				limit = min(limit, n)
			}
		}
		if g == "/" {
			return limit
		}
	}
}
