package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/s2"

	"github.com/rwsink/rwsink/bench/load"
)

// The floor, step by step; each step includes those before it but for the first
// three, which are alternatives. Bodies are taken as they would arrive, the clients
// by turns; the time is that of the thread.
//
//  1. copying the compressed and the raw bytes: what touching them costs;
//  2. decompressing, with either library;
//  3. scanning the wire: labels stepped over (in 2.0 references decoded), samples read;
//  4. an xxh3 hash of 128 bits over the label bytes (in 2.0 one of 64 bits over each
//     symbol of a request, and a product of 128 bits for each pair of references);
//  5. finding the series by that hash in a table, and appending 16 bytes to its tail.
//
// Every series is known already. There is no log, no lock, no HTTP, no allocation.

// floorSteps are the names of the steps, in their order.
var floorSteps = []string{"copy, compressed", "copy, raw", "snappy, golang", "snappy, s2", "s2 + scan", "s2 + scan + xxh3", "s2 + scan + xxh3 + table + 16 B append"}

// floor are the processor seconds a million samples of each step, one figure a round.
type floor [][]float64

// least is the last step's median: the floor.
func (f floor) least() float64 { return figures(f[len(f)-1]).median() }

// measureFloor measures every step rounds times, the steps interleaved, on the
// CPU of servers.
func measureFloor(ctx context.Context, cpu int, set *load.Set, rounds int) (floor, error) {
	if set.Values == load.Histograms {
		return nil, errors.New("the floor is one of floats: histograms have none")
	}
	bodies := interleaved(set)
	largest, total := 0, set.Total()
	for _, b := range bodies {
		largest = max(largest, b.Raw, len(b.Data))
	}
	f := make(floor, len(floorSteps))
	err := on(cpu, func() error {
		w := newFloorWork(set, largest)
		for _, b := range bodies { // creates the series
			if err := w.step(len(floorSteps)-1, b); err != nil {
				return err
			}
		}
		for range rounds {
			for i := range f {
				start := threadCPU()
				for _, b := range bodies {
					if err := w.step(i, b); err != nil {
						return err
					}
				}
				f[i] = append(f[i], (threadCPU()-start)/float64(total)*1e6)
				if err := ctx.Err(); err != nil {
					return err
				}
			}
		}
		return w.check(set)
	})
	return f, err
}

// interleaved are the bodies of all clients by turns.
func interleaved(set *load.Set) []*load.Body {
	var out []*load.Body
	for i := 0; ; i++ {
		n := len(out)
		for _, bodies := range set.Clients {
			if i < len(bodies) {
				out = append(out, &bodies[i])
			}
		}
		if len(out) == n {
			return out
		}
	}
}

// floorWork is the memory that the steps work in.
type floorWork struct {
	protocol int
	raw      []byte
	table    hashTable
	samples  int // of the last body
	appended int
	scan2    scan2
}

func newFloorWork(set *load.Set, largest int) *floorWork {
	return &floorWork{protocol: set.Protocol, raw: make([]byte, largest), table: newHashTable(2 * set.Series)}
}

// step does step i with one body.
func (w *floorWork) step(i int, b *load.Body) (err error) {
	raw := w.raw[:b.Raw]
	switch i {
	case 0:
		copy(w.raw, b.Data)
		return nil
	case 1: // whatever bytes: the second half of the memory is as good as the body
		copy(w.raw[:b.Raw/2], w.raw[b.Raw/2:b.Raw])
		copy(w.raw[:b.Raw/2], w.raw[b.Raw/2:b.Raw])
		return nil
	case 2:
		_, err = snappy.Decode(raw, b.Data)
		return err
	}
	if _, err = s2.Decode(raw, b.Data); err != nil || i == 3 {
		return err
	}
	hash, table := i >= 5, (*hashTable)(nil)
	if i >= 6 {
		table = &w.table
	}
	n := 0
	if w.protocol == 2 {
		n, err = w.scan2.body(raw, hash, table)
	} else {
		n, err = scan1(raw, hash, table)
	}
	if err == nil && n != b.Samples {
		err = fmt.Errorf("the scan finds %d samples, want %d", n, b.Samples)
	}
	return err
}

// check makes sure that the work was done: every series has its samples.
func (w *floorWork) check(set *load.Set) error {
	if set.Churn == 0 && w.table.used != set.Series {
		return fmt.Errorf("the table holds %d series, want %d", w.table.used, set.Series)
	}
	return nil
}

// hashTable finds series by their hash: open addressing, linear probing, a power
// of two of slots of which at most half are used.
type hashTable struct {
	slots []slot
	tails []tail
	used  int
}

type slot struct {
	lo, hi uint64
	tail   uint32 // 1 more than the index; 0 is a free slot
}

// tailSamples is what a tail holds before it begins anew: enough that the tails of
// 100,000 series do not fit the caches, and no growth.
const tailSamples = 16

type tail struct {
	n       uint64
	samples [tailSamples][2]uint64
}

func newHashTable(series int) hashTable {
	n := 1
	for n < 2*series {
		n *= 2
	}
	return hashTable{slots: make([]slot, n), tails: make([]tail, series)}
}

// find returns the tail of a series, a new one if it has none.
func (t *hashTable) find(lo, hi uint64) *tail {
	mask := uint64(len(t.slots) - 1)
	for i := lo & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.lo == lo && s.hi == hi && s.tail != 0 {
			return &t.tails[s.tail-1]
		}
		if s.tail == 0 {
			t.used++
			*s = slot{lo, hi, uint32(t.used)}
			return &t.tails[s.tail-1]
		}
	}
}

func (t *tail) append(ts, bits uint64) {
	t.samples[t.n%tailSamples] = [2]uint64{ts, bits}
	t.n++
}

var errFloorWire = errors.New("the floor reads only what the generator writes, and this is something else")

// readSample reads the message of a sample that begins at p.
func readSample(b []byte, p, end int) (ts, bits uint64, ok bool) {
	if p+9 <= end && b[p] == 1<<3|1 {
		bits = binary.LittleEndian.Uint64(b[p+1:])
		p += 9
	}
	if p >= end || b[p] != 2<<3 {
		return 0, 0, false
	}
	ts, n := binary.Uvarint(b[p+1 : end])
	return ts, bits, n > 0 && p+1+n == end
}

// field reads tag and length at p; what has the length lies from from to end.
func field(b []byte, p int) (tag byte, from, end int, ok bool) {
	if p+2 > len(b) {
		return 0, 0, 0, false
	}
	tag, n, from := b[p], int(b[p+1]), p+2
	if n >= 0x80 {
		v, k := binary.Uvarint(b[p+1:])
		if k <= 0 || v > uint64(len(b)) {
			return 0, 0, 0, false
		}
		n, from = int(v), p+1+k
	}
	return tag, from, from + n, from+n <= len(b)
}

// Floor prints the floor of both protocols over the same series and samples, and
// the sink beside it, in Markdown.
func Floor(ctx context.Context, o TrialOptions, out io.Writer) error {
	e, err := newEnv(o)
	if err != nil {
		return err
	}
	defer e.close()
	t := table{head: []string{"step, CPU s a M samples", "1.0", "2.0"}}
	cells := map[string][]string{}
	bytes := []string{"bytes a sample, compressed / raw"}
	var sums []string
	for _, protocol := range []int{1, 2} {
		spec := o.Spec
		spec.Protocol = protocol
		sets, err := e.sets(ctx, across, spec)
		if err != nil {
			return err
		}
		set := sets[0]
		u, f, err := e.unit(ctx, set, o.Rounds)
		set.Close()
		if err != nil {
			return err
		}
		for i, name := range floorSteps {
			cells[name] = append(cells[name], figures(f[i]).spread("%.4f"))
		}
		cells[sinkRow] = append(cells[sinkRow], u.sink.spread("%.4f"))
		total := float64(set.Total())
		bytes = append(bytes, fmt.Sprintf("%.1f / %.1f", float64(set.Bytes)/total, float64(set.Raw)/total))
		sums = append(sums, fmt.Sprintf("%.4f", u.value()))
	}
	t.add(bytes...)
	for _, name := range append(slices.Clone(floorSteps), sinkRow) {
		t.add(append([]string{name}, cells[name]...)...)
	}
	t.add(append([]string{"last step + HTTP sink"}, sums...)...)
	fmt.Fprintf(out, "%s.\nFloor: %d series x %d samples, %d samples a request, medians of %d rounds (range).\n\n", machine(), o.Spec.Series, o.Spec.Samples, o.Spec.Request, o.Rounds)
	t.print(out)
	return nil
}

const sinkRow = "HTTP sink"
