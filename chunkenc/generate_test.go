package chunkenc_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The kernels in the tree are those that the generator writes.
func TestKernelsAreGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("says nothing about races")
	}
	if out, err := exec.Command("go", "run", "gen_unpack.go", "-check").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// What the hot loops rely on, as the compiler reports it: no bounds check in any
// generated kernel, and the small functions in them inlined.
func TestCompilerFacts(t *testing.T) {
	if testing.Short() {
		t.Skip("says nothing about races")
	}
	out, err := exec.Command("go", "build", "-gcflags=-m -d=ssa/check_bce/debug=1", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	report := string(out)
	for _, name := range []string{"xorWord", "shortBits", "repeatBits", "zigzag", "unzigzag", "ordered", "nearest", "magnitude", "floatExponent", "differ", "nonzero"} {
		if !strings.Contains(report, ": can inline "+name) {
			t.Errorf("%s is not inlined", name)
		}
	}
	if !strings.Contains(report, "Found Is") {
		t.Error("no bounds checks reported at all: the report is not what it was")
	}
	for line := range strings.Lines(report) {
		if strings.Contains(line, "_gen.go") && strings.Contains(line, "Found Is") {
			t.Errorf("bounds check in a kernel: %s", line)
		}
	}
}
