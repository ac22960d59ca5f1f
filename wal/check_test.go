package wal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/wal"
	"github.com/rwsink/rwsink/wal/record"
)

// checkLog writes a log of three segments in a new directory; every frame holds
// two samples, and the first of a segment names their series.
func checkLog(t *testing.T) (dir string, segments []wal.Segment) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "wal")
	l, err := wal.Open(wal.Options{FS: vfs.OS{}, Dir: dir, SegmentBytes: 300})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Replay(nil, func(wal.Frame) error { return nil }); err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for k := int64(0); len(l.Segments()) < 3 || l.Segments()[2].Bytes < 250; k++ {
		segment, err := l.Begin()
		if err != nil {
			t.Fatal(err)
		}
		b := record.Batch{Floats: record.Floats{Ref: []uint64{1, 2}, T: []int64{k, k}, V: []float64{float64(k), 2}}}
		if segment != last {
			b.Series = []record.Series{{Ref: 1, Labels: labels.FromStrings("a", "1")}, {Ref: 2, Labels: labels.FromStrings("a", "2")}}
		}
		last = segment
		if _, err := l.Write(1, record.Append(nil, &b)); err != nil {
			t.Fatal(err)
		}
		if err := l.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	segments = l.Segments()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, segments
}

type findings struct {
	faults []*vfs.CorruptError
	notes  []string
	wal.Checked
}

func checkDir(t *testing.T, dir string) (f findings) {
	t.Helper()
	var err error
	f.Checked, err = wal.Check(dir, func(e *vfs.CorruptError) { f.faults = append(f.faults, e) },
		func(s string) { f.notes = append(f.notes, s) })
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCheckOfASoundLog(t *testing.T) {
	dir, segments := checkLog(t)
	f := checkDir(t, dir)
	if len(f.faults)+len(f.notes) != 0 || f.Segments != len(segments) || f.Samples != 2*f.Frames || f.Next != wal.LSN(f.Frames+1) {
		t.Errorf("%+v", f)
	}
}

// TestCheckNamesDamage changes a log in one place and expects what is named, all of it.
func TestCheckNamesDamage(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(b []byte) []byte // of the second segment
		want   []string
	}{
		{"magic", func(b []byte) []byte { b[0] ^= 1; return b }, []string{"offset 0: the header is damaged: got magic"}},
		{"version", func(b []byte) []byte { b[4]++; return b }, []string{"offset 0: the header is damaged"}},
		{"checksum of the header", func(b []byte) []byte { b[33] ^= 8; return b }, []string{"offset 0: the header is damaged"}},
		{"a frame", func(b []byte) []byte { b[len(b)-1] ^= 8; return b }, []string{"are missing"}},
		{"two frames", func(b []byte) []byte { b[40] ^= 8; b[len(b)-1] ^= 8; return b }, []string{"offset 36: LSN", "are missing"}},
		{"cut short", func(b []byte) []byte { return b[:len(b)-3] }, []string{"are missing"}},
		{"cut to the header", func(b []byte) []byte { return b[:36] }, []string{"offset 36: LSN"}},
		{"bytes between frames", func(b []byte) []byte { return append(append(bytes.Clone(b[:36]), 1, 2, 3), b[36:]...) },
			[]string{"offset 36: 3 bytes are no frame"}},
	} {
		dir, segments := checkLog(t)
		path := filepath.Join(dir, fmt.Sprintf("%08d", segments[1].Number))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, tc.damage(data), 0o600); err != nil {
			t.Fatal(err)
		}
		f := checkDir(t, dir)
		if len(f.faults) != len(tc.want) {
			t.Errorf("%s: %d faults, want %d: %v", tc.name, len(f.faults), len(tc.want), f.faults)
			continue
		}
		for i, e := range f.faults {
			if e.Path != path || !strings.Contains(e.Error(), tc.want[i]) {
				t.Errorf("%s: %v, want %q", tc.name, e, tc.want[i])
			}
		}
	}
}

// TestCheckSeesEveryByte flips each byte of a log in turn. In the last group of
// the newest segment that is what a killed process leaves, anywhere else a fault.
func TestCheckSeesEveryByte(t *testing.T) {
	dir, segments := checkLog(t)
	for i, s := range segments {
		path := filepath.Join(dir, fmt.Sprintf("%08d", s.Number))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lastFrame := 36
		for off := 36; off < len(data); off += 16 + int(data[off]) { // frames of fewer than 256 bytes
			lastFrame = off
		}
		for at := range data {
			data[at] ^= 0x11
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			f := checkDir(t, dir)
			data[at] ^= 0x11
			if i == len(segments)-1 && at >= lastFrame {
				if len(f.faults) != 0 || len(f.notes) != 1 {
					t.Errorf("%s, byte %d of the tail: %v %v", path, at, f.faults, f.notes)
				}
				continue
			}
			if len(f.faults) != 1 || f.faults[0].Path != path || f.faults[0].Offset > int64(at) {
				t.Errorf("%s, byte %d: %v", path, at, f.faults)
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCheckOfRecords writes frames that are sound and hold what they must not.
func TestCheckOfRecords(t *testing.T) {
	dir, segments := checkLog(t)
	l, err := wal.Open(wal.Options{FS: vfs.OS{}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Replay(nil, func(wal.Frame) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, payload := range [][]byte{
		record.Append(nil, &record.Batch{Floats: record.Floats{Ref: []uint64{7, 8}, T: []int64{1, 1}, V: []float64{1, 2}}}),
		{99, 0, 0, 0, 0},
	} {
		if _, err := l.Begin(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Write(1, payload); err != nil {
			t.Fatal(err)
		}
		if err := l.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f := checkDir(t, dir)
	if len(f.faults) != 2 || !strings.Contains(f.faults[0].Error(), "series 7 is not named in this segment (2 samples") ||
		!strings.Contains(f.faults[1].Error(), "kind 99") || f.Segments != len(segments)+1 {
		t.Errorf("%v %+v", f.faults, f.Checked)
	}
}

// TestCheckOfWhatIsSetAside names other files without calling them damage.
func TestCheckOfWhatIsSetAside(t *testing.T) {
	dir, segments := checkLog(t)
	first := filepath.Join(dir, fmt.Sprintf("%08d", segments[0].Number))
	for _, suffix := range []string{".damaged", ".damaged-2", ".repair"} {
		if err := os.WriteFile(first+suffix, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "00000099"), make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	f := checkDir(t, dir)
	if len(f.faults) != 0 || len(f.notes) != 4 {
		t.Errorf("faults %v, notes %q", f.faults, f.notes)
	}
}
