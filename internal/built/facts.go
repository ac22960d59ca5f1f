package built

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Facts are what the compiler reports of one package.
type Facts struct {
	report string
	checks []check
}

// check is a bounds check that the compiler could not remove.
type check struct {
	file string // without its directory
	line int
	text string // of the report
}

// found is the compiler's line about a check: file, line, column.
var found = regexp.MustCompile(`(?m)^(?:.*[/\\])?([^/\\:\n]+\.go):(\d+):\d+: Found Is.*$`)

// Report compiles the package of the test that asks. A report without any bounds check is
// not the compiler's any more as it was, and fails the test.
func Report(t testing.TB) *Facts {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-gcflags=-m -d=ssa/check_bce/debug=1", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	f := &Facts{report: string(out)}
	for _, m := range found.FindAllStringSubmatch(f.report, -1) {
		line, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatalf("line of %q: %v", m[0], err)
		}
		f.checks = append(f.checks, check{m[1], line, m[0]})
	}
	if len(f.checks) == 0 {
		t.Fatal("no bounds checks reported at all: the report is not what it was")
	}
	return f
}

// WantInlined fails the test for every function that cannot be inlined, or is not there.
func (f *Facts) WantInlined(t testing.TB, functions ...string) {
	t.Helper()
	for _, name := range functions {
		// A call of it stands in the report too, after other words.
		if !regexp.MustCompile(`(?m): can inline ` + regexp.QuoteMeta(name) + `( |$)`).MatchString(f.report) {
			t.Errorf("%s is not inlined", name)
		}
	}
}

// WantNoChecks fails the test for every bounds check in files whose name ends so.
func (f *Facts) WantNoChecks(t testing.TB, suffix string) {
	t.Helper()
	for _, c := range f.checks {
		if strings.HasSuffix(c.file, suffix) {
			t.Errorf("bounds check: %s", c.text)
		}
	}
}

// WantNoChecksIn fails the test for every bounds check in one function of a file.
func (f *Facts) WantNoChecksIn(t testing.TB, file, function string) {
	t.Helper()
	first, last := linesOf(t, file, function)
	for _, c := range f.checks {
		if c.file == file && first <= c.line && c.line <= last {
			t.Errorf("bounds check in %s: %s", function, c.text)
		}
	}
}

// linesOf gives the first and the last line of a function.
func linesOf(t testing.TB, file, name string) (first, last int) {
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
