package chunkenc_test

import (
	"os/exec"
	"testing"
)

// The kernels in the tree are those that the generator writes.
func TestKernelsAreGenerated(t *testing.T) {
	if out, err := exec.Command("go", "run", "gen_unpack.go", "-check").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
