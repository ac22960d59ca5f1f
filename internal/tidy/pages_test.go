package tidy_test

import (
	"bytes"
	"path"
	"regexp"
	"strings"
	"testing"
)

// The lengths of pages, in lines.
const (
	minDoc, maxDoc  = 15, 60
	maxArchitecture = 120
	maxReadme       = 200
)

func TestEveryPackageHasDoc(t *testing.T) {
	docs, pkgs := map[string]int{}, map[string]bool{}
	for _, f := range sources(t) {
		pkgs[f.pkg] = true
		switch {
		case path.Base(f.path) == "doc.go":
			docs[f.pkg] = f.lines
		case !f.test && f.ast.Doc != nil && f.ast.Name.Name != "main":
			t.Errorf("%s: the package's comment stands in doc.go", f.path)
		}
	}
	for pkg := range pkgs {
		if n := docs[pkg]; n < minDoc || n > maxDoc {
			t.Errorf("%s/doc.go has %d lines, want %d to %d", pkg, n, minDoc, maxDoc)
		}
	}
}

func TestFrontPages(t *testing.T) {
	pages := files(t, ".md", "LICENSE")
	for name, limit := range map[string]int{
		"README.md": maxReadme, "ARCHITECTURE.md": maxArchitecture, "CHANGELOG.md": 1 << 20, "LICENSE": 1 << 20,
	} {
		text, ok := pages[name]
		if n := bytes.Count(text, []byte("\n")); !ok || n == 0 || n > limit {
			t.Errorf("%s has %d lines, want 1 to %d", name, n, limit)
		}
	}
	for pkg := range floors {
		if !bytes.Contains(pages["ARCHITECTURE.md"], []byte("`"+pkg+"`")) {
			t.Errorf("ARCHITECTURE.md does not name package `%s`", pkg)
		}
	}
}

// TestLinks checks that what a page links to inside the repository is there.
func TestLinks(t *testing.T) {
	all := files(t, "")
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	for name, text := range all {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			to := string(m[1])
			if strings.Contains(to, "://") {
				continue
			}
			to = path.Join(path.Dir(name), to)
			found := false
			for p := range all {
				found = found || p == to || strings.HasPrefix(p, to+"/")
			}
			if !found {
				t.Errorf("%s links to %s, which is not there", name, to)
			}
		}
	}
}

// foreign is what belongs to the machine or the plan that something was written
// with, and not to the project.
var foreign = regexp.MustCompile(`/work/|/root/|\b(SPEC|STYLE|DESIGN|FAULTS|PEERS|CODEC)\.md\b|\bB[0-6][0-9]\b|\b[Ii]ssue #?[0-9]`)

func TestSpeaksOfItselfAlone(t *testing.T) {
	for name, text := range files(t, ".go", ".md", ".yml", "Makefile", "Dockerfile", ".ci/run", ".sh") {
		if strings.HasPrefix(name, "internal/tidy/") {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if word := foreign.FindString(line); word != "" {
				t.Errorf("%s:%d speaks of %q", name, i+1, word)
			}
		}
	}
}
