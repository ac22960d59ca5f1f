package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rwsink/rwsink/store"
)

// TestIdentity makes one and finds it again; another directory has another, and
// a file without one is named, by check too.
func TestIdentity(t *testing.T) {
	seen := map[string]bool{}
	var last string
	for range 2 {
		dir := t.TempDir()
		for again := range 2 {
			s, err := store.Open(store.Options{Path: dir})
			must(t, err)
			id, err := s.Identity()
			if err != nil || id == "" || seen[id] != (again == 1) {
				t.Errorf("%q, %v after %v", id, err, seen)
			}
			seen[id] = true
			closeStore(t, s)
		}
		last = dir
	}
	must(t, os.WriteFile(filepath.Join(last, "ID"), []byte("\n"), 0o600))
	if _, faults, _ := findings(t, last); len(faults) != 1 || !strings.Contains(faults[0], "/ID: offset 0: no identity") {
		t.Errorf("%q", faults)
	}
	s, err := store.Open(store.Options{Path: last})
	must(t, err)
	defer closeStore(t, s)
	if _, err := s.Identity(); err == nil || !strings.Contains(err.Error(), "/ID: offset 0: no identity") {
		t.Error(err)
	}
}
