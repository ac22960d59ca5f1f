package block

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"

	"github.com/rwsink/rwsink/internal/vfs"
)

// bothForms writes an index of n series and returns it plain, as Prometheus's library writes it, and packed.
func bothForms(t testing.TB, n int) (plain, packed []byte) {
	t.Helper()
	list := make([]libSeries, n)
	for i := range list {
		ls := labels.FromStrings("__name__", "m", "instance", fmt.Sprintf("host-%03d", i/100), "job", fmt.Sprint("j", i/7000), "n", fmt.Sprintf("%06d", i))
		list[i] = libSeries{ls, []chunks.Meta{{Ref: chunks.ChunkRef(8 + 50*i), MinTime: 1000, MaxTime: 2000}}}
	}
	return byLibrary(t, list), byUs(t, NewBuffers(), list)
}

// ranged returns a range of a packed index, or the error of its panic.
func ranged(p *packedIndex, start, end int) (b []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(pageFault).err
		}
	}()
	return p.Range(start, end), nil
}

// TestPackedIsThePlainIndex reads ranges of both forms from many goroutines, with
// room for few of the pages.
func TestPackedIsThePlainIndex(t *testing.T) {
	plain, file := bothForms(t, 12_000)
	if 2*len(file) > len(plain) {
		t.Errorf("%d bytes packed, %d plain", len(file), len(plain))
	}
	const most = 5*packedPage + 10
	pages := NewPages(most)
	p, err := openPacked("index", file, pages)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.packed) < 20 || p.Len() != len(plain) {
		t.Fatalf("%d pages, %d bytes, want %d", len(p.packed), p.Len(), len(plain))
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for k := range 3000 {
				start := rng.IntN(len(plain))
				end := min(len(plain), start+rng.IntN(1+200<<rng.IntN(10)))
				if k%10 == 0 { // across the bounds of parts
					at := []int64{p.series, p.postings, p.table, p.end}[rng.IntN(4)]
					start, end = max(1, int(at)-rng.IntN(40)), min(len(plain), int(at)+rng.IntN(40))
				}
				if got := p.Range(start, end); !bytes.Equal(got, plain[start:end]) {
					t.Errorf("range %d to %d differs", start, end)
					return
				}
			}
		})
	}
	all.Wait()
	held := int64(0)
	for i := range p.packed {
		if q := p.packed[i].held.Load(); q != nil {
			held += int64(len(q.data))
		}
	}
	if held != pages.Bytes() || held > most || held < most/2 {
		t.Errorf("%d bytes of pages found, %d held, at most %d", held, pages.Bytes(), most)
	}
}

// TestPagesInTurn: with less room than the index needs, a reader that goes through
// it unpacks each page once a round, and one that is looked at all the time stays.
func TestPagesInTurn(t *testing.T) {
	_, file := bothForms(t, 12_000)
	for _, room := range []int64{3, 4, 10} {
		p, err := openPacked("index", file, NewPages(room*packedPage))
		if err != nil {
			t.Fatal(err)
		}
		often := int(p.page(p.series + 2*packedPage))
		for round := range 4 {
			unpacked, again := 0, 0
			for off := int(p.series); off < int(p.postings)-64; off += 64 {
				for _, at := range []int{off, int(p.series) + 2*packedPage} {
					switch i := p.page(int64(at)); {
					case p.packed[i].held.Load() != nil:
					case int(i) == often:
						again++
					default:
						unpacked++
					}
					p.Range(at, at+5)
				}
			}
			if most := int(p.seriesPages()); unpacked > most || again > 1 || round > 0 && again > 0 {
				t.Errorf("room for %d, round %d: %d unpacked of %d, one of them %d times again", room, round, unpacked, most, again)
			}
		}
	}
}

// TestHeldPageIsFoundForFree: what is at hand costs no allocation.
func TestHeldPageIsFoundForFree(t *testing.T) {
	_, file := bothForms(t, 1000)
	p, err := openPacked("index", file, NewPages(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	at := int(p.series)
	if n := testing.AllocsPerRun(100, func() { p.Range(at, at+50) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDamagedPage flips bytes of a page: it is named with its place, and the
// others can be read.
func TestDamagedPage(t *testing.T) {
	plain, file := bothForms(t, 12_000)
	sound, err := openPacked("index", file, NewPages(0))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		i := rng.IntN(len(sound.packed))
		row := &sound.packed[i]
		flipped := bytes.Clone(file)
		flipped[row.offset+rng.Int64N(int64(row.size))] ^= 1 << rng.IntN(8)
		p, err := openPacked("index", flipped, NewPages(0))
		if err != nil {
			t.Fatal(err)
		}
		for k := range p.packed {
			from, to, _ := p.bounds(int64(k))
			got, err := ranged(p, int(from), int(to))
			var corrupt *vfs.CorruptError
			switch {
			case k == i && (!errors.As(err, &corrupt) || corrupt.Path != "index" || corrupt.Offset != row.offset):
				t.Fatalf("page %d: %v", k, err)
			case k != i && (err != nil || !bytes.Equal(got, plain[from:to])):
				t.Fatalf("page %d beside page %d: %v", k, i, err)
			}
		}
	}
}

// resum corrects the checksum of the table of a packed index.
func resum(file []byte) []byte {
	if foot := len(file) - packedFootLen; foot >= 0 {
		table := foot - int(min(uint64(foot), uint64(binary.BigEndian.Uint32(file[foot+32:]))*packedRowLen))
		end := len(file) - crc32.Size
		binary.BigEndian.PutUint32(file[end:], crc32.Checksum(file[table:end], castagnoli))
	}
	return file
}

// TestHostileFooter claims lengths that the file does not have, with the right checksum.
func TestHostileFooter(t *testing.T) {
	_, file := bothForms(t, 1000)
	foot := len(file) - packedFootLen
	for field := range 4 {
		for _, n := range []uint64{0, 1, 1 << 31, 1 << 40, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
			bad := bytes.Clone(file)
			binary.BigEndian.PutUint64(bad[foot+8*field:], n)
			if _, err := openPacked("index", resum(bad), NewPages(0)); err == nil {
				t.Errorf("field %d as %d: opened", field, n)
			}
		}
	}
	for _, n := range []uint32{0, 1, 1 << 20, 1<<32 - 1} {
		bad := bytes.Clone(file)
		binary.BigEndian.PutUint32(bad[foot+32:], n)
		if _, err := openPacked("index", resum(bad), NewPages(0)); err == nil {
			t.Errorf("%d pages: opened", n)
		}
	}
}

// TestPageThatUnpacksToMore: a page of a gigabyte, with the right checksum, takes no more memory than a page.
func TestPageThatUnpacksToMore(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := enc.EncodeAll(make([]byte, 256<<20), nil)
	_, file := bothForms(t, 10)
	p, err := openPacked("index", file, NewPages(0))
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	p.file = append(bytes.Clone(file), bomb...)
	row := &p.packed[0]
	row.offset, row.size, row.crc = int64(len(file)), uint32(len(bomb)), crc32.Checksum(bomb, castagnoli)
	runtime.ReadMemStats(&before)
	_, err = p.unpack(0)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; err == nil || grown > 4<<20 {
		t.Errorf("%v, %d bytes allocated", err, grown)
	}
}

// readPlain reads every so-manieth series of an index through Prometheus's reader.
func readPlain(b index.ByteSlice, every int) error {
	r, err := index.NewReader(b, index.DecodePostingsRaw)
	if err != nil {
		return err
	}
	name, value := index.AllPostingsKey()
	all, err := r.Postings(context.Background(), name, value)
	if err != nil {
		return err
	}
	var builder labels.ScratchBuilder
	var metas []chunks.Meta
	for i := 0; all.Next(); i++ {
		if i%every != 0 {
			continue
		}
		if err := r.Series(storage.SeriesRef(all.At()), &builder, &metas); err != nil {
			return err
		}
	}
	return all.Err()
}

// TestReaderNeedsNoMoreThanSymbols holds the library to what Range gives it for
// the whole index.
func TestReaderNeedsNoMoreThanSymbols(t *testing.T) {
	_, file := bothForms(t, 1000)
	p, err := openPacked("index", file, NewPages(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if err := readPlain(p, 1); err != nil {
		t.Fatal(err)
	}
}

// FuzzPacked opens anything, with the checksum of the table made right, and reads
// all pages of it: an error, or bytes, and nothing else.
func FuzzPacked(f *testing.F) {
	_, small := bothForms(f, 5)
	_, large := bothForms(f, 600)
	f.Add(small)
	f.Add(large)
	f.Add([]byte{})
	f.Add(make([]byte, packedHeadLen+packedFootLen))
	pages := NewPages(1 << 20)
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, b := range [][]byte{file, resum(bytes.Clone(file))} {
			p, err := openPacked("index", b, pages)
			var corrupt *vfs.CorruptError
			if err != nil {
				if !errors.As(err, &corrupt) {
					t.Fatal(err)
				}
				continue
			}
			if len(p.packed)*packedRowLen > len(b) || p.place(p.end) > int64(len(b)) {
				t.Fatalf("%d pages, the end at %d, of %d bytes", len(p.packed), p.place(p.end), len(b))
			}
			for i := range p.packed {
				from, to, _ := p.bounds(int64(i))
				if got, err := ranged(p, int(from), int(to)); err == nil && int64(len(got)) != to-from || err != nil && !errors.As(err, &corrupt) {
					t.Fatalf("page %d: %d bytes, %v", i, len(got), err)
				}
			}
			if _, err := ranged(p, -1, 5); err == nil {
				t.Fatal("a range before the start")
			}
			if _, err := ranged(p, 1, p.Len()+1); err == nil {
				t.Fatal("a range behind the end")
			}
		}
	})
}

// BenchmarkIndex finds 200 series all over an index of 100,000, and reads all of
// it, plain, packed with no page at hand, and packed with all of them.
func BenchmarkIndex(b *testing.B) {
	plain, file := bothForms(b, 100_000)
	b.Logf("%d bytes plain, %d packed", len(plain), len(file))
	held := NewPages(64 << 20)
	warm, err := openPacked("index", file, held)
	if err != nil {
		b.Fatal(err)
	}
	for _, form := range []struct {
		name string
		open func() index.ByteSlice
	}{
		{"plain", func() index.ByteSlice { return byteSlice(plain) }},
		{"cold", func() index.ByteSlice {
			p, err := openPacked("index", file, held)
			if err != nil {
				b.Fatal(err)
			}
			return p
		}},
		{"held", func() index.ByteSlice { return warm }},
	} {
		for _, every := range []int{500, 1} {
			b.Run(fmt.Sprint(form.name, "/", 100_000/every), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := readPlain(form.open(), every); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
