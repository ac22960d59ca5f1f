package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/store/block"
)

// checkedDir makes a directory with two blocks and a log of at least two
// segments, the newest with samples that no block has.
func checkedDir(t *testing.T) (dir string, blocks, segments []string) {
	t.Helper()
	dir = filepath.Join(fixture.QuickDir(t), "data")
	s := open(t, store.Options{Path: dir, Segment: 1 << 10})
	now := time.Now().UnixMilli()
	commit := func(from int64, n int) {
		t.Helper()
		for k := range n {
			b := s.Head().NewBatch()
			for i := range 5 {
				b.Float(resolve(t, s.Head(), i), from+int64(k)*1000, 0, float64(k))
			}
			if res, err := s.Head().Commit(context.Background(), b); err != nil || res.Refused.Any() {
				t.Fatalf("%+v, %v", res, err)
			}
			b.Release()
		}
	}
	old := now - 48*time.Hour.Milliseconds()
	old -= old % time.Hour.Milliseconds()
	commit(old, 30)
	commit(old-96*time.Hour.Milliseconds(), 30)
	flushAll(t, s)
	commit(now-60_000, 40)
	closeStore(t, s)
	blocks, _, err := block.List(filepath.Join(dir, "blocks"))
	if err != nil || len(blocks) != 2 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	segments, err = filepath.Glob(filepath.Join(dir, "wal", "*"))
	if err != nil || len(segments) < 2 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	return dir, blocks, segments
}

// findings checks a directory.
func findings(t testing.TB, dir string) (c store.Checked, faults, notes []string) {
	t.Helper()
	c, err := store.Check(context.Background(), dir, store.CheckOptions{
		Fault: func(err error) { faults = append(faults, err.Error()) },
		Note:  func(s string) { notes = append(notes, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Faults != len(faults) || c.Notes != len(notes) {
		t.Errorf("%d faults and %d notes told of, %v", len(faults), len(notes), c)
	}
	return c, faults, notes
}

func TestCheckOfASoundDirectory(t *testing.T) {
	dir, blocks, segments := checkedDir(t)
	c, faults, notes := findings(t, dir)
	if len(faults)+len(notes) != 0 || c.Blocks != len(blocks) || c.Samples != 300 || c.Series != 10 || c.Log.Segments != len(segments) || c.Log.Samples < 200 {
		t.Errorf("%v %q %q", c, faults, notes)
	}
	want := fmt.Sprintf("2 blocks (%d bytes, 10 series, ", c.Bytes)
	if s := c.String(); !strings.HasPrefix(s, want) || !strings.HasSuffix(s, "0 notes, 0 faults") {
		t.Errorf("summary %q", s)
	}
	s := open(t, store.Options{Path: dir})
	closeStore(t, s)
	if _, faults, _ := findings(t, dir); len(faults) != 0 {
		t.Errorf("after a start: %q", faults)
	}
}

// flip changes one byte of a file; negative counts from its end.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[(at+len(b))%len(b)] ^= 0x10
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCheckNamesEachFault damages a directory in one way, and in all of them at
// once, and expects each fault with its place, and nothing else.
func TestCheckNamesEachFault(t *testing.T) {
	type damage struct {
		name string
		do   func(dir string, blocks, segments []string)
		want []string
	}
	single := []damage{
		{"a chunk", func(_ string, b, _ []string) { flip(t, b[0]+"/chunks/000001", 20) },
			[]string{`blocks/0/chunks/000001: offset 8: series {__name__="m", i="0"}, chunk 0: crc32c`}},
		{"the index", func(_ string, b, _ []string) { flip(t, b[1]+"/index", -1) },
			[]string{"blocks/1/index: offset "}},
		{"a truncated index", func(_ string, b, _ []string) { must(t, os.Truncate(b[1]+"/index", 100)) },
			[]string{"blocks/1/index: offset 100: 100 bytes, want"}},
		{"no meta.json", func(_ string, b, _ []string) { must(t, os.Remove(b[0]+"/meta.json")) },
			[]string{"blocks/0/meta.json: offset 0: the file is missing"}},
		{"no rwsink.json", func(_ string, b, _ []string) { must(t, os.Remove(b[1]+"/rwsink.json")) },
			[]string{"blocks/1/rwsink.json: offset 0: the file is missing"}},
		{"no segment of chunks", func(_ string, b, _ []string) { must(t, os.Remove(b[1]+"/chunks/000001")) },
			[]string{"blocks/1/chunks/000001: offset 0: the file is missing"}},
		{"an empty block", func(_ string, b, _ []string) { must(t, os.RemoveAll(b[0])); must(t, os.Mkdir(b[0], 0o700)) },
			[]string{"blocks/0/rwsink.json", "blocks/0/meta.json", "blocks/0/tombstones", "blocks/0/chunks", "blocks/0/index"}},
		{"the log's first frame", func(_ string, _, s []string) { flip(t, s[0], 60) },
			[]string{"wal/0: offset 36: LSN "}},
		{"the log's header", func(_ string, _, s []string) { flip(t, s[1], 10) },
			[]string{"wal/1: offset 0: the header is damaged"}},
		{"a newer list of removals", func(dir string, _, _ []string) {
			must(t, os.WriteFile(dir+"/blocks/removed.json", []byte(newer(t, "rwsink-removed", 4)), 0o600))
		}, []string{"removed.json has version 4, this rwsink knows 3: use a newer rwsink"}},
		{"the list of removals", func(dir string, _, _ []string) {
			must(t, os.WriteFile(dir+"/blocks/removed.json", []byte(`{"magic":"rwsink-removed","version":1,"logs":[{"from":2,"to":1}]}`), 0o600))
		}, []string{"removed.json: offset 0: log range 0"}},
		{"the sum of the list of removals", func(dir string, _, _ []string) {
			must(t, os.WriteFile(dir+"/blocks/removed.json", []byte(`{"magic":"rwsink-removed","version":2,"keepFrom":7,"logs":[],"crc32c":1}`), 0o600))
		}, []string{"removed.json: offset 0: checksum "}},
		{"no log", func(dir string, _, _ []string) { must(t, os.RemoveAll(dir+"/wal")) },
			[]string{"wal: offset 0: the log is missing"}},
		{"a newer layout", func(dir string, _, _ []string) { must(t, os.WriteFile(dir+"/VERSION", []byte("2\n"), 0o600)) },
			[]string{"VERSION: layout version 2, this rwsink knows 1: use a newer rwsink"}},
		{"a damaged layout", func(dir string, _, _ []string) { must(t, os.WriteFile(dir+"/VERSION", []byte("q\n"), 0o600)) },
			[]string{"VERSION: offset 0: layout version \"q\", want a number: if no newer rwsink has used the directory, write 1"}},
	}
	all := damage{name: "four at once"}
	for _, i := range []int{0, 1, 7, 8} {
		all.want = append(all.want, single[i].want...)
	}
	all.do = func(dir string, b, s []string) {
		for _, i := range []int{0, 1, 7, 8} {
			single[i].do(dir, b, s)
		}
	}
	for _, tc := range append(single, all) {
		dir, blocks, segments := checkedDir(t)
		tc.do(dir, blocks, segments)
		_, faults, _ := findings(t, dir)
		for i, b := range blocks {
			for k := range faults {
				faults[k] = strings.ReplaceAll(faults[k], b, fmt.Sprint("blocks/", i))
			}
		}
		for i, s := range segments {
			for k := range faults {
				faults[k] = strings.ReplaceAll(faults[k], s, fmt.Sprint("wal/", i))
			}
		}
		for _, w := range tc.want {
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, w) }) {
				t.Errorf("%s: %q is not among %q", tc.name, w, faults)
			}
		}
		for _, f := range faults {
			if !slices.ContainsFunc(tc.want, func(w string) bool { return strings.Contains(f, w) }) {
				t.Errorf("%s: %q was not expected", tc.name, f)
			}
		}
	}
}

// TestCheckNotes finds what a start tidies up, and calls none of it a fault.
func TestCheckNotes(t *testing.T) {
	dir, blocks, segments := checkedDir(t)
	must(t, os.Mkdir(blocks[0]+".tmp", 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, "quarantine", "x.damaged"), 0o700))
	newest := segments[len(segments)-1]
	st, err := os.Stat(newest)
	must(t, err)
	must(t, os.Truncate(newest, st.Size()-3))
	rewrite(t, blocks[1]+"/rwsink.json", func(info *block.Info) { info.Parents = []string{filepath.Base(blocks[0])} })
	_, faults, notes := findings(t, dir)
	if len(faults) != 0 || len(notes) != 4 {
		t.Errorf("%q %q", faults, notes)
	}
	for i, want := range []string{".tmp was not finished", blocks[0] + " was merged into", "x.damaged was damaged", "are an unfinished write"} {
		if i >= len(notes) || !strings.Contains(notes[i], want) {
			t.Errorf("note %d of %q, want %q", i, notes, want)
		}
	}
}

// TestUnfinishedFiles are noted by a check, which leaves them, and gone after a
// start, which takes nothing else with them.
func TestUnfinishedFiles(t *testing.T) {
	dir, blocks, _ := checkedDir(t)
	names := []string{"VERSION.tmp", "ID.tmp", "blocks/removed.json.tmp", "blocks/deletes.json.tmp", "blocks/" + filepath.Base(blocks[0]) + "/tombstones.tmp"}
	others := []string{"notes.tmp", "blocks/notes.tmp"}
	for _, name := range append(names, others...) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600))
	}
	_, faults, notes := findings(t, dir)
	for _, name := range names {
		if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, name+" was not finished") }) {
			t.Errorf("%s is not noted: %q, %q", name, notes, faults)
		}
	}
	if len(faults) > 0 || len(notes) != len(names) {
		t.Errorf("faults %q, notes %q", faults, notes)
	}
	s := open(t, store.Options{Path: dir})
	closeStore(t, s)
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	for _, name := range others {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s is not ours to remove: %v", name, err)
		}
	}
	if _, faults, notes := findings(t, dir); len(faults)+len(notes) > 0 {
		t.Errorf("after a start: %q, %q", faults, notes)
	}
}

func rewrite(t *testing.T, path string, f func(*block.Info)) {
	t.Helper()
	var info block.Info
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, json.Unmarshal(b, &info))
	f(&info)
	b, err = jsonfile.Encode(jsonfile.Kind{Magic: info.Magic, Newest: info.Version}, &info)
	must(t, err)
	must(t, os.WriteFile(path, b, 0o600))
}

// newer returns a small file as a later version may write it.
func newer(t *testing.T, magic string, version int) string {
	t.Helper()
	f := struct {
		jsonfile.Head
		More int `json:"more"`
		jsonfile.Sum
	}{More: 1}
	b, err := jsonfile.Encode(jsonfile.Kind{Magic: magic, Newest: version}, &f)
	must(t, err)
	return string(b)
}

// TestCheckOfGenerations makes two blocks of one generation: neither of the two came
// later, which is wrong where they do not say the same.
func TestCheckOfGenerations(t *testing.T) {
	for _, other := range []float64{1, 2} {
		s, _, o := rig(t, store.Options{})
		commit(t, s, 0, 12_000, 10, 1)
		flushAll(t, s)
		commit(t, s, 0, 12_500, 10, other)
		flushAll(t, s)
		dirs := s.BlockDirs()
		closeStore(t, s)
		for _, dir := range dirs {
			rewrite(t, dir+"/rwsink.json", func(info *block.Info) { info.Generation.LSN = 7 })
		}
		_, faults, _ := findings(t, o.Path)
		if other == 1 {
			if len(faults) > 0 {
				t.Errorf("%q", faults)
			}
		} else if len(faults) != 1 || !strings.Contains(faults[0], "overlaps") || !strings.Contains(faults[0], "both hold {") {
			t.Errorf("%q", faults)
		}
	}
}

// TestCheckOfOneFrame flushes a part of a frame, and the rest in a range around it
// once the block duration has changed: one generation, and nothing is wrong.
func TestCheckOfOneFrame(t *testing.T) {
	o := store.Options{Path: fixture.QuickDir(t), Head: head.Options{BlockDuration: time.Second, Accept: head.Accept{
		MaxFuture: time.Minute, Now: func() time.Time { return time.UnixMilli(0) }, TrustClock: true,
	}}}
	s := openIdle(t, o)
	commit(t, s, 0, 500, 21, 1)
	must(t, s.FlushSome(context.Background(), func(c head.ContainerInfo) bool { return c.Lo == 1000 }))
	closeStore(t, s)
	o.Head.BlockDuration = 3 * time.Second
	s = openIdle(t, o)
	flushAll(t, s)
	if got := read(t, s); len(s.BlockDirs()) != 2 || len(got) != 21 {
		t.Fatalf("%d blocks, want 2, with %d samples, want 21", len(s.BlockDirs()), len(got))
	}
	closeStore(t, s)
	if _, faults, _ := findings(t, o.Path); len(faults) > 0 {
		t.Errorf("%q", faults)
	}
}

func TestCheckRefuses(t *testing.T) {
	nowhere := store.CheckOptions{}
	if _, err := store.Check(context.Background(), t.TempDir(), nowhere); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no data directory") {
		t.Errorf("an empty directory: %v", err)
	}
	dir := t.TempDir()
	s := open(t, store.Options{Path: dir})
	if _, err := store.Check(context.Background(), dir, nowhere); err == nil || !strings.Contains(err.Error(), "held by another process: stop the rwsink that serves it") {
		t.Errorf("a directory in use: %v", err)
	}
	closeStore(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir, _, _ = checkedDir(t)
	if _, err := store.Check(ctx, dir, nowhere); !errors.Is(err, context.Canceled) {
		t.Errorf("a check that is ended: %v", err)
	}
}

// sound checks what a crash left: there may be something to tidy up, but no fault.
func (w *sweep) sound(at, dir string) {
	w.t.Helper()
	if w.damaged {
		return
	}
	if _, faults, notes := findings(w.t, dir); len(faults) > 0 {
		w.t.Errorf("%s: the check finds %q and %q", at, faults, notes)
	}
}
