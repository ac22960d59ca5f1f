package ooo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What the merge of floats relies on, as the compiler reports it: no bounds check in
// the kernel that copies, copy8, and the comparison in it inlined.
func TestCompilerFacts(t *testing.T) {
	if testing.Short() {
		t.Skip("says nothing about races")
	}
	const file, kernel = "merge.go", "copy8"
	out, err := exec.Command("go", "build", "-gcflags=-m -d=ssa/check_bce/debug=1", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	report := string(out)
	if !strings.Contains(report, ": can inline less") {
		t.Error("less is not inlined")
	}
	first, last := linesOf(t, file, kernel)
	checks := regexp.MustCompile(`(?m)^[^:\n]*\b`+regexp.QuoteMeta(file)+`:(\d+):\d+: Found Is.*$`).FindAllStringSubmatch(report, -1)
	if len(checks) == 0 {
		t.Fatal("no bounds checks reported at all: the report is not what it was")
	}
	for _, c := range checks {
		if line, err := strconv.Atoi(c[1]); err != nil || first <= line && line <= last {
			t.Errorf("bounds check in %s: %s", kernel, c[0])
		}
	}
}

// linesOf gives the first and the last line of a function.
func linesOf(t *testing.T, file, name string) (first, last int) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name {
			return set.Position(fn.Pos()).Line, set.Position(fn.End()).Line
		}
	}
	t.Fatalf("no function %s in %s", name, file)
	return 0, 0
}
