package built_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rwsink/rwsink/internal/built"
)

const source = `package p

// short is inlined, long is not.
func short(a []int) int { return len(a) }

//go:noinline
func long(a []int, i int) int {
	return a[i] + short(a)
}

func none(a []int) (sum int) {
	for i := range a {
		sum += a[i]
	}
	return sum
}
`

// recorder keeps what would fail a test.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// TestFacts asks about a package of which everything is known.
func TestFacts(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"go.mod": "module p\n", "p.go": source} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	facts := built.Report(t)
	facts.WantInlined(t, "short", "none")
	facts.WantNoChecks(t, "_gen.go")
	facts.WantNoChecksIn(t, "p.go", "none")

	var r recorder
	facts.WantInlined(&r, "long", "sho", "missing")
	facts.WantNoChecks(&r, "p.go")
	facts.WantNoChecksIn(&r, "p.go", "long")
	got := strings.Join(r.errors, "\n")
	for _, want := range []string{"long is not inlined", "sho is not inlined", "missing is not inlined", "bounds check: ", "bounds check in long: "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if len(r.errors) != 5 {
		t.Errorf("%d faults, want 5:\n%s", len(r.errors), got)
	}
}
