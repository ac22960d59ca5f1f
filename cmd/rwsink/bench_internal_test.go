package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsMeasure parses every measurement that the docs, the changelog and the Makefile
// name, in a line or on a line of its own, as the program gets it from make and the shell.
func TestDocsMeasure(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	byMake := regexp.MustCompile(`bench-(floor|ooo|goals|peers) BENCHFLAGS=('[^']*'|"[^"]*"|[^\s` + "`" + `]+)`)
	straight := regexp.MustCompile("(?m)(?:`|^    )rwsink bench ([^`\\n]+)")
	found := 0
	for _, name := range append(files, "../../CHANGELOG.md", "../../Makefile") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, m := range byMake.FindAllStringSubmatch(strings.ReplaceAll(string(text), "$(BENCHFLAGS)", ""), -1) {
			flags := strings.ReplaceAll(strings.Trim(m[2], `"'`), "$$", "\x00")
			if strings.Contains(flags, "$") {
				t.Errorf("%s: make takes a dollar and what follows it for a variable, two are one: %s", name, m[0])
			}
			lines = append(lines, m[1]+" "+strings.ReplaceAll(flags, "\x00", "$"))
		}
		for _, m := range straight.FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, strings.NewReplacer("'", "", "$!", "1").Replace(m[1]))
		}
		for _, line := range lines {
			app := newApp(t)
			benchFlags(app)
			if _, err := app.Parse(append([]string{"bench"}, strings.Fields(line)...)); err != nil {
				t.Errorf("%s: rwsink bench %s: %v", name, line, err)
			}
			found++
		}
	}
	if found < 15 {
		t.Errorf("%d measurements found", found)
	}
}
