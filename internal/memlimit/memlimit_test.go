package memlimit_test

import (
	"testing"
	"testing/fstest"

	"github.com/rwsink/rwsink/internal/memlimit"
)

func TestContainer(t *testing.T) {
	const self = "proc/self/cgroup"
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  int64
		ok    bool
	}{
		{"no files", nil, 0, false},
		{"unified, limited", map[string]string{
			self: "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 512 << 20, true},
		{"unified, unlimited", map[string]string{
			self: "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 0, false},
		{"unified, the group above is tighter", map[string]string{
			self:                             "0::/pod/c\n",
			"sys/fs/cgroup/pod/memory.max":   "1000\n",
			"sys/fs/cgroup/pod/c/memory.max": "2000\n",
		}, 1000, true},
		{"older, path of the host, seen from inside", map[string]string{
			self: "5:cpu:/x\n4:cpuset,memory:/docker/0a1b\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "300\n",
		}, 300, true},
		{"older, unlimited", map[string]string{
			self: "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0, false},
		{"both mounted, the smaller", map[string]string{
			self: "4:memory:/g\n0::/g\n",
			"sys/fs/cgroup/memory/g/memory.limit_in_bytes": "700\n",
			"sys/fs/cgroup/g/memory.max":                   "900\n",
		}, 700, true},
		{"another controller whose name has memory in it", map[string]string{
			self: "4:memoryless:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1\n",
		}, 0, false},
		{"odd lines and paths", map[string]string{
			self: "x\n\n0::../..//a\n", "sys/fs/cgroup/a/memory.max": "5\n", "sys/fs/cgroup/memory.max": "junk\n",
		}, 5, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range tc.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got, ok := memlimit.Container(root)
			if ok != tc.ok || ok && got != tc.want {
				t.Fatalf("got %d, %v; want %d, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}
