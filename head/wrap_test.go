package head_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
	"github.com/rwsink/rwsink/wal/record"
)

// TestReferencesOfEveryWidth goes on where a log knows series by references just
// below what 16, 23, 24, 31, 32 and 48 bits hold: those that come after cross the
// width, and each keeps its own samples, across restarts.
func TestReferencesOfEveryWidth(t *testing.T) {
	for _, bits := range []int{16, 23, 24, 31, 32, 48} {
		fs, m := memfs.New(1), oracle{}
		first := uint64(1)<<bits - 2
		b := record.Batch{
			Series: []record.Series{{Ref: first, Labels: labels.FromStrings("__name__", "m", "i", "0")}},
			Floats: record.Floats{Ref: []uint64{first}, T: []int64{nowMs}, V: []float64{1}},
		}
		l, err := wal.Open(wal.Options{FS: fs, Dir: "/wal"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Replay(nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Begin(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Write(wal.ClassWritten, record.Append(nil, &b)); err != nil {
			t.Fatal(err)
		}
		if err := l.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		m.add(float(0, nowMs, 1))
		p := mustStart(t, fs, nearOptions())
		for i := range 6 {
			s := []sample{float(i, nowMs+1000, float64(i)), float(i, nowMs+500, float64(-i))} // the second is late
			p.stored(t, s...)
			m.add(s...)
		}
		for range 2 {
			p.holds(t, m)
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			p = mustStart(t, fs, nearOptions())
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSegmentsOfEveryNumber writes series into segments whose numbers cross what 16,
// 24, 32 and 48 bits hold: each segment has the records of what it holds.
func TestSegmentsOfEveryNumber(t *testing.T) {
	for _, bits := range []int{16, 24, 32, 48} {
		fs, m := memfs.New(1), oracle{}
		if err := fs.MkdirAll("/wal"); err != nil {
			t.Fatal(err)
		}
		// What is left of the creation of a segment: the next has the next number.
		if err := fs.WriteFile(fmt.Sprintf("/wal/%08d", uint64(1)<<bits-3), nil); err != nil {
			t.Fatal(err)
		}
		for life := range 6 { // a segment each
			p := mustStart(t, fs, nearOptions())
			p.holds(t, m)
			for i := range 3 {
				p.stored(t, float(i, nowMs+int64(1000*life+i), float64(life)))
			}
			last := p.log.Segments()
			if want := uint64(1)<<bits - 2 + uint64(life); last[len(last)-1].Number != want {
				t.Fatalf("segment %d, want %d", last[len(last)-1].Number, want)
			}
			// Only the newest stays: it must be enough for what it holds.
			if err := p.log.RemoveBefore(math.MaxInt64); err != nil {
				t.Fatal(err)
			}
			m = oracle{}
			for i := range 3 {
				m.add(float(i, nowMs+int64(1000*life+i), float64(life)))
			}
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
