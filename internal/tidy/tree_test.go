package tidy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/rwsink/rwsink"

// source is one Go file of the repository.
type source struct {
	path  string // from the root, with slashes
	pkg   string // its directory, from the root
	test  bool
	lines int
	fset  *token.FileSet
	ast   *ast.File
}

// root is the root of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// files returns the text of the repository's files that have one of the endings,
// by path from the root. Folders that hold what was built or downloaded, test
// data and hidden ones except .ci are left out.
func files(t *testing.T, endings ...string) map[string][]byte {
	t.Helper()
	dir, out := root(t), map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != "." && p != ".ci" && (strings.HasPrefix(name, ".") || name == "bin" || name == "data" || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		for _, e := range endings {
			if strings.HasSuffix(name, e) {
				out[p], err = os.ReadFile(filepath.Join(dir, p))
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sources parses every Go file of the repository, whatever its build tags.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	for p, text := range files(t, ".go") {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, source{
			path: p, pkg: path.Dir(p), test: strings.HasSuffix(p, "_test.go"),
			lines: strings.Count(string(text), "\n"), fset: fset, ast: f,
		})
	}
	if len(out) < 10 {
		t.Fatalf("only %d Go files found under %s", len(out), root(t))
	}
	return out
}
