package chunkenc_test

import (
	"os/exec"
	"testing"

	"github.com/rwsink/rwsink/internal/built"
)

// The kernels in the tree are those that the generator writes.
func TestKernelsAreGenerated(t *testing.T) {
	if out, err := exec.Command("go", "run", "gen_unpack.go", "-check").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// What the hot loops rely on, as the compiler reports it: no bounds check in any
// generated kernel, and the small functions in them inlined.
func TestCompilerFacts(t *testing.T) {
	facts := built.Report(t)
	facts.WantInlined(t, "xorWord", "shortBits", "repeatBits", "zigzag", "unzigzag", "ordered", "nearest", "magnitude", "floatExponent", "differ", "nonzero")
	facts.WantNoChecks(t, "_gen.go")
}
