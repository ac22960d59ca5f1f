package store_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rwsink/rwsink/store"
)

// TestListOfRemovals opens a directory with each kind of list of what retention
// removed: one of before, with no checksum, counts; a damaged one costs what it
// said; one of a newer version is refused, and left as it is.
func TestListOfRemovals(t *testing.T) {
	const keep = `"keepFrom":15000,"logs":[]`
	for _, tc := range []struct {
		name, text string
		want       int // samples taken of two, one of them too old; -1: it is refused
	}{
		{"version 1", `{"magic":"rwsink-removed","version":1,` + keep + `}`, 1},
		{"a wrong checksum", `{"magic":"rwsink-removed","version":2,` + keep + `,"crc32c":1}`, 2},
		{"no checksum", `{"magic":"rwsink-removed","version":2,` + keep + `}`, 2},
		{"version 2", `{"magic":"rwsink-removed","version":2,` + keep + `,"crc32c":2798138642}`, 1},
		{"another file", `{"magic":"rwsink-other","version":9,` + keep + `}`, 2},
		{"broken off", `{"magic":"rwsink-rem`, 2},
		{"one version newer", newer(t, "rwsink-removed", 4), -1},
		{"a damaged version", `{"magic":"rwsink-removed","version":4,` + keep + `,"crc32c":1}`, 2},
	} {
		s, _, o := rig(t, store.Options{})
		closeStore(t, s)
		path := filepath.Join(o.Path, "blocks", "removed.json")
		must(t, os.WriteFile(path, []byte(tc.text), 0o644))
		s, err := store.Open(o)
		if tc.want < 0 {
			if err == nil || !strings.Contains(err.Error(), "removed.json has version 4, this rwsink knows 3: use a newer rwsink") {
				t.Errorf("%s: %v", tc.name, err)
			}
			if got, _ := os.ReadFile(path); string(got) != tc.text {
				t.Errorf("%s: it was changed to %s", tc.name, got)
			}
			continue
		}
		must(t, err)
		must(t, s.ReplayOnly(context.Background()))
		b := s.Head().NewBatch()
		b.Float(resolve(t, s.Head(), 1), 14_999, 0, 1)
		b.Float(resolve(t, s.Head(), 1), 15_000, 0, 1)
		if res, err := s.Head().Commit(context.Background(), b); err != nil || res.Samples != tc.want {
			t.Errorf("%s: %d samples are taken, want %d, %v", tc.name, res.Samples, tc.want, err)
		}
		b.Release()
		closeStore(t, s)
	}
}
