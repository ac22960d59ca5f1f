package head

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
)

// TestKeyTable adds, sweeps and looks up at random, keys that collide as well
// as keys that do not, and compares the table with a map.
func TestKeyTable(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(3, seed))
		width := uint64(1) << (4 + 10*(seed%3)) // of what keys are made of: few, some, many
		newKey := func() Key { return Key{Hi: rng.Uint64N(width), Lo: rng.Uint64N(width)} }
		table, model := newKeyTable(), map[Key]*Series{}
		for range 40_000 {
			switch k := newKey(); rng.IntN(200) {
			case 0: // some go
				for _, s := range model {
					s.gone = s != droppedSeries && rng.IntN(4) == 0
				}
				table.sweep()
				for k, s := range model {
					if s.gone {
						delete(model, k)
					}
				}
			default:
				if model[k] == nil && rng.IntN(2) == 0 {
					s := &Series{}
					if rng.IntN(8) == 0 {
						s = droppedSeries
					}
					model[k] = s
					table.add(k, s)
				}
			}
		}
		var keys []Key
		for k := range model {
			keys = append(keys, k, newKey())
		}
		out := make([]*Series, len(keys))
		table.findAll(keys, out)
		for i, k := range keys {
			if s := table.find(k); s != model[k] || out[i] != s {
				t.Fatalf("seed %d: %v is %p, at once %p, want %p", seed, k, s, out[i], model[k])
			}
		}
		for i := range table.shards {
			sh := table.shards[i].Load()
			if fullDen*sh.used > fullNum*len(sh.slots) {
				t.Errorf("seed %d: %d of %d slots are filled", seed, sh.used, len(sh.slots))
			}
		}
	}
}

// TestKeyTableWhileItGrows has readers look for what is there already while
// others are added and taken out: what stays is always found, as itself.
func TestKeyTableWhileItGrows(t *testing.T) {
	const n = 30_000
	table, list := newKeyTable(), make([]*Series, n)
	keyOf := func(i int) Key { return Key{Hi: uint64(i) * golden, Lo: uint64(i)} }
	for i := range list {
		list[i] = &Series{ref: uint64(i)}
	}
	var added atomic.Int64
	var wait sync.WaitGroup
	for w := range 3 {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(w)))
			keys, want, out := make([]Key, 100), make([]int, 100), make([]*Series, 100)
			for most := 0; most < n; {
				if most = int(added.Load()); most == 0 {
					continue
				}
				for i := range keys {
					want[i] = rng.IntN(most)
					keys[i] = keyOf(want[i])
				}
				table.findAll(keys, out)
				for i, s := range out {
					if s != list[want[i]] && want[i]%3 != 0 {
						t.Errorf("%d is %v", want[i], s)
						return
					}
				}
			}
		})
	}
	for i, s := range list {
		table.add(keyOf(i), s)
		added.Store(int64(i + 1))
		if i%5000 == 4999 {
			for j := 0; j < i; j += 3 {
				list[j].gone = true
			}
			table.sweep()
		}
	}
	wait.Wait()
}

// TestLabelTable compares the table with a map, under hashes of all lengths.
func TestLabelTable(t *testing.T) {
	for _, mask := range []uint32{0, 0xff, 0xffffffff} {
		rng := rand.New(rand.NewPCG(5, uint64(mask)))
		var table labelTable
		model := map[string]*Series{}
		hash := func(ls labels.Labels) uint32 { return uint32(ls.Hash()) & mask }
		for range 3000 {
			name := fmt.Sprint(rng.IntN(400))
			ls := labels.FromStrings("n", name)
			if got := table.find(hash(ls), ls); got != model[name] {
				t.Fatalf("mask %x: %q is %p, want %p", mask, name, got, model[name])
			}
			switch {
			case model[name] == nil:
				s := &Series{labels: ls, hash: hash(ls)}
				model[name] = s
				table.add(s)
			case rng.IntN(50) == 0:
				model[name].gone = true
				delete(model, name)
				table.sweep()
			}
		}
		n := 0
		table.each(func(s *Series) {
			if n++; model[s.labels.Get("n")] != s {
				t.Errorf("mask %x: %v is listed", mask, s.labels)
			}
		})
		if n != len(model) {
			t.Errorf("mask %x: %d series listed, want %d", mask, n, len(model))
		}
	}
}

// TestSeriesIsOneCacheLine keeps what the committer touches for every sample together.
func TestSeriesIsOneCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(Series{}); n != 64 {
		t.Errorf("a series takes %d bytes", n)
	}
}
