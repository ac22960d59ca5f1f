package receiver

import (
	"math/bits"

	"github.com/zeebo/xxh3"

	"github.com/rwsink/rwsink/head"
)

// Identity: a known series is recognised by how its labels stand on the wire.
//
// 1.0: the key is the 128-bit XXH3 hash of the label fields' bytes. Each field
// carries its length, so two label sequences never share bytes.
//
// 2.0: each symbol is hashed once a request (128-bit XXH3), and the key is
// combined from the hashes of the symbols that the label references name, in
// their order: independent of how a request numbers its symbols. Combining takes
// a label a round, in the manner of XXH3's rounds for middle lengths: each half
// of the key takes the folded product of one of the two hashes and the sum of
// the other, under secret numbers that depend on the round.
//
// Both are under the head's secret seed, or seeds derived from it, and the
// lowest bit of a key tells the two kinds apart.

// key1 returns the key of a 1.0 series whose label fields are ident.
func key1(ident []byte, seed uint64) head.Key {
	h := xxh3.Hash128Seed(ident, seed)
	return head.Key{Hi: h.Hi, Lo: h.Lo &^ 1}
}

// ringRounds is how many rounds have secret numbers of their own; then the state
// is scrambled and they are used again.
const ringRounds = 64

// ring are the secret numbers of 2.0.
type ring struct {
	seed    uint64 // the head's
	symbols uint64 // seed of the symbols' hashes
	start   head.Key
	rounds  [ringRounds][4]uint64
}

// init derives the numbers from seed, unless they are there.
func (r *ring) init(seed uint64) {
	if r.seed == seed && r.symbols != 0 {
		return
	}
	r.seed = seed
	state := seed
	next := func() uint64 { // splitmix64 (Steele, Lea and Flood, 2014)
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	r.symbols = next() | 1
	r.start = head.Key{Hi: next(), Lo: next()}
	for i := range r.rounds {
		r.rounds[i] = [4]uint64{next(), next(), next(), next()}
	}
}

// symbolHash returns the hash of a symbol.
func (r *ring) symbolHash(symbol []byte) head.Key {
	h := xxh3.Hash128Seed(symbol, r.symbols)
	return head.Key{Hi: h.Hi, Lo: h.Lo}
}

// key2 returns the key of a 2.0 series whose labels are refs, an even number of
// references in range of hashes.
func (r *ring) key2(refs []uint32, hashes []head.Key) head.Key {
	hi, lo := r.start.Hi, r.start.Lo^uint64(len(refs))
	for {
		rounds := r.rounds[:min(len(refs)/2, ringRounds)]
		for i := range rounds {
			k := &rounds[i]
			name, value := &hashes[refs[2*i]], &hashes[refs[2*i+1]]
			lo = lo + fold(name.Hi^k[0], name.Lo^k[1]) ^ (value.Hi + value.Lo)
			hi = hi + fold(value.Hi^k[2], value.Lo^k[3]) ^ (name.Hi + name.Lo)
		}
		if refs = refs[2*len(rounds):]; len(refs) < 2 {
			break
		}
		hi, lo = scramble(lo), scramble(hi)
	}
	hi, lo = scramble(hi+lo*0x9fb21c651e98df25), scramble(lo+bits.RotateLeft64(hi, 32))
	return head.Key{Hi: hi, Lo: lo | 1}
}

// fold returns the two halves of a product, folded.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// scramble is the finaliser of MurmurHash3, a permutation.
func scramble(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
