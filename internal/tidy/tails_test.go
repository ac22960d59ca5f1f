package tidy_test

import (
	"go/ast"
	"testing"
)

// The limits, in lines and fields.
const (
	maxFile     = 600
	maxTestFile = 1000
	maxFunc     = 70
	maxFields   = 20
)

// longer are the exceptions, "path" for a file and "path name" for a function or
// a struct, each with its reason.
var longer = map[string]string{}

func TestTails(t *testing.T) {
	used := map[string]bool{}
	check := func(key, what string, got, limit int) {
		if got <= limit {
			return
		}
		if _, ok := longer[key]; ok {
			used[key] = true
			return
		}
		t.Errorf("%s: %d %s, at most %d", key, got, what, limit)
	}
	for _, f := range sources(t) {
		limit := maxFile
		if f.test {
			limit = maxTestFile
		}
		check(f.path, "lines", f.lines, limit)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if !f.test {
					check(f.path+" "+n.Name.Name, "lines", f.fset.Position(n.End()).Line-f.fset.Position(n.Pos()).Line+1, maxFunc)
				}
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					check(f.path+" "+n.Name.Name, "fields", fields(s), maxFields)
				}
			}
			return true
		})
	}
	for key := range longer {
		if !used[key] {
			t.Errorf("%s is an exception that nothing needs", key)
		}
	}
}

func fields(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}
