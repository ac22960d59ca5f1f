package tidy_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// row is one package: the floor it stands on and what of this module it imports.
type row struct {
	floor   int
	imports []string
}

// beside is the floor of what no package of the program imports.
const beside = 9

// floors says which package may import which.
var floors = map[string]row{
	"cmd/rwsink": {4, []string{"admin", "bench", "bench/load", "chunkenc", "head", "internal/instant", "internal/memlimit", "internal/metrics", "internal/vfs", "query", "receiver", "store", "store/block", "transfer", "wal"}},

	"receiver": {3, []string{"head", "internal/metrics", "internal/seldom"}},
	"query":    {3, []string{"chunkenc", "internal/metrics", "store"}},
	"admin":    {3, []string{"head", "internal/instant", "store"}},
	"bench":    {3, []string{"bench/drive", "bench/load", "internal/proc"}}, // meets servers over HTTP alone
	"transfer": {3, []string{"chunkenc", "head", "internal/instant", "internal/jsonfile", "internal/vfs", "ooo", "store", "store/block"}},

	"store":       {2, []string{"chunkenc", "head", "internal/jsonfile", "internal/metrics", "internal/vfs", "ooo", "store/block", "wal"}},
	"store/block": {0, []string{"chunkenc", "internal/jsonfile", "internal/vfs"}},

	"head": {1, []string{"chunkenc", "head/postings", "internal/metrics", "internal/seldom", "ooo", "wal", "wal/record"}},

	"bench/drive":       {0, []string{"bench/load"}},
	"bench/load":        {0, nil},
	"ooo":               {0, []string{"chunkenc"}},
	"chunkenc":          {0, nil},
	"head/postings":     {0, nil},
	"wal":               {0, []string{"internal/metrics", "internal/vfs", "wal/record"}},
	"wal/record":        {0, nil},
	"internal/instant":  {0, nil},
	"internal/jsonfile": {0, []string{"internal/vfs"}},
	"internal/memlimit": {0, nil},
	"internal/metrics":  {0, nil},
	"internal/proc":     {0, nil},
	"internal/seldom":   {0, nil},
	"internal/vfs":      {0, nil},

	"acceptance":    {beside, nil},
	"internal/tidy": {beside, nil},
}

// forTests are the helpers that the tests of any package may import.
var forTests = []string{"internal/built", "internal/fixture", "internal/rounds", "internal/vfs/memfs"}

func init() {
	floors["internal/built"] = row{0, nil}
	floors["internal/fixture"] = row{0, nil}
	floors["internal/rounds"] = row{0, nil}
	floors["internal/vfs/memfs"] = row{0, []string{"internal/vfs"}}
}

func TestFloors(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range sources(t) {
		if strings.HasPrefix(f.path, "e2e/") {
			continue // a module of its own: TestEndToEndStandsAlone
		}
		r, ok := floors[f.pkg]
		if !ok {
			t.Errorf("%s: package %s has no row in the table of floors", f.path, f.pkg)
			continue
		}
		seen[f.pkg] = true
		for _, spec := range f.ast.Imports {
			imp, ok := local(spec.Path.Value)
			if !ok || imp == f.pkg || slices.Contains(r.imports, imp) {
				continue
			}
			if f.test && (floors[imp].floor < r.floor || slices.Contains(forTests, imp)) {
				continue
			}
			t.Errorf("%s imports %s, which its row in the table of floors does not name", f.path, imp)
		}
	}
	for pkg := range floors {
		if !seen[pkg] {
			t.Errorf("the table of floors names %s, which is not there", pkg)
		}
	}
}

// TestFloorsAscend checks the table itself: a row imports lower floors, or its own floor without a circle.
func TestFloorsAscend(t *testing.T) {
	for pkg, r := range floors {
		for _, imp := range r.imports {
			to, ok := floors[imp]
			if !ok {
				t.Errorf("%s imports %s, which has no row", pkg, imp)
			}
			if to.floor > r.floor || to.floor == r.floor && r.floor != 0 {
				t.Errorf("%s on floor %d imports %s on floor %d", pkg, r.floor, imp, to.floor)
			}
		}
	}
}

func TestEndToEndStandsAlone(t *testing.T) {
	for _, f := range sources(t) {
		for _, spec := range f.ast.Imports {
			imp, ok := local(spec.Path.Value)
			if !ok {
				continue
			}
			if inside := strings.HasPrefix(imp, "e2e"); inside != strings.HasPrefix(f.path, "e2e/") {
				t.Errorf("%s imports %s: the end-to-end tests and the program meet over sockets only", f.path, imp)
			}
		}
	}
}

// local returns the path below the module of an import, quoted as in the source.
func local(quoted string) (string, bool) {
	imp, err := strconv.Unquote(quoted)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(imp, module+"/")
}
