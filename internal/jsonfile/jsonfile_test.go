package jsonfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

type list struct {
	jsonfile.Head
	Names []string `json:"names"`
	jsonfile.Sum
}

var kind = jsonfile.Kind{Magic: "some-list", Oldest: 2, Newest: 4, Unsummed: 2}

// TestForm fixes the bytes: checksums of directories on disk depend on them.
func TestForm(t *testing.T) {
	l := list{Names: []string{"a", "<b>"}}
	line, err := jsonfile.Encode(kind, &l)
	if want := `{"magic":"some-list","version":4,"names":["a","\u003cb\u003e"],"crc32c":3722141580}` + "\n"; err != nil || string(line) != want {
		t.Errorf("%s, %v, want %s", line, err, want)
	}
	indented := kind
	indented.Indent = "\t"
	lines, err := jsonfile.Encode(indented, &l)
	if err != nil || !bytes.HasPrefix(lines, []byte("{\n\t\"magic\": \"some-list\",\n")) || !bytes.HasSuffix(lines, []byte("\n}\n")) {
		t.Errorf("%s, %v", lines, err)
	}
	for _, data := range [][]byte{line, lines} {
		var got list
		if err := jsonfile.Decode("x", data, kind, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(l) {
			t.Errorf("%+v, %v, want %+v", got, err, l)
		}
	}
}

// TestRefusals tells damage from a later version, whichever byte is damaged.
func TestRefusals(t *testing.T) {
	l := list{Names: []string{"a", "b"}}
	sound, err := jsonfile.Encode(kind, &l)
	if err != nil {
		t.Fatal(err)
	}
	change := func(from, to string) string { return strings.Replace(string(sound), from, to, 1) }
	for _, tc := range []struct {
		name, data string
		want       string // "" is taken, "newer" a *NewerError, else of a *vfs.CorruptError
	}{
		{"sound", string(sound), ""},
		{"nothing", "", "unexpected end"},
		{"broken off", string(sound[:20]), "unexpected end"},
		{"more than one", string(sound) + "{}", "after top-level value"},
		{"another type", `{"magic":7}`, "cannot unmarshal"},
		{"another magic", change("some-list", "some-more"), `magic "some-more", want "some-list"`},
		{"another magic, newer", string(newer(t, "some-more", "")), "magic"},
		{"one version newer", string(newer(t, "some-list", "")), "newer"},
		{"one version newer, indented", string(newer(t, "some-list", " ")), "newer"},
		{"a damaged version", change(`"version":4`, `"version":5`), "version 5, want 2 to 4, with checksum"},
		{"a newer one without a sum", `{"magic":"some-list","version":5,"names":[],"more":{}}`, "version 5, want 2 to 4, with no checksum"},
		{"a newer one that is damaged", strings.Replace(string(newer(t, "some-list", "")), "crc32c", "crc32d", 2), "with checksum"},
		{"too old", change(`"version":4`, `"version":1`), "version 1, want 2 to 4"},
		{"a negative version", change(`"version":4`, `"version":-1`), "version -1, want 2 to 4"},
		{"an older version", change(`"version":4`, `"version":3`), "checksum"},        // its sum is of another version
		{"one that had no sum yet", change(`"version":4`, `"version":2`), "checksum"}, // and has one
		{"one without a sum", `{"magic":"some-list","version":2,"names":["a"]}`, ""},
		{"a value", change(`"a"`, `"c"`), "checksum"},
		{"the sum", change(`"crc32c":`, `"crc32c":1,"was":`), "checksum"},
		{"no sum", `{"magic":"some-list","version":4,"names":["a","b"]}`, "checksum"},
	} {
		var got list
		err := jsonfile.Decode("the/path", []byte(tc.data), kind, &got)
		var corrupt *vfs.CorruptError
		var newer *jsonfile.NewerError
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want == "newer" && (!errors.As(err, &newer) || newer.Got != 5 || newer.Known != 4 || !strings.Contains(err.Error(), "the/path has version 5")):
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && tc.want != "newer" && (!errors.As(err, &corrupt) || corrupt.Path != "the/path" || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	for i := range sound[:len(sound)-1] { // but for the newline
		for bit := range 8 {
			flipped := bytes.Clone(sound)
			flipped[i] ^= 1 << bit
			var got list
			var corrupt *vfs.CorruptError
			if err := jsonfile.Decode("x", flipped, kind, &got); !errors.As(err, &corrupt) {
				t.Errorf("byte %d flipped is no damage, but %v: %s", i, err, flipped)
			}
		}
	}
}

// newer returns a file of the version after kind's, with a field of another type and
// others that kind does not know; one is called as the checksum is.
func newer(t *testing.T, magic, indent string) []byte {
	t.Helper()
	f := struct {
		jsonfile.Head
		Names map[string]int `json:"names"` // a list for kind
		More  map[string]int `json:"more"`
		Text  string         `json:"text"`
		jsonfile.Sum
	}{Names: map[string]int{"a": 1}, More: map[string]int{"crc32c": 1}, Text: `<"crc32c":7}`}
	data, err := jsonfile.Encode(jsonfile.Kind{Magic: magic, Newest: kind.Newest + 1, Indent: indent}, &f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	var got list
	if err := jsonfile.Read(path, kind, &got); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	l := list{Names: []string{"a"}}
	for range 2 {
		if err := jsonfile.Write(vfs.OS{}, path, kind, &l); err != nil {
			t.Fatal(err)
		}
		if err := jsonfile.Read(path, kind, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(l) {
			t.Errorf("%+v, %v, want %+v", got, err, l)
		}
		l.Names = append(l.Names, "b")
	}
	if _, err := os.Stat(path + vfs.TmpSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestReplacedWhole cuts the power, and fails, in every operation of a replacement:
// there is the old file or the new one.
func TestReplacedWhole(t *testing.T) {
	old, next := list{Names: []string{"old"}}, list{Names: []string{"new"}}
	read := func(m *memfs.FS) string {
		data, err := m.ReadFile("/d/list")
		if err != nil {
			t.Fatal(err)
		}
		var got list
		if err := jsonfile.Decode("/d/list", data, kind, &got); err != nil {
			t.Fatal(err)
		}
		return got.Names[0]
	}
	prepare := func(seed uint64) *memfs.FS {
		m := memfs.New(seed)
		if err := errors.Join(m.MkdirAll("/d"), m.SyncDir("/"), jsonfile.Write(m, "/d/list", kind, &old)); err != nil {
			t.Fatal(err)
		}
		return m
	}
	seen := map[string]int{}
	for seed := range uint64(50) {
		for k := range 7 {
			m := prepare(seed)
			m.CutAfter(k)
			err := jsonfile.Write(m, "/d/list", kind, &next)
			m.Crash()
			got := read(m)
			if err == nil && got != "new" {
				t.Fatalf("seed %d, cut after %d: written, and it is the old one", seed, k)
			}
			seen[got]++
			if err := jsonfile.Write(m, "/d/list", kind, &next); err != nil || read(m) != "new" { // over what is left
				t.Fatalf("seed %d, cut after %d: again: %v", seed, k, err)
			}
		}
		for _, op := range []memfs.Op{memfs.OpCreate, memfs.OpWrite, memfs.OpSync, memfs.OpRename} {
			m := prepare(seed)
			m.Fail(op, 0, 1, syscall.EIO)
			if err := jsonfile.Write(m, "/d/list", kind, &next); err == nil {
				t.Fatalf("seed %d: a failing %v is not told", seed, op)
			}
			m.Crash()
			if got := read(m); got != "old" && op != memfs.OpRename {
				t.Fatalf("seed %d, failing %v: %s", seed, op, got)
			}
		}
	}
	if seen["old"] == 0 || seen["new"] == 0 {
		t.Errorf("after the power was cut: %v", seen)
	}
}
