package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rwsink/rwsink/bench"
)

// TestBenchReadsBack sends loads with the program's own generator, also twice,
// late, with churn and pipelined, and lets it read back and compare every bit.
func TestBenchReadsBack(t *testing.T) {
	for name, flags := range map[string]string{
		"1.0":             "--series=600 --samples=50",
		"2.0 late, twice": "--protocol=2 --series=600 --samples=50 --late=40 --twice --in-flight=4",
		"churn":           "--series=600 --samples=50 --churn=30 --entry=5",
		"far":             "--series=200 --samples=60 --interval=15m --late=50 --late-bound=12h --late-far=50",
		"histograms":      "--protocol=2 --series=100 --samples=60 --values=histogram --late=25",
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			args := append([]string{"bench", "--url=" + s.url + "/api/v1/write", "--verify", "--settle", "--rest=1ms", "--json",
				fmt.Sprintf("--pid=%d", s.pid()), "--path=" + s.dir}, strings.Fields(flags)...)
			cmd := exec.Command(program, args...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, stderr.String())
			}
			var r bench.Report
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Read {
				if v.Samples != r.Samples || v.Err() != nil {
					t.Errorf("%+v", v)
				}
			}
			if len(r.Read) != 2 || r.Settled == nil || r.Settled.DiskBytes == 0 || r.Settled.RSS == 0 {
				t.Errorf("%s", out)
			}
		})
	}
}

// TestBenchTables runs what starts servers itself, small: every table has all its
// rows, and nothing is left behind.
func TestBenchTables(t *testing.T) {
	for args, want := range map[string][]string{
		"floor --series=2000 --samples=5":                                                      {"| s2 + scan + xxh3 + table + 16 B append ", "| HTTP sink ", "| last step + HTTP sink "},
		"ooo --series=20 --samples=200 --rounds=1":                                             {"| rwsink, delta, 128 samples ", "| rwsink, raw, 2048 samples ", "| RedisTimeSeries, compressed ", "99 % late |"},
		"peers --series=500 --samples=5 --rounds=1 --only=rwsink":                              {"| rwsink ", "| killed and started again "},
		"goals --scale=0.002 --rounds=1 --only=late|day|twice|histograms|latency|scale|replay": {"| late: 99 % late by", "| day:", "| twice:", "| histograms:", "| latency:", "| scale:", "| replay:"},
	} {
		name, _, _ := strings.Cut(args, " ")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.Command(program, append([]string{"bench"}, append(strings.Fields(args), "--rest=10ms", "--dir="+dir, "--lock="+filepath.Join(dir, "lock"))...)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, stderr.String())
			}
			for _, w := range want {
				if !strings.Contains(string(out), w) {
					t.Errorf("no %q in\n%s", w, out)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
