package store_test

import (
	"context"
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
			if err != nil {
				t.Fatal(err)
			}
			id, err := s.Identity()
			if err != nil || id == "" || seen[id] != (again == 1) {
				t.Errorf("%q, %v after %v", id, err, seen)
			}
			seen[id] = true
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		last = dir
	}
	if err := os.WriteFile(filepath.Join(last, "ID"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var faults []string
	_, err := store.Check(context.Background(), last, store.CheckOptions{
		Fault: func(err error) { faults = append(faults, err.Error()) }, Note: func(string) {},
	})
	if err != nil || len(faults) != 1 || !strings.Contains(faults[0], "/ID: offset 0: no identity") {
		t.Errorf("%v, %q", err, faults)
	}
	s, err := store.Open(store.Options{Path: last})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Identity(); err == nil || !strings.Contains(err.Error(), "/ID: offset 0: no identity") {
		t.Error(err)
	}
}
