package acceptance

import (
	"encoding/json"
	"fmt"
	"os/exec"
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
