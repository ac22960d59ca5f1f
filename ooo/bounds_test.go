package ooo_test

import (
	"testing"

	"github.com/rwsink/rwsink/internal/built"
)

// What the merge of floats relies on, as the compiler reports it: no bounds check in
// the kernel that copies, copy8, and the comparison in it inlined.
func TestCompilerFacts(t *testing.T) {
	facts := built.Report(t)
	facts.WantInlined(t, "less")
	facts.WantNoChecksIn(t, "merge.go", "copy8")
}
