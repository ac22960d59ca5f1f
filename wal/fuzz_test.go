package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

// Any bytes as the newest segment, and as an older one: the log opens or says that
// the file is not its own, what it gives it gives again, and it can be written to.
func FuzzSegment(f *testing.F) {
	golden, err := os.ReadFile(goldenSegment)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden, true, true)
	f.Add(golden, false, true)
	f.Add(golden[:len(golden)-5], true, false)
	f.Add(golden[:100], false, false)
	f.Add(append(bytes.Clone(golden[:61]), golden[177:]...), true, false)
	f.Add(make([]byte, 100), true, false)
	f.Fuzz(func(t *testing.T, data []byte, newest, mend bool) {
		if mend {
			data = mended(data)
		}
		m := memfs.New(1)
		o := wal.Options{FS: m, Dir: "/wal"}
		if err := m.MkdirAll("/wal"); err != nil {
			t.Fatal(err)
		}
		if err := m.WriteFile("/wal/00000001", data); err != nil {
			t.Fatal(err)
		}
		if !newest {
			if err := m.WriteFile("/wal/00000002", golden); err != nil {
				t.Fatal(err)
			}
		}
		l, err := wal.Open(o)
		if errors.Is(err, wal.ErrMagic) || errors.Is(err, wal.ErrVersion) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, _, first := open(t, o)
		if last := len(first); !newest && last < 3 {
			t.Fatalf("the sound segment behind gave %q", first)
		}
		lsn := commit(t, l, "new")[0]
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, rec, again := open(t, o)
		if want := append(first, fmt.Sprintf("%d 1 new", lsn)); fmt.Sprint(again) != fmt.Sprint(want) || len(rec.Lost) > 0 || len(rec.SetAside) > 0 || rec.TornTail > 0 {
			t.Fatalf("got %q %+v, want %q", again, rec, want)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// mended makes the checksums right, so that the fuzzer gets behind them.
func mended(data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) >= 36 {
		binary.LittleEndian.PutUint32(data[32:], checksum(data[:32]))
	}
	for off := 36; off+17 <= len(data); {
		n := 16 + int(binary.LittleEndian.Uint32(data[off:]))
		if n < 17 || n > len(data)-off {
			break
		}
		binary.LittleEndian.PutUint32(data[off+4:], checksum(data[off+8:off+n]))
		off += n
	}
	return data
}
