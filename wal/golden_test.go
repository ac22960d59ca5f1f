package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
	"github.com/rwsink/rwsink/wal/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	goldenSegment = "testdata/segment.golden"
	goldenDump    = "testdata/segment.dump"
)

var stale = math.Float64frombits(0x7ff0000000000002)

// goldenBatches are the frames of the golden segment: every kind, every size class.
func goldenBatches() []*record.Batch {
	var many []record.Series
	for i := range 8 {
		many = append(many, record.Series{Ref: uint64(10 + i), Labels: labels.FromStrings("__name__", "http_requests_total", "code", "200", "instance", fmt.Sprint("host-", i, ":9100"))})
	}
	return []*record.Batch{
		{
			Series: []record.Series{
				{Ref: 1, Labels: labels.FromStrings("__name__", "up", "job", "a")},
				{Ref: 7, Labels: labels.FromStrings("__name__", "up")},
			},
			Floats: record.Floats{
				Ref: []uint64{1, 2, 300, 1 << 40},
				T:   []int64{1_700_000_000_000, 1_700_000_000_000, 1_700_000_015_000, math.MinInt64},
				V:   []float64{1, 0, 0.1, stale},
			},
		},
		{
			Series: many,
			Floats: record.Floats{
				Ref: []uint64{10, 11}, T: []int64{1000, 100_000}, ST: []int64{500, 0}, V: []float64{-2, math.Inf(1)},
			},
			Histograms: []record.Histogram{
				{Ref: 12, T: 1000, ST: 500, H: &histogram.Histogram{
					CounterResetHint: histogram.NotCounterReset, Schema: -4, ZeroThreshold: 0.5, ZeroCount: 3, Count: 300, Sum: stale,
					PositiveSpans: []histogram.Span{{Offset: -2, Length: 1}, {Offset: 3, Length: 1}}, PositiveBuckets: []int64{100, -1},
					NegativeSpans: []histogram.Span{{Offset: 0, Length: 1}}, NegativeBuckets: []int64{98},
				}},
				{Ref: 13, T: 1000, FH: &histogram.FloatHistogram{
					CounterResetHint: histogram.GaugeType, Schema: -53, Count: 2.5, Sum: 7,
					PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []float64{0.5, 2}, CustomValues: []float64{0.25, 10},
				}},
			},
			Metadata:  []record.Metadata{{Family: "up", Type: "gauge", Unit: "", Help: "Is it up?"}},
			Exemplars: []record.Exemplar{{Ref: 10, T: -5, V: 0.25, Labels: labels.FromStrings("trace_id", "f00")}},
		},
		{
			Floats: record.Floats{Ref: []uint64{7}, T: []int64{0}, V: []float64{42}},
			Deletes: []record.Delete{
				{MinT: -1, MaxT: 300, Matchers: []record.Matcher{{Type: labels.MatchEqual, Name: "__name__", Value: "up"}, {Type: labels.MatchNotRegexp, Name: "job", Value: "a|b"}}},
				{MinT: math.MinInt64, MaxT: math.MaxInt64},
			},
		},
	}
}

// golden writes the golden segment: two groups, and a gap frame before them.
func golden(t *testing.T) []byte {
	t.Helper()
	m := memfs.New(1)
	l, _, _ := open(t, wal.Options{FS: m, Dir: "/wal", After: 4, Now: func() time.Time { return time.UnixMilli(1_700_000_000_123) }})
	batches := goldenBatches()
	for _, group := range [][]*record.Batch{batches[:2], batches[2:]} {
		if _, err := l.Begin(); err != nil {
			t.Fatal(err)
		}
		for i, b := range group {
			if _, err := l.Write(byte(1-i), record.Append(nil, b)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := m.ReadFile("/wal/00000001")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGolden(t *testing.T) {
	got := golden(t)
	if *update {
		if err := os.WriteFile(goldenSegment, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenSegment)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the format has changed: what is written is not %s", goldenSegment)
	}
	// What was written then is read now.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "00000001"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := wal.Open(wal.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	batches := goldenBatches()
	rec, err := l.Replay(nil, func(f wal.Frame) error {
		var b record.Batch
		if err := record.Decode(&b, f.Payload); err != nil {
			return err
		}
		if again := record.Append(nil, &b); !bytes.Equal(again, record.Append(nil, batches[0])) || f.Segment != 1 {
			t.Errorf("LSN %d in segment %d holds another batch", f.LSN, f.Segment)
		}
		batches = batches[1:]
		return nil
	})
	if err != nil || rec.Frames != 3 || len(rec.Lost) != 0 || rec.TornTail != 0 {
		t.Errorf("got %+v, %v", rec, err)
	}
}

// fields reads a file by the letter of docs/format/wal.md and nothing else.
type fields struct {
	t *testing.T
	b []byte
	i int
}

func (f *fields) take(n int) []byte {
	f.i += n
	return f.b[f.i-n : f.i]
}

func (f *fields) is(name string, got, want any) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("%s, which ends at byte %d: got %v, want %v", name, f.i, got, want)
	}
}

func (f *fields) text(name, want string)        { f.t.Helper(); f.is(name, string(f.take(len(want))), want) }
func (f *fields) u8(name string, want uint8)    { f.t.Helper(); f.is(name, f.take(1)[0], want) }
func (f *fields) u32(name string, want uint32)  { f.t.Helper(); f.is(name, f.le32(), want) }
func (f *fields) u64(name string, want uint64)  { f.t.Helper(); f.is(name, f.le64(), want) }
func (f *fields) f64(name string, want float64) { f.t.Helper(); f.u64(name, math.Float64bits(want)) }
func (f *fields) le32() uint32                  { return binary.LittleEndian.Uint32(f.take(4)) }
func (f *fields) le64() uint64                  { return binary.LittleEndian.Uint64(f.take(8)) }

func (f *fields) uvarint(name string, want uint64) {
	f.t.Helper()
	v, n := binary.Uvarint(f.b[f.i:])
	f.i += n
	f.is(name, v, want)
}

func (f *fields) zigzag(name string, want int64) {
	f.t.Helper()
	v, n := binary.Varint(f.b[f.i:])
	f.i += n
	f.is(name, v, want)
}

func (f *fields) string(name, want string) {
	f.t.Helper()
	f.uvarint("len of "+name, uint64(len(want)))
	f.text(name, want)
}

func (f *fields) labels(pairs ...string) {
	f.t.Helper()
	f.uvarint("count of labels", uint64(len(pairs)/2))
	for _, s := range pairs {
		f.string("label", s)
	}
}

// frame reads a frame's header and checks its checksum.
func (f *fields) frame(lsn uint64, class byte) (end int) {
	f.t.Helper()
	n := int(f.le32())
	end = f.i + 12 + n
	f.u32("crc32c", checksum(f.b[f.i+4:end]))
	f.u64("LSN", lsn)
	f.u8("class", class)
	return end
}

// record reads a record's header.
func (f *fields) record(kind byte) (end int) {
	f.t.Helper()
	f.u8("kind", kind)
	return int(f.le32()) + f.i
}

// sample reads a float sample; steps and value as the control byte sizes them.
func (f *fields) sample(control byte, rest ...byte) {
	f.t.Helper()
	f.u8("control", control)
	f.is("ref step, time step and value", string(f.take(len(rest))), string(rest))
}

func (f *fields) at(name string, end int) {
	f.t.Helper()
	f.is("end of "+name, f.i, end)
}

func TestGoldenFieldByField(t *testing.T) {
	b, err := os.ReadFile(goldenSegment)
	if err != nil {
		t.Fatal(err)
	}
	f := &fields{t: t, b: b}
	f.text("magic", "RWSL")
	f.u32("version", 1)
	f.u64("number", 1)
	f.u64("first LSN", 1)
	f.u64("created", 1_700_000_000_123)
	f.u32("crc32c", checksum(b[:32]))

	end := f.frame(4, 0x80|0x7f)
	f.u64("gap from", 1)
	f.at("gap frame", end)

	end = f.frame(5, 0x80|1)
	f.goldenSmall()
	f.at("frame", end)

	end = f.frame(6, 0)
	f.goldenPacked()
	f.goldenWithST()
	f.goldenHistograms()
	f.goldenRest()
	f.at("frame", end)

	end = f.frame(7, 0x80|1)
	r := f.record(2)
	f.uvarint("count", 1)
	f.u8("flags", 0)
	f.sample(0x21, 12, 0x40, 0x45)
	f.at("floats", r)
	f.goldenDeletes()
	f.at("frame", end)
	f.at("file", len(b))
}

func (f *fields) goldenSmall() {
	end := f.record(1)
	f.u8("flags", 0)
	f.uvarint("count", 2)
	f.zigzag("ref step", 0)
	f.labels("__name__", "up", "job", "a")
	f.zigzag("ref step", 5)
	f.labels("__name__", "up")
	f.at("series", end)

	end = f.record(2)
	f.uvarint("count", 4)
	f.u8("flags", 0)
	f.sample(0x2c, 0x00, 0xd0, 0xca, 0x9f, 0x17, 0x03, 0, 0, 0x3f, 0xf0) // time 1.7e12: zigzag 3.4e12 in 8 bytes
	f.sample(0x00)
	f.sample(0x86, 0x52, 0x02, 0x00, 0x30, 0x75, 0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a)
	f.u8("control", 0x8f)
	f.is("ref step", int64(f.le64()), int64(1<<40-301)<<1)
	step := uint64(1<<63) - 1_700_000_015_000 // wraps
	f.u64("time step", step<<1^uint64(int64(step)>>63))
	f.is("value", string(f.take(8)), "\x7f\xf0\x00\x00\x00\x00\x00\x02")
	f.at("floats", end)
}

func (f *fields) goldenPacked() {
	f.t.Helper()
	end := f.record(1)
	f.u8("flags", 1)
	plain, err := snappy.Decode(nil, f.take(end-f.i))
	if err != nil {
		f.t.Fatal(err)
	}
	g := &fields{t: f.t, b: plain}
	g.uvarint("count", 8)
	for i := range 8 {
		g.zigzag("ref step", []int64{9, 0, 0, 0, 0, 0, 0, 0}[i])
		g.labels("__name__", "http_requests_total", "code", "200", "instance", fmt.Sprint("host-", i, ":9100"))
	}
	g.at("series", len(plain))
}

func (f *fields) goldenWithST() {
	end := f.record(2)
	f.uvarint("count", 2)
	f.u8("flags", 1)
	f.sample(0x15, 18, 0xd0, 0x07, 0xc0)
	f.sample(0x28, 0x70, 0x05, 0x03, 0x00, 0x7f, 0xf0)
	f.zigzag("ST step", 500)
	f.zigzag("ST step", -500)
	f.at("floats", end)
}

func (f *fields) goldenHistograms() {
	end := f.record(3)
	f.uvarint("count", 2)
	f.u8("flags", 2)
	f.zigzag("ref step", 11)
	f.zigzag("time step", 1000)
	f.zigzag("ST", 500)
	f.u8("hint", 2)
	f.zigzag("schema", -4)
	f.f64("zero threshold", 0.5)
	f.uvarint("zero count", 3)
	f.uvarint("count", 300)
	f.f64("sum", stale)
	f.spans(-2, 1, 3, 1)
	f.spans(0, 1)
	f.uvarint("positive buckets", 2)
	f.zigzag("bucket", 100)
	f.zigzag("bucket", -1)
	f.uvarint("negative buckets", 1)
	f.zigzag("bucket", 98)
	f.uvarint("custom values", 0)

	f.u8("flags", 1)
	f.zigzag("ref step", 0)
	f.zigzag("time step", 0)
	f.u8("hint", 3)
	f.zigzag("schema", -53)
	f.f64("zero threshold", 0)
	f.f64("zero count", 0)
	f.f64("count", 2.5)
	f.f64("sum", 7)
	f.spans(0, 2)
	f.spans()
	f.uvarint("positive buckets", 2)
	f.f64("bucket", 0.5)
	f.f64("bucket", 2)
	f.uvarint("negative buckets", 0)
	f.uvarint("custom values", 2)
	f.f64("custom value", 0.25)
	f.f64("custom value", 10)
	f.at("histograms", end)
}

func (f *fields) spans(pairs ...int) {
	f.t.Helper()
	f.uvarint("spans", uint64(len(pairs)/2))
	for i := 0; i < len(pairs); i += 2 {
		f.zigzag("offset", int64(pairs[i]))
		f.uvarint("length", uint64(pairs[i+1]))
	}
}

func (f *fields) goldenRest() {
	end := f.record(4)
	f.uvarint("count", 1)
	for _, s := range []string{"up", "gauge", "", "Is it up?"} {
		f.string("metadata", s)
	}
	f.at("metadata", end)
	end = f.record(5)
	f.uvarint("count", 1)
	f.zigzag("ref step", 9)
	f.zigzag("time step", -5)
	f.f64("value", 0.25)
	f.labels("trace_id", "f00")
	f.at("exemplars", end)
}

func (f *fields) goldenDeletes() {
	end := f.record(6)
	f.uvarint("count", 2)
	f.zigzag("from", -1)
	f.zigzag("to", 300)
	f.uvarint("matchers", 2)
	f.u8("type", 0)
	f.string("name", "__name__")
	f.string("value", "up")
	f.u8("type", 3)
	f.string("name", "job")
	f.string("value", "a|b")
	f.zigzag("from", math.MinInt64)
	f.zigzag("to", math.MaxInt64)
	f.uvarint("matchers", 0)
	f.at("deletes", end)
}

func TestDump(t *testing.T) {
	var out strings.Builder
	if err := wal.Dump(&out, goldenSegment); err != nil {
		t.Error(err)
	}
	if *update {
		if err := os.WriteFile(goldenDump, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenDump)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s", out.String())
	}
}

func TestDumpGoesOnPastDamage(t *testing.T) {
	b, err := os.ReadFile(goldenSegment)
	if err != nil {
		t.Fatal(err)
	}
	second := 36 + 25 // the frame with LSN 5 begins there
	badRecord := bytes.Clone(b)
	badRecord[second+17] = 99 // its first kind
	n := int(binary.LittleEndian.Uint32(b[second:]))
	binary.LittleEndian.PutUint32(badRecord[second+4:], checksum(badRecord[second+8:second+16+n]))
	tests := []struct {
		name    string
		corrupt func() []byte
		want    []string
		err     error // nil: any
	}{
		{"a byte of a frame", func() []byte { c := bytes.Clone(b); c[second+30] ^= 1; return c }, []string{"damage at 61: ", "got LSN 6, want 5", "LSN 7", "3 frames"}, nil},
		{"a byte of the header", func() []byte { c := bytes.Clone(b); c[20] ^= 1; return c }, []string{"damage at 0: the header", "LSN 5", "LSN 7", "4 frames"}, nil},
		{"the end", func() []byte { return b[:len(b)-1] }, []string{"LSN 6", "damage at", "3 frames"}, nil},
		{"a record of a valid frame", func() []byte { return badRecord }, []string{"unknown kind 99", "LSN 6", "LSN 7", "4 frames"}, nil},
		{"an empty file", func() []byte { return nil }, []string{"damage at 0"}, nil},
		{"another file", func() []byte { return []byte(strings.Repeat("text", 50)) }, []string{"damage at 0"}, wal.ErrMagic},
		{"a later version", func() []byte {
			c := bytes.Clone(b)
			c[4] = 2
			binary.LittleEndian.PutUint32(c[32:], checksum(c[:32]))
			return c
		}, nil, wal.ErrVersion},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "00000001")
			if err := os.WriteFile(path, test.corrupt(), 0o444); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := wal.Dump(&out, path)
			var c *vfs.CorruptError
			if !errors.As(err, &c) || c.Path != path || test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("got error %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
		})
	}
}

func TestDumpTellsThatItCouldNotWrite(t *testing.T) {
	if err := wal.Dump(brokenWriter{}, goldenSegment); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
