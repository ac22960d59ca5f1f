package load

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/golang/snappy"
	"golang.org/x/sys/unix"
)

// Body is one request, compressed.
type Body struct {
	Data    []byte // lives until the Set is closed
	Raw     int    // bytes when decompressed
	Samples int    // floats or histograms
	Newest  int64  // time of the newest sample
}

// Set is a load ready to be sent.
type Set struct {
	Spec
	Clients   [][]Body // in the order of sending
	Late, Far float64  // shares of the samples, as they came out
	Bytes     int64    // of all bodies
	Raw       int64    // of all bodies when decompressed

	arenas []arena
}

// Prepare makes the bodies of spec, all clients at once.
func Prepare(ctx context.Context, spec Spec) (*Set, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	set := &Set{Spec: spec, Clients: make([][]Body, spec.Clients), arenas: make([]arena, spec.Clients)}
	late, far := make([]int, spec.Clients), make([]int, spec.Clients)
	errs := make([]error, spec.Clients)
	var wg sync.WaitGroup
	for c := range spec.Clients {
		wg.Go(func() {
			var items []item
			items, late[c], far[c] = set.Spec.order(c)
			set.Clients[c], errs[c] = set.Spec.bodies(ctx, items, &set.arenas[c])
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	if ctx.Err() != nil {
		err = ctx.Err() // once, and not of every client
	}
	if err != nil {
		set.Close()
		return nil, fmt.Errorf("load: %w", err)
	}
	for c, bodies := range set.Clients {
		set.Late += float64(late[c]) / float64(spec.Total())
		set.Far += float64(far[c]) / float64(spec.Total())
		for _, b := range bodies {
			set.Bytes += int64(len(b.Data))
			set.Raw += int64(b.Raw)
		}
	}
	return set, nil
}

// Requests is the number of bodies.
func (s *Set) Requests() int {
	n := 0
	for _, bodies := range s.Clients {
		n += len(bodies)
	}
	return n
}

// Close gives the memory of the bodies back.
func (s *Set) Close() {
	for i := range s.arenas {
		s.arenas[i].free()
	}
	s.Clients = nil
}

// bodies makes the requests of one client.
func (s *Spec) bodies(ctx context.Context, items []item, mem *arena) ([]Body, error) {
	var enc encoder = newEncoder1(s)
	if s.Protocol == 2 {
		enc = newEncoder2(s)
	}
	var out []Body
	for len(items) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		of := items[:min(s.Request, len(items))]
		items = items[len(of):]
		enc.begin()
		body := Body{Samples: len(of)}
		for len(of) > 0 {
			n := s.entryLen(of)
			enc.entry(of[:n])
			for _, it := range of[:n] {
				body.Newest = max(body.Newest, s.Time(int(it.i), int(it.k)))
			}
			of = of[n:]
		}
		raw := enc.finish()
		room, err := mem.room(snappy.MaxEncodedLen(len(raw)))
		if err != nil {
			return nil, err
		}
		body.Raw, body.Data = len(raw), snappy.Encode(room, raw)
		mem.take(len(body.Data))
		out = append(out, body)
	}
	return out, nil
}

// entryLen is how many of the items one entry takes: samples of one series, in
// order of time, at most Entry.
func (s *Spec) entryLen(items []item) int {
	first := items[0]
	gen := s.Successor(int(first.i), int(first.k))
	n := 1
	for n < min(s.Entry, len(items)) {
		it := items[n]
		if it.i != first.i || it.k <= items[n-1].k || s.Successor(int(it.i), int(it.k)) != gen {
			break
		}
		n++
	}
	return n
}

// arena is memory outside of the heap, in pieces: bodies are hundreds of MB that
// the collector need not walk while the clock runs.
type arena struct {
	pieces [][]byte
	rest   []byte // of the last piece
}

const pieceSize = 16 << 20

// room returns n bytes of which take may keep the first.
func (a *arena) room(n int) ([]byte, error) {
	if len(a.rest) < n {
		p, err := unix.Mmap(-1, 0, max(n, pieceSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return nil, fmt.Errorf("map %d bytes: %w", max(n, pieceSize), err)
		}
		a.pieces, a.rest = append(a.pieces, p), p
	}
	return a.rest[:n:n], nil
}

func (a *arena) take(n int) { a.rest = a.rest[n:] }

func (a *arena) free() {
	for _, p := range a.pieces {
		_ = unix.Munmap(p)
	}
	a.pieces, a.rest = nil, nil
}
