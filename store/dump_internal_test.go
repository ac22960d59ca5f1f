package store

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// TestDump prints the small files of a directory, whole and damaged.
func TestDump(t *testing.T) {
	for _, c := range []struct {
		kind jsonfile.Kind
		file jsonfile.File
		want string
	}{
		{rememberedKind, &remembered{Through: 9, Evicted: 2, Deletes: []rememberedDelete{
			{LSN: 5, MinT: 0, MaxT: 1500, Matchers: []rememberedMatcher{{"__name__", "=", "up"}, {"job", "!~", `a"b`}}},
		}}, `deletes.json, version 1
blocks have tombstones of every delete through frame 9
deletes through frame 2 are not all here
delete of frame 5: from 0 (1970-01-01T00:00:00.000Z) to 1500 (1970-01-01T00:00:01.500Z), {__name__="up", job!~"a\"b"}
crc32c `},
		{removalsKind, &removals{KeepFrom: 1000, Logs: []block.LogRange{{MinT: 0, MaxT: 999, From: 3, To: 7}}, Blocks: []string{"01ARZ3NDEKTSV4RRFFQ69G5FAV"}}, `removed.json, version 3
samples from before 1000 (1970-01-01T00:00:01.000Z) are not taken
removed, of the log: from 0 (1970-01-01T00:00:00.000Z) to 999 (1970-01-01T00:00:00.999Z), frames 4 to 7
removed block that may still be there: 01ARZ3NDEKTSV4RRFFQ69G5FAV
crc32c `},
		{removalsKind, &removals{KeepFrom: math.MinInt64}, "removed.json, version 3\ncrc32c "},
	} {
		data, err := jsonfile.Encode(c.kind, c.file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "file.json")
		for _, damaged := range []bool{false, true} {
			if damaged {
				data = bytes.Replace(data, []byte(`"crc32c":`), []byte(`"crc32c":1`), 1)
			}
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := Dump(&out, name)
			if !CanDump(data[:40]) || !strings.HasPrefix(out.String(), c.want) || strings.Count(out.String(), "\n") != strings.Count(c.want, "\n")+1 {
				t.Errorf("got\n%swant\n%s", out.String(), c.want)
			}
			if corrupt := (*vfs.CorruptError)(nil); errors.As(err, &corrupt) != damaged {
				t.Errorf("damaged is %v: %v", damaged, err)
			}
		}
	}
}
