package block_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

var update = flag.Bool("update", false, "write the golden block anew")

// golden has a block of each version, v1 and so on; newest is the one that is written now.
const (
	golden = "testdata/golden"
	newest = 2
)

// goldenBlock returns the directory of the golden block of a version.
func goldenBlock(t *testing.T, version int) string {
	t.Helper()
	parent := goldenDir(version)
	if *update && version == newest {
		if err := errors.Join(os.RemoveAll(parent), os.CopyFS(parent, os.DirFS(filepath.Dir(sound(t))))); err != nil {
			t.Fatal(err)
		}
	}
	dirs, _, err := block.List(parent)
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%d golden blocks, %v", len(dirs), err)
	}
	return dirs[0]
}

func goldenDir(version int) string { return filepath.Join(golden, fmt.Sprint("v", version)) }

var goldenFiles = []string{"rwsink.json", "meta.json", "index", "chunks/000001", "tombstones"}

// TestGoldenBlock holds the format to blocks that each version has written.
func TestGoldenBlock(t *testing.T) {
	read := map[int]string{}
	for version := 1; version <= newest; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) { read[version] = readGolden(t, version) })
		if read[version] == "" || read[version] != read[1] {
			t.Errorf("version %d reads\n%s, version 1\n%s", version, read[version], read[1])
		}
	}
}

// TestGoldenBytes: what is written today is the golden block of today, to the
// byte. (The index is held to Prometheus's; how it is packed may change.)
func TestGoldenBytes(t *testing.T) {
	golden, dir := goldenBlock(t, newest), sound(t)
	for _, file := range []string{"chunks/000001", "tombstones"} {
		got, err1 := os.ReadFile(filepath.Join(dir, file))
		want, err2 := os.ReadFile(filepath.Join(golden, file))
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, %d bytes differ from %d", file, err, len(got), len(want))
		}
	}
}

// readGolden holds one golden block to its dumps and returns what is read of it.
func readGolden(t *testing.T, version int) string {
	dir := goldenBlock(t, version)
	if c, faults := checkBlock(t, dir); len(faults) != 0 || c.Samples != 121 {
		t.Errorf("%+v %v", c, faults)
	}
	b, err := block.Open(dir, block.NewPages(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if b.Info().Version != version || b.Info().Generation.LSN != 9 || len(b.Info().Files) != 3 {
		t.Errorf("%+v", b.Info())
	}
	for _, file := range goldenFiles {
		var got bytes.Buffer
		if err := block.Dump(&got, filepath.Join(dir, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		text := filepath.Join(goldenDir(version), strings.ReplaceAll(file, "/", "-")+".txt")
		if *update && version == newest {
			if err := os.WriteFile(text, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(text); err != nil || !bytes.Equal(want, got.Bytes()) {
			t.Errorf("%s, %v:\n%s", file, err, got.Bytes())
		}
	}
	all, err := b.Select(context.Background(), labels.MustNewMatcher(labels.MatchRegexp, "k", ".*"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, s := range all {
		err := b.NewReader().Read(s.Ref, math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
			fmt.Fprintln(&got, s.Labels, run.T, run.V, run.H)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return got.String()
}

// TestDumpOfDamage prints what is left of damaged files and names the damage.
func TestDumpOfDamage(t *testing.T) {
	for _, tc := range []struct {
		file   string
		change func([]byte) []byte
		want   string // in what is printed
	}{
		{"chunks/000001", func(b []byte) []byte { b[20] ^= 1; return b }, "damage at 8: crc32c"},
		{"chunks/000001", func(b []byte) []byte { b[8] = 0xff; return b }, "damage at 8: "},
		{"chunks/000001", func(b []byte) []byte { b[5] = 1; return b }, "damage at 4: "},
		{"index", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, ""},
		{"index", func(b []byte) []byte { b[60] ^= 1; return b }, "damage at 56: "},
		{"rwsink.json", func(b []byte) []byte { return b[:20] }, ""},
		{"rwsink.json", func([]byte) []byte { return []byte("{}") }, ""},
		{"rwsink.json", func(b []byte) []byte { return bytes.Replace(b, []byte(`"version": 2`), []byte(`"version": 3`), 1) }, "version 3"},
		{"rwsink.json", func(b []byte) []byte { return bytes.Replace(b, []byte(`"lsn": 9`), []byte(`"lsn": 8`), 1) }, "damage at 0: checksum"},
		{"tombstones", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, "damage at 5: crc32c"},
		{"tombstones", func(b []byte) []byte { return b[:6] }, ""},
		{"meta.json", func([]byte) []byte { return []byte("nothing of ours") }, ""},
	} {
		path := filepath.Join(sound(t), tc.file)
		change(t, path, tc.change)
		var out bytes.Buffer
		err := block.Dump(&out, path)
		var corrupt *vfs.CorruptError
		var newer *jsonfile.NewerError
		if !errors.As(err, &corrupt) && !errors.As(err, &newer) || !strings.Contains(err.Error(), path) || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: %v, want %q in\n%s", tc.file, err, tc.want, out.String())
		}
	}
}

func TestDumpOfTombstones(t *testing.T) {
	stones := tombstones.NewMemTombstones()
	stones.AddInterval(7, tombstones.Interval{Mint: 1000, Maxt: 2000})
	b, err := tombstones.Encode(stones)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(sound(t), "tombstones")
	change(t, path, func(old []byte) []byte { return append(old[:4:4], append(b, old[5:]...)...) })
	var out bytes.Buffer
	err = block.Dump(&out, path)
	if err == nil || !strings.Contains(out.String(), "series 7: from 1000 (1970-01-01T00:00:01.000Z) to 2000") {
		t.Errorf("%v\n%s", err, out.String()) // the checksum is that of no tombstones
	}
	if !block.CanDump([]byte{0x01, 0x30, 0xba, 0x30}) || block.CanDump([]byte("RWSL")) || block.CanDump(nil) {
		t.Error("kinds of files")
	}
	if err := block.Dump(io.Discard, filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
