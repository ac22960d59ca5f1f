package block_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// sound writes a block of a few series of floats, two chunks each and all at the
// same uneven times, and one of histograms.
func sound(t *testing.T) (dir string) {
	t.Helper()
	w, err := block.Create(vfs.OS{}, t.TempDir(), block.NewBuffers())
	if err != nil {
		t.Fatal(err)
	}
	enc := chunkenc.Encoder{Float: chunkenc.EncDelta}
	times := make([]int64, 40)
	for i := range times {
		times[i] = 1_700_000_000_000 + int64(i)*15_000 + int64(i*i%7)
	}
	for k := range 3 {
		var list []chunkenc.Chunk
		for i := 0; i < 40; i += 20 {
			s := chunkenc.Samples{T: times[i : i+20]}
			for n := range s.T {
				s.V = append(s.V, float64(n*(k+1)))
			}
			list = enc.Seal(list, &s)
		}
		if err := w.AddSeries(labels.FromStrings("__name__", "m", "k", fmt.Sprint(k)), list); err != nil {
			t.Fatal(err)
		}
	}
	s := chunkenc.Samples{Kind: chunkenc.KindHistogram, T: times[:1], H: []*histogram.Histogram{{
		Count: 3, Sum: 2, PositiveSpans: []histogram.Span{{Offset: 0, Length: 1}}, PositiveBuckets: []int64{3},
	}}}
	if err := w.AddSeries(labels.FromStrings("__name__", "n"), enc.Seal(nil, &s)); err != nil {
		t.Fatal(err)
	}
	dir, err = w.Commit(context.Background(), block.CommitInfo{
		Generation: block.Generation{Class: 1, LSN: 9}, Level: 1,
		Logs: []block.LogRange{{MinT: 0, MaxT: math.MaxInt64, From: 0, To: 9}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func checkBlock(t *testing.T, dir string) (block.Checked, []error) {
	t.Helper()
	var faults []error
	c, err := block.Check(context.Background(), dir, func(err error) { faults = append(faults, err) })
	if err != nil {
		t.Fatal(err)
	}
	return c, faults
}

// expect checks that the faults of a block are those wanted, in order: each
// begins with a path inside the block and contains a text.
func expect(t *testing.T, name, dir string, want ...[2]string) {
	t.Helper()
	_, faults := checkBlock(t, dir)
	if len(faults) != len(want) {
		t.Errorf("%s: %d faults, want %d: %v", name, len(faults), len(want), faults)
		return
	}
	for i, w := range want {
		if text := faults[i].Error(); !strings.Contains(text, filepath.Join(dir, w[0])) || !strings.Contains(text, w[1]) {
			t.Errorf("%s: %v, want %q", name, text, w)
		}
	}
}

func change(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(bytes.Clone(data)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCheckOfASoundBlock(t *testing.T) {
	c, faults := checkBlock(t, sound(t))
	if len(faults) != 0 || c.Series != 4 || c.Chunks != 7 || c.Columns != 2 || c.Samples != 121 {
		t.Errorf("%+v %v", c, faults)
	}
}

// TestCheckSeesEveryByte flips each byte of a block's binary files in turn and
// expects one fault, in that file.
func TestCheckSeesEveryByte(t *testing.T) {
	dir := sound(t)
	for _, file := range []string{"index", "chunks/000001", "tombstones"} {
		path := filepath.Join(dir, file)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range data {
			data[at] ^= 0x11
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			data[at] ^= 0x11
			_, faults := checkBlock(t, dir)
			if len(faults) != 1 {
				t.Errorf("%s, byte %d: %d faults: %v", file, at, len(faults), faults)
				continue
			}
			if e, ok := faults[0].(*vfs.CorruptError); !ok || e.Path != path || e.Offset > int64(at) {
				t.Errorf("%s, byte %d: %v", file, at, faults[0])
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckOfFiles(t *testing.T) {
	for file, cut := range map[string]string{
		"rwsink.json": "JSON", "meta.json": "bytes, want", "index": "bytes, want", "chunks/000001": "bytes, want", "tombstones": "",
	} {
		dir := sound(t)
		path := filepath.Join(dir, file)
		change(t, path, func(b []byte) []byte { return b[:len(b)-5] })
		expect(t, file+" cut short", dir, [2]string{file, cut})
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		expect(t, file+" removed", dir, [2]string{file, "the file is missing"})
	}
	dir := sound(t)
	if err := os.WriteFile(filepath.Join(dir, "chunks/000002"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, "a file too many", dir, [2]string{"chunks/000002", "does not list"})
}

// rewrite changes the JSON files of a block and the checksums with them.
func rewrite(t *testing.T, dir string, f func(*block.Info, *tsdb.BlockMeta)) {
	t.Helper()
	var info block.Info
	var meta tsdb.BlockMeta
	change(t, filepath.Join(dir, "meta.json"), func(b []byte) []byte {
		if err := json.Unmarshal(b, &meta); err != nil {
			t.Fatal(err)
		}
		return b
	})
	table := crc32.MakeTable(crc32.Castagnoli)
	change(t, filepath.Join(dir, "rwsink.json"), func(b []byte) []byte {
		if err := json.Unmarshal(b, &info); err != nil {
			t.Fatal(err)
		}
		f(&info, &meta)
		data, err := json.Marshal(meta)
		if err != nil {
			t.Fatal(err)
		}
		change(t, filepath.Join(dir, "meta.json"), func([]byte) []byte { return data })
		for i := range info.Files {
			if info.Files[i].Name == "meta.json" {
				info.Files[i].Size = int64(len(data))
			}
		}
		info.MetaCRC, info.CRC = crc32.Checksum(data, table), 0
		if data, err = json.Marshal(info); err != nil {
			t.Fatal(err)
		}
		info.CRC = crc32.Checksum(data, table)
		if data, err = json.Marshal(info); err != nil {
			t.Fatal(err)
		}
		return data
	})
}

// TestCheckOfJSON changes what the JSON files say, their checksums with it.
func TestCheckOfJSON(t *testing.T) {
	for _, tc := range []struct {
		file, want string
		change     func(*block.Info, *tsdb.BlockMeta)
	}{
		{"rwsink.json", "use a newer rwsink", func(i *block.Info, _ *tsdb.BlockMeta) { i.Version = 3 }},
		{"rwsink.json", "version 0, want 1", func(i *block.Info, _ *tsdb.BlockMeta) { i.Version = 0 }},
		{"rwsink.json", `magic "other"`, func(i *block.Info, _ *tsdb.BlockMeta) { i.Magic = "other" }},
		{"rwsink.json", "unknown class 7", func(i *block.Info, _ *tsdb.BlockMeta) { i.Generation.Class = 7 }},
		{"rwsink.json", "log range 0", func(i *block.Info, _ *tsdb.BlockMeta) { i.Generation.LSN = 8 }},
		{"rwsink.json", "log range 0", func(i *block.Info, _ *tsdb.BlockMeta) { i.Logs[0].From = 10 }},
		{"rwsink.json", "the chunks have", func(i *block.Info, _ *tsdb.BlockMeta) { i.Encodings[0] = "raw" }},
		{"rwsink.json", "no files are listed", func(i *block.Info, _ *tsdb.BlockMeta) { i.Files = nil }},
		{"meta.json", "5 series by its statistics, but there are 4", func(_ *block.Info, m *tsdb.BlockMeta) { m.Stats.NumSeries++ }},
		{"meta.json", "8 chunks by its statistics", func(_ *block.Info, m *tsdb.BlockMeta) { m.Stats.NumChunks++ }},
		{"meta.json", "120 samples by its statistics", func(_ *block.Info, m *tsdb.BlockMeta) { m.Stats.NumSamples-- }},
		{"meta.json", "the samples reach from", func(_ *block.Info, m *tsdb.BlockMeta) { m.MinTime-- }},
		{"meta.json", "level 0", func(_ *block.Info, m *tsdb.BlockMeta) { m.Compaction.Level = 0 }},
		{"meta.json", "version 2", func(_ *block.Info, m *tsdb.BlockMeta) { m.Version = 2 }},
	} {
		dir := sound(t)
		rewrite(t, dir, tc.change)
		expect(t, tc.want, dir, [2]string{tc.file, tc.want})
	}
	dir := sound(t)
	rewrite(t, dir, func(i *block.Info, _ *tsdb.BlockMeta) { i.Files[1].Name = "indez" })
	expect(t, "another name", dir, [2]string{"index", "does not list this file"}, [2]string{"indez", "missing"})
}

// TestCheckOfChangedJSON changes numbers and leaves the checksums.
func TestCheckOfChangedJSON(t *testing.T) {
	for _, tc := range []struct{ file, from, to string }{
		{"rwsink.json", `"lsn": 9`, `"lsn": 8`},
		{"rwsink.json", `"size": 2`, `"size": 3`},
		{"meta.json", `"numSeries": 4`, `"numSeries": 5`},
	} {
		dir := sound(t)
		change(t, filepath.Join(dir, tc.file), func(b []byte) []byte {
			if !bytes.Contains(b, []byte(tc.from)) {
				t.Fatalf("%s has no %s:\n%s", tc.file, tc.from, b)
			}
			return bytes.Replace(b, []byte(tc.from), []byte(tc.to), 1)
		})
		expect(t, tc.to, dir, [2]string{tc.file, "checksum"})
	}
}

// entries returns the offsets of a segment's entries and their encodings.
func entries(b []byte) (at []int, enc []chunkenc.Encoding) {
	for off := 8; off < len(b); {
		size, k := binary.Uvarint(b[off:])
		at, enc = append(at, off), append(enc, chunkenc.Encoding(b[off+k]))
		off += k + 1 + int(size) + 4
	}
	return at, enc
}

// TestCheckOfSoundChecksums changes what a checksum covers, and the checksum with it.
func TestCheckOfSoundChecksums(t *testing.T) {
	for _, tc := range []struct {
		name   string
		entry  int // of chunks/000001: two chunks, then column, chunk, column, chunk of the second series ...
		change func(data []byte)
		want   string
	}{
		{"an unknown encoding", 0, func(d []byte) { d[0], d[1] = 0xee, 0xee }, "unknown encoding"},
		{"a count too high", 0, func(d []byte) { d[3]++ }, "series {__name__=\"m\", k=\"0\"}, chunk 0"},
		{"a column that is none", 2, func(d []byte) { d[0], d[1] = 0xe1, 0xe1 }, "is not a time column"},
		{"a reference into nothing", 3, func(d []byte) { binary.BigEndian.PutUint64(d[3:], 5<<32) }, "the time column is in segment 6, but there are 1"},
		{"a reference to a chunk", 3, func(d []byte) { binary.BigEndian.PutUint64(d[3:], 8) }, "the entry at 8 of 000001 is not a time column"},
		{"a column of other times", 3, nil, "the index says"},
	} {
		dir := sound(t)
		var offset int
		change(t, filepath.Join(dir, "chunks/000001"), func(b []byte) []byte {
			at, enc := entries(b)
			if enc[2] != chunkenc.EncTime || enc[3] != chunkenc.EncDelta || enc[4] != chunkenc.EncTime {
				t.Fatalf("entries %v", enc)
			}
			if tc.change == nil {
				tc.change = func(d []byte) { binary.BigEndian.PutUint64(d[3:], uint64(at[4])) }
			}
			offset = at[tc.entry]
			size, k := binary.Uvarint(b[offset:])
			data := b[offset+k : offset+k+1+int(size)]
			tc.change(data)
			binary.BigEndian.PutUint32(b[offset+k+len(data):], crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
			return b
		})
		_, faults := checkBlock(t, dir)
		if len(faults) == 0 || !strings.Contains(faults[0].Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, faults, tc.want)
		}
		for _, err := range faults {
			if !strings.Contains(err.Error(), "chunks/000001: offset ") {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
	}
}

// TestCheckOfTheIndex gives a series another label value, with the right checksum:
// the symbol behind that of its own.
func TestCheckOfTheIndex(t *testing.T) {
	for n, want := range []string{"comes after", "comes after", `postings of k="2"`} {
		old := goldenBlock(t, 1) // its index is plain
		dir := filepath.Join(t.TempDir(), filepath.Base(old))
		if err := os.CopyFS(dir, os.DirFS(old)); err != nil {
			t.Fatal(err)
		}
		change(t, filepath.Join(dir, "index"), func(b []byte) []byte {
			at := int(binary.BigEndian.Uint64(b[len(b)-44:])) // of the series
			for i := 0; ; i++ {
				at = (at + 15) / 16 * 16
				size, k := binary.Uvarint(b[at:])
				body := b[at+k : at+k+int(size)]
				if i == n {
					body[4]++
					binary.BigEndian.PutUint32(b[at+k+int(size):], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
					return b
				}
				at += k + int(size) + 4
			}
		})
		expect(t, fmt.Sprint("series ", n), dir, [2]string{"index", want})
	}
}

// TestCheckAfterMoving refuses a block under another name.
func TestCheckAfterMoving(t *testing.T) {
	dir := sound(t)
	to := filepath.Join(filepath.Dir(dir), strings.Repeat("0", 26))
	if err := os.Rename(dir, to); err != nil {
		t.Fatal(err)
	}
	expect(t, "another name", to, [2]string{"meta.json", "not the meta of this block"})
	var info block.Info
	data, err := os.ReadFile(filepath.Join(to, "rwsink.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &info); err != nil || len(info.Files) != 3 {
		t.Errorf("%+v, %v", info, err)
	}
}
