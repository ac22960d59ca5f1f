package store_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	mathbits "math/bits"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/proc"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

const (
	backfillDays = 30
	backfillStep = 15_000 // ms
	// backfillMemory is the default. It holds all of 200 series, and a part of 2,000: each flush is a
	// sparse draw of the times of a range then, whose steps take more than those of all its times.
	backfillMemory = 256 << 20
	// backfillWritten is how many bytes may be written for each that is stored in the end.
	backfillWritten = 8
)

// A backfill is counters of many days, all of them long over, in order of time
// or in random order. Nothing of it is in memory: sample i is computed.
type backfill struct {
	series   int64
	shuffled bool
}

func (f backfill) samples() int64 { return f.series * backfillDays * 24 * 3600 * 1000 / backfillStep }

// at returns the i-th sample to be written.
func (f backfill) at(i int64) (series int, t int64, v float64) {
	if f.shuffled {
		i = permuted(i, f.samples())
	}
	step, k := i/f.series, i%f.series
	jitter := mixed(uint64(step)) % 20
	return int(k), step*backfillStep + int64(jitter), float64(25*step + int64(mixed(uint64(i))%25))
}

// permuted returns where i goes in a permutation of [0, n): a Feistel network
// over the next power of four, walked until it is below n.
func permuted(i, n int64) int64 {
	half := (mathbits.Len64(uint64(n)) + 1) / 2
	mask := uint64(1)<<half - 1
	for {
		l, r := uint64(i)>>half, uint64(i)&mask
		for round := range uint64(4) {
			l, r = r, l^mixed(r+round<<60)&mask
		}
		if i = int64(l<<half | r); i < n {
			return i
		}
	}
}

// mixed is a hash of x (splitmix64).
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// write writes the backfill to a store, or only computes it when s is nil.
func (f backfill) write(b *testing.B, s *store.Store) {
	const batch = 2000
	if s == nil {
		sum := 0.0
		for i := range f.samples() {
			_, _, v := f.at(i)
			sum += v
		}
		if sum == 0 {
			b.Fatal("nothing")
		}
		return
	}
	var series []*head.Series
	for i := range int(f.series) {
		series = append(series, resolve(b, s.Head(), i))
	}
	for i := int64(0); i < f.samples(); {
		c := s.Head().NewBatch()
		n := 0
		for ; n < batch && i < f.samples(); n++ {
			k, t, v := f.at(i)
			c.Float(series[k], t, 0, v)
			i++
		}
		if res, err := s.Head().Commit(context.Background(), c); err != nil || res.Samples != n {
			b.Fatalf("commit: %+v, %v", res, err)
		}
		c.Release()
	}
}

// backfilled is what a backfill cost.
type backfilled struct {
	cpu     time.Duration
	memory  []memoryAt
	written float64 // bytes a byte stored
	bytes   int64
	blocks  int
}

// memoryAt is the memory at one second, in bytes.
type memoryAt struct{ resident, cold int64 }

// run writes the backfill with the maintenance running, to the end of the merges.
func (f backfill) run(b *testing.B) (out backfilled) {
	now := time.UnixMilli((backfillDays*24 + 30) * 3600 * 1000)
	o := store.Options{Path: filepath.Join(b.TempDir(), "data"), Sync: wal.SyncNever, Head: head.Options{
		Limits: head.Limits{ColdBytes: backfillMemory},
		Accept: head.Accept{Window: -1, TrustClock: true, Now: func() time.Time { return now }},
	}}
	begun := proc.CPUTime()
	f.write(b, nil)
	computing := proc.CPUTime() - begun
	debug.FreeOSMemory()
	s, err := store.Open(o)
	if err == nil {
		err = s.Replay(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			out.memory = append(out.memory, memoryAt{proc.Resident(), s.Head().ColdBytes()})
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	begun = proc.CPUTime()
	f.write(b, s)
	if err := s.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	out.cpu = proc.CPUTime() - begun - computing
	close(stop)
	<-stopped
	for _, dir := range s.BlockDirs() {
		open, err := block.Open(dir, block.NewPages(1<<20))
		if err != nil {
			b.Fatal(err)
		}
		out.bytes += open.Size()
		open.Release()
	}
	out.blocks, out.written = len(s.BlockDirs()), s.Written()/float64(out.bytes)
	noOverlap(b, s)
	closeStore(b, s)
	return out
}

// noOverlap checks that no two blocks overlap.
func noOverlap(b *testing.B, s *store.Store) {
	var ranges [][2]int64
	for _, r := range s.BlockRanges() {
		ranges = append(ranges, r)
	}
	slices.SortFunc(ranges, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	for i := 1; i < len(ranges); i++ {
		if ranges[i][0] <= ranges[i-1][1] {
			b.Errorf("blocks overlap: %v, %v", ranges[i-1], ranges[i])
		}
	}
}

func (r *backfilled) peak() (most int64) {
	for _, m := range r.memory {
		most = max(most, m.resident)
	}
	return most
}

// BenchmarkBackfill writes 200 series (2,000 with RWSINK_SOAK) of 30 days, 15 s
// apart and long over, in order and in random order of time, to the end of the
// merges, and tells what random order costs. BACKFILL_PLOT names a file for the
// memory over time, as SVG.
func BenchmarkBackfill(b *testing.B) {
	series := int64(200)
	if os.Getenv("RWSINK_SOAK") != "" {
		series = 2000
	}
	for b.Loop() {
		inOrder := backfill{series, false}.run(b)
		random := backfill{series, true}.run(b)
		n := float64(backfill{series: series}.samples())
		for _, r := range []struct {
			name string
			backfilled
		}{{"in-order", inOrder}, {"random", random}} {
			b.ReportMetric(float64(r.cpu.Nanoseconds())/n, r.name+"-cpu-ns/sample")
			b.ReportMetric(float64(r.bytes)/n, r.name+"-B/sample")
			b.ReportMetric(r.written, r.name+"-written/stored")
			b.ReportMetric(float64(r.peak())/(1<<20), r.name+"-peak-MiB")
			b.ReportMetric(float64(r.blocks), r.name+"-blocks")
			if r.written > backfillWritten {
				b.Errorf("%s: %.1f bytes written a byte stored, want at most %d", r.name, r.written, backfillWritten)
			}
		}
		b.ReportMetric(random.cpu.Seconds()/inOrder.cpu.Seconds(), "random/in-order-cpu")
		if name := os.Getenv("BACKFILL_PLOT"); name != "" {
			if err := os.WriteFile(name, plotMemory(inOrder.memory, random.memory), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// plotMemory draws memory over time: MiB over seconds.
func plotMemory(inOrder, random []memoryAt) []byte {
	const width, height, left, bottom = 720, 320, 50, 30
	seconds := max(len(inOrder), len(random), 2) - 1
	most := int64(0)
	for _, m := range slices.Concat(inOrder, random) {
		most = max(most, m.resident)
	}
	mib := (most>>20/100 + 1) * 100
	x := func(s int) float64 { return left + float64(s)*(width-left-10)/float64(seconds) }
	y := func(bytes int64) float64 {
		return height - bottom - float64(bytes)/float64(mib<<20)*(height-bottom-10)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for m := int64(0); m <= mib; m += max(100, mib/5/100*100) {
		fmt.Fprintf(&out, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="5" y="%.1f">%d</text>`+"\n", left, y(m<<20), width-10, y(m<<20)+4, m)
	}
	for s := 0; s <= seconds; s += max(1, seconds/8) {
		fmt.Fprintf(&out, `<text x="%.1f" y="%d">%d s</text>`+"\n", x(s), height-10, s)
	}
	line := func(row int, colour, name string, n int, at func(i int) int64) {
		var points []string
		for i := range n {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(at(i))))
		}
		fmt.Fprintf(&out, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`+"\n", colour, strings.Join(points, " "))
		fmt.Fprintf(&out, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", left+8, 22+16*row, colour, name)
	}
	line(0, "#c33", "resident, random order (MiB)", len(random), func(i int) int64 { return random[i].resident })
	line(1, "#36c", "resident, in order", len(inOrder), func(i int) int64 { return inOrder[i].resident })
	line(2, "#999", "samples of long ago, random order", len(random), func(i int) int64 { return random[i].cold })
	line(3, "#393", "--storage.head-memory", seconds+1, func(int) int64 { return backfillMemory })
	out.WriteString("</svg>\n")
	return out.Bytes()
}
