package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

// image is a log of three segments or more, as bytes, and what stands where.
type image struct {
	fs     *memfs.FS
	acked  []string
	names  []string // of the segments
	data   map[string][]byte
	frames []place
}

// place is where a frame stands, read from the bytes by the letter of docs/format/wal.md.
type place struct {
	name     string
	from, to int
	lsn      wal.LSN
	begins   bool
}

func newImage(t *testing.T, seed uint64) *image {
	t.Helper()
	w := newWorld(seed)
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	for len(w.l.Segments()) < 3 || w.l.Segments()[2].Bytes < 250 {
		if err := w.group(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	im := &image{fs: w.fs, acked: w.acked, names: w.files(t, ""), data: map[string][]byte{}}
	for _, name := range im.names {
		b, err := w.fs.ReadFile("/data/wal/" + name)
		if err != nil {
			t.Fatal(err)
		}
		im.data[name] = b
		for off := 36; off < len(b); {
			n := 16 + int(binary.LittleEndian.Uint32(b[off:]))
			im.frames = append(im.frames, place{name, off, off + n, wal.LSN(binary.LittleEndian.Uint64(b[off+8:])), b[off+16]&0x80 != 0})
			off += n
		}
	}
	if len(im.frames) != len(im.acked) {
		t.Fatalf("%d frames on disk, %d acknowledged", len(im.frames), len(im.acked))
	}
	return im
}

func (im *image) newest() string { return im.names[len(im.names)-1] }

// lastGroup is the LSN with which the last group begins.
func (im *image) lastGroup() wal.LSN {
	for i := len(im.frames) - 1; ; i-- {
		if im.frames[i].begins {
			return im.frames[i].lsn
		}
	}
}

// with returns a world whose log is the image with one file changed.
func (im *image) with(t *testing.T, seed uint64, name string, data []byte) (*world, *strings.Builder) {
	t.Helper()
	w := newWorld(seed)
	w.fs = im.fs.Clone(seed)
	w.o.FS = w.fs
	w.acked = slices.Clone(im.acked)
	w.serial = 1000
	if err := w.fs.WriteFile("/data/wal/"+name, data); err != nil {
		t.Fatal(err)
	}
	logs := &strings.Builder{}
	w.o.Logger = slog.New(slog.NewTextHandler(logs, nil))
	return w, logs
}

// replayed opens a damaged log: the LSNs that came, each with the payload that was acknowledged under it.
func (im *image) replayed(t *testing.T, w *world) (lsns []wal.LSN, rec wal.Recovery) {
	t.Helper()
	l, rec, got := open(t, w.o)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range got {
		var lsn wal.LSN
		var class int
		if _, err := fmt.Sscan(s, &lsn, &class); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%d %d %s", lsn, len(im.acked[lsn-1])%2, im.acked[lsn-1]); s != want {
			t.Fatalf("got %q, want %q", s, want)
		}
		if len(lsns) > 0 && lsn <= lsns[len(lsns)-1] {
			t.Fatalf("LSN %d after %d", lsn, lsns[len(lsns)-1])
		}
		lsns = append(lsns, lsn)
	}
	return lsns, rec
}

func TestTailCutAtEveryByte(t *testing.T) {
	im := newImage(t, 1)
	name := im.newest()
	whole := im.data[name]
	for cut := range len(whole) {
		w, logs := im.with(t, uint64(cut), name, whole[:cut])
		end := 36 // of the last frame that is whole
		w.acked = nil
		for i, f := range im.frames {
			if f.name != name || f.to <= cut {
				w.acked = append(w.acked, im.acked[i])
				if f.name == name {
					end = f.to
				}
			}
		}
		if err := w.settle(); err != nil {
			t.Fatalf("cut at %d: %v\n%s", cut, err, logs)
		}
		warned := strings.Count(logs.String(), "unfinished write")
		if torn := cut > end; torn && (warned != 1 || !strings.Contains(logs.String(), fmt.Sprintf("offset=%d bytes=%d", end, cut-end))) || !torn && warned != 0 {
			t.Fatalf("cut at %d, last frame ends at %d: %d warnings\n%s", cut, end, warned, logs)
		}
	}
}

func TestGarbageAtTheEnd(t *testing.T) {
	im := newImage(t, 2)
	name := im.newest()
	rnd := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= 32; n++ {
		for kind, tail := range map[string][]byte{"zeros": make([]byte, n), "random": randomBytes(rnd, n)} {
			w, logs := im.with(t, uint64(n), name, append(bytes.Clone(im.data[name]), tail...))
			if err := w.settle(); err != nil {
				t.Fatalf("%d %s: %v", n, kind, err)
			}
			if strings.Count(logs.String(), "unfinished write") != 1 {
				t.Fatalf("%d %s: %s", n, kind, logs)
			}
		}
	}
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func TestOddNewestSegment(t *testing.T) {
	im := newImage(t, 3)
	for kind, data := range map[string][]byte{
		"empty": {}, "zeros": make([]byte, 5000), "a few zeros": make([]byte, 7), "half a header": im.data[im.newest()][:20],
		"half a header, then zeros": append(bytes.Clone(im.data[im.newest()][:20]), make([]byte, 16)...),
	} {
		w, _ := im.with(t, 1, "00000099", data)
		if err := w.settle(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if n := len(w.files(t, "00000099")); n != 0 {
			t.Errorf("%s: the file is still there", kind)
		}
	}
}

func TestFlipEveryByte(t *testing.T) {
	for _, seed := range []uint64{4, 5, 6}[:few(3)] {
		im := newImage(t, seed)
		for _, name := range im.names {
			for off := range im.data[name] {
				im.flip(t, name, off, byte(1<<(off%8)))
			}
		}
	}
}

// flip damages one byte: the frame it is in is lost and reported, once, and no other.
func (im *image) flip(t *testing.T, name string, off int, bit byte) {
	t.Helper()
	data := bytes.Clone(im.data[name])
	data[off] ^= bit
	w, _ := im.with(t, uint64(off), name, data)
	var want []wal.LSN
	var lost []wal.Lost
	aside, torn := 1, false
	for _, f := range im.frames {
		hit := f.name == name && f.from <= off && off < f.to
		if hit && name == im.newest() && f.lsn >= im.lastGroup() {
			aside, torn = 0, true
		} else if hit {
			lost = []wal.Lost{{From: f.lsn, To: f.lsn}}
		}
		if !hit && !torn {
			want = append(want, f.lsn)
		}
	}
	got, rec := im.replayed(t, w)
	if !slices.Equal(got, want) || !slices.Equal(rec.Lost, lost) || len(rec.SetAside) != aside || rec.TornTail > 0 != torn {
		t.Fatalf("%s byte %d: got %v %+v, want %v, lost %v, torn %v", name, off, got, rec, want, lost, torn)
	}
	if aside == 1 {
		if kept, err := w.fs.ReadFile(rec.SetAside[0]); err != nil || !bytes.Equal(kept, data) {
			t.Fatalf("%s byte %d: the damaged file was not kept as it was: %v", name, off, err)
		}
	}
	again, rec := im.replayed(t, w)
	if !slices.Equal(again, want) || len(rec.Lost) != 0 || len(rec.SetAside) != 0 || rec.TornTail != 0 {
		t.Fatalf("%s byte %d: the second start got %v %+v", name, off, again, rec)
	}
}

// wound is one piece of damage to a file.
type wound struct {
	name     string
	from, to int // bytes of the file that are not what they were
	data     []byte
}

func (im *image) wound(rnd *rand.Rand) wound {
	w := wound{name: im.names[rnd.IntN(len(im.names))]}
	b := im.data[w.name]
	w.from = rnd.IntN(len(b))
	w.to = min(len(b), w.from+1+rnd.IntN(1+rnd.IntN(len(b))))
	var middle []byte
	switch rnd.IntN(4) {
	case 0:
		middle = make([]byte, w.to-w.from)
	case 1:
		middle = randomBytes(rnd, w.to-w.from)
	case 2: // taken out
	case 3: // something between
		w.to = w.from
		middle = randomBytes(rnd, 1+rnd.IntN(50))
	}
	w.data = slices.Concat(b[:w.from], middle, b[w.to:])
	return w
}

// survivors are the LSNs whose frames a wound leaves, and those of them that must be found.
func (im *image) survivors(w wound) (may, must []wal.LSN) {
	for _, f := range im.frames {
		if f.name == w.name && !bytes.Contains(w.data, im.data[f.name][f.from:f.to]) {
			continue
		}
		may = append(may, f.lsn)
		if w.name != im.newest() || f.lsn < im.lastGroup() {
			must = append(must, f.lsn)
		}
	}
	return may, must
}

func TestWounds(t *testing.T) {
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, seed))
	for run := range few(4000) {
		im := newImages(t, uint64(run%5))
		wd := im.wound(rnd)
		if im.foreign(t, wd) {
			continue
		}
		w, logs := im.with(t, uint64(run), wd.name, wd.data)
		may, must := im.survivors(wd)
		got, rec := im.replayed(t, w)
		if !subset(got, may) || !subset(must, got) {
			t.Fatalf("run %d, %s [%d,%d): got %v, may %v, must %v\n%s", run, wd.name, wd.from, wd.to, got, may, must, logs)
		}
		im.account(t, run, got, rec)
		again, rec := im.replayed(t, w)
		if !slices.Equal(again, got) || len(rec.Lost) != 0 || len(rec.SetAside) != 0 || rec.TornTail != 0 {
			t.Fatalf("run %d, %s [%d,%d): the second start got %v %+v, want %v", run, wd.name, wd.from, wd.to, again, rec, got)
		}
		lives(t, w, len(got))
	}
}

// lives writes to a log that was repaired and holds n frames, and reads it again.
func lives(t *testing.T, w *world, n int) {
	t.Helper()
	l, _, _ := open(t, w.o)
	lsns := append(commit(t, l, "new", "newer"), commit(t, l, "newest")...)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, rec, got := open(t, w.o)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("[%d 1 new %d 1 newer %d 1 newest]", lsns[0], lsns[1], lsns[2])
	if len(got) != n+3 || fmt.Sprint(got[n:]) != want || len(rec.Lost) > 0 || len(rec.SetAside) > 0 {
		t.Fatalf("after a repair: got %d frames, want %d, and behind them %v, want %s; %+v", len(got), n+3, got[n:], want, rec)
	}
}

// foreign says whether a wound leaves nothing by which a file could be known as
// ours, and checks that then the log does not open.
func (im *image) foreign(t *testing.T, wd wound) bool {
	t.Helper()
	blank := len(bytes.Trim(wd.data, "\x00")) == 0
	if wd.from >= 4 || len(wd.data) <= 36 || blank || bytes.HasPrefix(wd.data, []byte("RWSL")) ||
		slices.ContainsFunc(im.frames, func(f place) bool { return f.name == wd.name && (f.from >= wd.to || f.to <= wd.from) }) {
		return false
	}
	w, _ := im.with(t, 1, wd.name, wd.data)
	if _, err := wal.Open(w.o); !errors.Is(err, wal.ErrMagic) {
		t.Fatalf("%s [%d,%d): got %v, want %v", wd.name, wd.from, wd.to, err, wal.ErrMagic)
	}
	return true
}

var images = map[uint64]*image{}

func newImages(t *testing.T, seed uint64) *image {
	if images[seed] == nil {
		images[seed] = newImage(t, 10+seed)
	}
	return images[seed]
}

// account checks that every LSN up to the last that came is either there or reported lost.
func (im *image) account(t *testing.T, run int, got []wal.LSN, rec wal.Recovery) {
	t.Helper()
	if len(got) == 0 {
		return
	}
	lost := map[wal.LSN]bool{}
	for _, l := range rec.Lost {
		for lsn := l.From; lsn <= l.To; lsn++ {
			lost[lsn] = true
		}
	}
	first := wal.LSN(1)
	if len(rec.SetAside) > 0 {
		first = got[0] // a segment that begins the log and of which nothing is left names no LSN
	}
	for lsn := first; lsn < got[len(got)-1]; lsn++ {
		if lost[lsn] == slices.Contains(got, lsn) {
			t.Fatalf("run %d: LSN %d is lost %v, replayed %v; got %v %+v", run, lsn, lost[lsn], !lost[lsn], got, rec)
		}
	}
}

func subset(a, b []wal.LSN) bool {
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}

// The power fails, or an operation does, anywhere in a start that repairs.
func TestFaultsDuringRepair(t *testing.T) {
	const seed = 11
	rnd := rand.New(rand.NewPCG(seed, seed))
	for run := range few(250) {
		im := newImages(t, uint64(run%5))
		wd := im.wound(rnd)
		if im.foreign(t, wd) {
			continue
		}
		clean, _ := im.with(t, uint64(run), wd.name, wd.data)
		before := clean.fs.Ops()
		want, rec := im.replayed(t, clean)
		ops := clean.fs.Ops() - before
		for k := range ops {
			w, logs := im.with(t, uint64(run*1000+k), wd.name, wd.data)
			if run%2 == 0 {
				w.fs.CutAfter(k)
			} else {
				w.fs.Fail(memfs.Op(k%int(memfs.NumOps)), k/int(memfs.NumOps), 1, errors.New("boom"))
			}
			if l, err := wal.Open(w.o); err == nil {
				_, _ = l.Replay(nil, func(wal.Frame) error { return nil })
				_ = l.Close()
			}
			w.crash()
			got, _ := im.replayed(t, w)
			if !slices.Equal(got, want) {
				t.Fatalf("run %d, fault %d, %s [%d,%d): got %v, want %v\n%s", run, k, wd.name, wd.from, wd.to, got, want, logs)
			}
			if len(rec.SetAside) > 0 && len(w.files(t, ".damaged")) == 0 {
				t.Fatalf("run %d, fault %d: the damaged file is gone", run, k)
			}
			if n := len(w.files(t, ".repair")); n > 0 {
				t.Fatalf("run %d, fault %d: %d unfinished repairs are left", run, k, n)
			}
		}
	}
}

func TestMissingSegment(t *testing.T) {
	im := newImage(t, 8)
	w, _ := im.with(t, 1, im.names[1], nil)
	if err := w.fs.Remove("/data/wal/" + im.names[1]); err != nil {
		t.Fatal(err)
	}
	got, rec := im.replayed(t, w)
	var want []wal.LSN
	var lost wal.Lost
	for _, f := range im.frames {
		if f.name != im.names[1] {
			want = append(want, f.lsn)
			continue
		}
		if lost.From == 0 {
			lost.From = f.lsn
		}
		lost.To = f.lsn
	}
	if !slices.Equal(got, want) || !slices.Equal(rec.Lost, []wal.Lost{lost}) {
		t.Fatalf("got %v %+v, want %v, lost %v", got, rec, want, lost)
	}
	if _, rec := im.replayed(t, w); len(rec.Lost) != 0 {
		t.Fatalf("reported twice: %+v", rec)
	}
}

func TestNotOurs(t *testing.T) {
	im := newImage(t, 9)
	name := im.names[1]
	later := bytes.Clone(im.data[name])
	binary.LittleEndian.PutUint32(later[4:], 2)
	binary.LittleEndian.PutUint32(later[32:], checksum(later[:32]))
	tests := []struct {
		name string
		data []byte
		want error
	}{
		{"the next version", later, wal.ErrVersion},
		{"another magic", []byte(strings.Repeat("some other program's file ", 10)), wal.ErrMagic},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, _ := im.with(t, 1, name, test.data)
			before := strings.Join(w.files(t, ""), " ")
			_, err := wal.Open(w.o)
			var c *vfs.CorruptError
			if !errors.Is(err, test.want) || !errors.As(err, &c) || c.Path != "/data/wal/"+name {
				t.Fatalf("got %v, want %v in %s", err, test.want, name)
			}
			if got, err := w.fs.ReadFile("/data/wal/" + name); err != nil || !bytes.Equal(got, test.data) || strings.Join(w.files(t, ""), " ") != before {
				t.Fatalf("the file was touched: %v", err)
			}
		})
	}
}

func TestForeignNamesAreIgnored(t *testing.T) {
	im := newImage(t, 9)
	for _, name := range []string{"README", "1", "0000000x", "00000002.bak", ".00000003", "00000001.damaged"} {
		w, _ := im.with(t, 1, name, []byte("something else"))
		if err := w.settle(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(w.files(t, name)) == 0 {
			t.Errorf("%s is gone", name)
		}
	}
}
