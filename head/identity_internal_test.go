package head

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

// numbered returns labels of a numbered series, in a random order.
func numbered(rng *rand.Rand, i int) []Label {
	out := []Label{
		{[]byte(labels.MetricName), []byte("m")}, {[]byte("i"), fmt.Append(nil, i)}, {[]byte("mod"), fmt.Append(nil, i%7)},
	}
	rng.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out
}

// TestShortHashes makes hashes of 8 bits, of wire forms and of labels alike:
// thousands of series are never mixed up, by 16 goroutines at once.
func TestShortHashes(t *testing.T) {
	const series, writers = 3000, 16
	h, _ := testHead(t, Options{})
	h.identity.hashMask = 0xff
	got := make([][]*Series, writers)
	var wait sync.WaitGroup
	for w := range writers {
		got[w] = make([]*Series, series)
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			for _, i := range rng.Perm(series) {
				k := Key{Lo: uint64(i) & 0xff}
				s, _ := h.Lookup(k)
				if s == nil {
					var err error
					if s, _, err = h.Resolve(k, numbered(rng, i)); err != nil {
						t.Error(err)
						return
					}
				}
				got[w][i] = s
			}
		})
	}
	wait.Wait()
	if n := h.identity.count.Load(); n != series {
		t.Errorf("%d series, want %d", n, series)
	}
	refs := map[uint64]bool{}
	for i, s := range got[0] {
		if s.labels.Get("i") != fmt.Sprint(i) || refs[s.ref] || h.identity.byRef(s.ref) != s {
			t.Fatalf("series %d is %v", i, s.labels)
		}
		refs[s.ref] = true
		for w := range writers {
			if got[w][i] != s {
				t.Fatalf("series %d is two", i)
			}
		}
	}
	// The log brings them back under the references that it knows.
	other, _ := testHead(t, Options{})
	other.identity.hashMask = 0xff
	for _, s := range got[0] {
		for _, ref := range []uint64{s.ref, s.ref + 10_000} {
			if r := other.identity.restore(ref, s.labels); !labels.Equal(r.labels, s.labels) || other.identity.byRef(ref) != r {
				t.Fatalf("restored %v as %v", s.labels, r.labels)
			}
		}
	}
	s, _, err := other.Resolve(Key{}, []Label{{[]byte(labels.MetricName), []byte("new")}})
	if err != nil || s.ref != got[0][0].ref && refs[s.ref] || s.ref <= series {
		t.Errorf("a new series has the reference %d of another: %v", s.ref, err)
	}
}

// TestDroppedFormsAreBounded writes more dropped series than are remembered.
func TestDroppedFormsAreBounded(t *testing.T) {
	cfg := relabel.DefaultRelabelConfig
	cfg.Action, cfg.SourceLabels, cfg.Regex = relabel.Drop, model.LabelNames{"drop"}, relabel.MustNewRegexp("yes")
	h, _ := testHead(t, Options{Relabel: []*relabel.Config{&cfg}})
	one := Key{Lo: 1}
	kept, _, err := h.Resolve(one, []Label{{[]byte(labels.MetricName), []byte("m")}})
	if err != nil {
		t.Fatal(err)
	}
	wire := []Label{{[]byte(labels.MetricName), []byte("m")}, {[]byte("drop"), []byte("yes")}}
	shard := shardOf(one.mix())
	for i, n := uint64(2), 0; n < 3*maxDroppedKeys; i++ {
		k := Key{Lo: i}
		if shardOf(k.mix()) != shard {
			continue
		}
		n++
		if s, dropped, err := h.Resolve(k, wire); s != nil || !dropped || err != nil {
			t.Fatalf("got %v, %v, %v", s, dropped, err)
		}
		if s, dropped := h.Lookup(k); s != nil || !dropped {
			t.Fatal("what was dropped is not remembered")
		}
	}
	if n := h.identity.byKey.shards[shard].Load().used; n > maxDroppedKeys+1 {
		t.Errorf("%d wire forms are remembered", n)
	}
	if s, _ := h.Lookup(one); s != kept {
		t.Error("a series was forgotten with what is dropped")
	}
	if n := h.identity.count.Load(); n != 1 {
		t.Errorf("%d series", n)
	}
}
