package wal_test

import (
	"path/filepath"
	"testing"

	"github.com/rwsink/rwsink/wal"
)

func BenchmarkCommit(b *testing.B) {
	for name, policy := range map[string]wal.SyncPolicy{"always": wal.SyncAlways, "never": wal.SyncNever} {
		b.Run(name, func(b *testing.B) {
			l, _, _ := open(b, wal.Options{Dir: filepath.Join(b.TempDir(), "wal"), Sync: policy})
			defer l.Close()
			payload := make([]byte, 16<<10) // a batch of 2,000 samples
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if _, err := l.Begin(); err != nil {
					b.Fatal(err)
				}
				if _, err := l.Write(1, payload); err != nil {
					b.Fatal(err)
				}
				if err := l.Commit(); err != nil {
					b.Fatal(err)
				}
				if l.Size() > 256<<20 {
					segments := l.Segments()
					if err := l.RemoveBefore(segments[len(segments)-1].First); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	o := wal.Options{Dir: filepath.Join(b.TempDir(), "wal"), Sync: wal.SyncNever}
	l, _, _ := open(b, o)
	payload := string(make([]byte, 16<<10))
	for range 2000 {
		commit(b, l, payload)
	}
	size := l.Size()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		l, err := wal.Open(o)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Replay(nil, func(wal.Frame) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
