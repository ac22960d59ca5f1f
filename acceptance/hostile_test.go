package acceptance

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/rwsink/rwsink/internal/built"
)

// place is somewhere in a body where something can be put: around returns the body
// with x at that place and everything else as it should be.
type place struct {
	name   string
	v      version
	around func(x []byte) []byte
}

// stored is what a body of the place holds beside x.
func (p place) stored(t int64) entry {
	e := series("m").at(t, 1)
	if strings.HasPrefix(p.name, "histogram") || strings.HasPrefix(p.name, "span") {
		e = e.hist(t+1, &histogram.Histogram{})
	}
	return e
}

// places are all message levels of both versions, each around the sample of "m" at t.
func places(t int64) []place {
	l, s := wireLabels("__name__", "m"), wireSample(t, 1)
	sym, refs := wireSymbols("", "__name__", "m"), wireRefs(1, 2)
	ts := uint64(t + 1)
	hist := func(x []byte) []byte { return cat(wireVarint(1, 0), x, wireVarint(15, ts)) }
	return []place{
		{"request 1.0", v1, func(x []byte) []byte { return cat(wireBytes(1, l, s), x) }},
		{"request 1.0, first", v1, func(x []byte) []byte { return cat(x, wireBytes(1, l, s)) }},
		{"series 1.0", v1, func(x []byte) []byte { return wireBytes(1, l, s, x) }},
		{"series 1.0, first", v1, func(x []byte) []byte { return wireBytes(1, x, l, s) }},
		{"label 1.0", v1, func(x []byte) []byte {
			return wireBytes(1, wireBytes(1, wireString(1, "__name__"), wireString(2, "m"), x), s)
		}},
		{"sample 1.0", v1, func(x []byte) []byte {
			return wireBytes(1, l, wireBytes(2, wireFixed64(1, math.Float64bits(1)), x, wireVarint(2, uint64(t))))
		}},
		{"exemplar 1.0", v1, func(x []byte) []byte {
			return wireBytes(1, l, s, wireBytes(3, wireFixed64(2, 1), wireVarint(3, uint64(t)), x))
		}},
		{"exemplar label 1.0", v1, func(x []byte) []byte {
			return wireBytes(1, l, s, wireBytes(3, wireBytes(1, wireString(1, "a"), wireString(2, "b"), x), wireVarint(3, uint64(t))))
		}},
		{"histogram 1.0", v1, func(x []byte) []byte { return wireBytes(1, l, s, wireBytes(4, hist(x))) }},
		{"span 1.0", v1, func(x []byte) []byte { return wireBytes(1, l, s, wireBytes(4, hist(wireBytes(11, x)))) }},
		{"metadata 1.0", v1, func(x []byte) []byte { return cat(wireBytes(3, wireString(2, "m"), x), wireBytes(1, l, s)) }},
		{"request 2.0", v2, func(x []byte) []byte { return cat(sym, x, wireBytes(5, refs, s)) }},
		{"series 2.0", v2, func(x []byte) []byte { return cat(sym, wireBytes(5, refs, s, x)) }},
		{"sample 2.0", v2, func(x []byte) []byte {
			return cat(sym, wireBytes(5, refs, wireBytes(2, wireFixed64(1, math.Float64bits(1)), x, wireVarint(2, uint64(t)))))
		}},
		{"histogram 2.0", v2, func(x []byte) []byte { return cat(sym, wireBytes(5, refs, s, wireBytes(3, hist(x)))) }},
		{"span 2.0", v2, func(x []byte) []byte { return cat(sym, wireBytes(5, refs, s, wireBytes(3, hist(wireBytes(8, x))))) }},
		{"exemplar 2.0", v2, func(x []byte) []byte {
			return cat(sym, wireBytes(5, refs, s, wireBytes(4, wireVarint(3, uint64(t)), x)))
		}},
		{"metadata 2.0", v2, func(x []byte) []byte { return cat(sym, wireBytes(5, refs, s, wireBytes(5, wireVarint(1, 1), x))) }},
	}
}

// A body that is broken at any place of any message is refused as a whole and quickly.
func TestBrokenWireAtEveryPlace(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	over := bytes.Repeat([]byte{0xff}, 20)
	broken := map[string][]byte{
		"claims one byte too many":  wireClaim(90, 4, []byte("abc")),
		"claims 2^31":               wireClaim(90, 1<<31, nil),
		"claims 2^32-1":             wireClaim(90, math.MaxUint32, nil),
		"claims 2^63-1":             wireClaim(90, math.MaxInt64, nil),
		"claims 2^63":               wireClaim(90, 1<<63, nil),
		"claims 2^64-1":             wireClaim(90, math.MaxUint64, nil),
		"claims 2^64-8":             wireClaim(90, math.MaxUint64-7, []byte("abcdefgh")),
		"length without end":        cat(wireTag(90, 2), over),
		"length cut":                cat(wireTag(90, 2), []byte{0x80}),
		"tag without end":           over,
		"tag cut":                   {0xff},
		"varint without end":        cat(wireTag(90, 0), over),
		"varint cut":                cat(wireTag(90, 0), []byte{0x80}),
		"varint of 11 bytes":        cat(wireTag(90, 0), bytes.Repeat([]byte{0x80}, 10), []byte{0}),
		"fixed64 cut":               wireFixed64(90, 1)[:9],
		"fixed32 cut":               cat(wireTag(90, 5), []byte{1, 2, 3}),
		"field 0":                   wireVarint(0, 1),
		"field 0 of bytes":          wireBytes(0, []byte("x")),
		"wire type 6":               cat(wireTag(90, 6), []byte{1}),
		"wire type 7":               cat(wireTag(90, 7), []byte{1}),
		"group without end":         wireTag(90, 3),
		"end without group":         wireTag(90, 4),
		"group ended by another":    cat(wireTag(90, 3), wireTag(91, 4)),
		"deep groups without end":   bytes.Repeat(wireTag(90, 3), 1_000_000),
		"field past 2^29":           cat(uvarint(1<<32|2), []byte{0}),
		"group with a broken field": cat(wireTag(90, 3), wireClaim(1, 100, nil), wireTag(90, 4)),
	}
	for i := range places(n) {
		for what, x := range broken {
			n += 2
			p := places(n)[i]
			if strings.HasPrefix(what, "deep") && i%6 != 0 {
				continue
			}
			body := p.around(x)
			a := s.send(t, packed(p.v, body))
			if _, err := wholeEntries(p.v, body); err == nil && a.status == http.StatusNoContent {
				t.Logf("%s in %s is taken by the library too", what, p.name)
				m.write(p.stored(n))
				continue
			}
			if a.status != http.StatusBadRequest {
				t.Errorf("%s in %s: %v", what, p.name, a)
			}
			a.wrote(t, p.v, 0, 0, 0)
		}
	}
	s.readBack(t, m)
}

// A field that no version knows is passed over at any place, of any type and size.
func TestUnknownFieldsArePassedOver(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	deep := cat(bytes.Repeat(wireTag(90, 3), 50), bytes.Repeat(wireTag(90, 4), 50))
	fields := map[string][]byte{
		"varint": wireVarint(90, math.MaxUint64), "fixed64": wireFixed64(90, 1), "fixed32": cat(wireTag(90, 5), []byte{1, 2, 3, 4}), "bytes": wireBytes(90, []byte("abc")),
		"empty bytes": wireBytes(90), "last field": wireVarint(1<<29-1, 1), "large": wireBytes(90, make([]byte, 100_000)), "many": bytes.Repeat(wireVarint(90, 1), 1000),
		"group": cat(wireTag(90, 3), wireVarint(1, 1), wireBytes(2, []byte("x")), wireTag(90, 4)), "empty group": cat(wireTag(90, 3), wireTag(90, 4)), "groups in groups": deep,
		"long form of a tag": cat([]byte{0xd0, 0x85, 0x80, 0x00}, []byte{1}),
	}
	for i := range places(n) {
		for what, x := range fields {
			n += 2 // an exemplar of its own time too
			p := places(n)[i]
			a := s.send(t, packed(p.v, p.around(x)))
			groups := strings.Contains(what, "group") || what == "long form of a tag"
			if a.status != http.StatusNoContent && !(groups && a.status == http.StatusBadRequest) {
				t.Errorf("%s in %s: %v", what, p.name, a)
			}
			if a.status == http.StatusNoContent {
				m.write(p.stored(n))
			}
		}
	}
	s.readBack(t, m)
}

// A known field of another wire type is not taken for what it is not.
func TestKnownFieldsOfWrongType(t *testing.T) {
	t.Parallel()
	s := start(t)
	n := nowMs() - hour
	for _, p := range places(n) {
		for field := 1; field <= 17; field++ {
			for typ, x := range map[string][]byte{"varint": wireVarint(field, 3), "fixed64": wireFixed64(field, 3), "bytes": wireBytes(field, []byte{1, 2}), "fixed32": cat(wireTag(field, 5), []byte{1, 2, 3, 4}), "group": cat(wireTag(field, 3), wireTag(field, 4))} {
				a := s.send(t, packed(p.v, p.around(x)))
				if a.status != http.StatusNoContent && a.status != http.StatusBadRequest {
					t.Errorf("field %d as %s in %s: %v", field, typ, p.name, a)
				}
			}
		}
	}
	for mode, r := range map[mode]result{samplesMode: s.readAll(t, samplesMode), streamedMode: s.readAll(t, streamedMode)} {
		if len(r) == 0 {
			t.Errorf("%v: nothing was stored", mode)
		}
	}
	s.crash(t)
	s.readBoth(t, query(math.MinInt64, math.MaxInt64, everything))
}

// References of 2.0 that point nowhere cost their series and no other.
func TestHostileReferences(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	sym, good := wireSymbols("", "__name__", "m", "a", "b"), wireBytes(5, wireRefs(1, 2), wireSample(n, 1))
	m.write(series("m").at(n, 1))
	for name, refs := range map[string][]byte{
		"one past the end": wireRefs(1, 5), "2^32-1": wireRefs(1, math.MaxUint32), "2^31": wireRefs(1, 1<<31), "2^63": wireRefs(1, 1<<63), "2^64-1": wireRefs(1, math.MaxUint64),
		"odd": wireRefs(1, 2, 3), "one": wireRefs(1), "none": wireRefs(), "name past the end": wireRefs(9, 2), "all past the end": wireRefs(9, 9, 9, 9),
		"name twice": wireRefs(1, 2, 1, 2), "label twice": wireRefs(1, 2, 3, 4, 3, 4), "empty name": wireRefs(1, 2, 0, 4), "no metric name": wireRefs(3, 4), "empty metric name": wireRefs(1, 0),
		"100000 refs": wireRefs(make([]uint64, 100_000)...), "unpacked, past the end": cat(wireVarint(1, 1), wireVarint(1, 99)),
	} {
		t.Run(name, func(t *testing.T) {
			a := s.survives(t, m, packed(v2, cat(sym, wireBytes(5, refs, wireSample(n, 9), wireSample(n+1, 9)), good)))
			a.is(t, http.StatusBadRequest).wrote(t, v2, 1, 0, 0)
		})
	}
	for name, body := range map[string][]byte{
		"symbols behind":      cat(good, sym),
		"symbols around":      cat(wireSymbols(""), good, wireSymbols("__name__", "m")),
		"unpacked":            cat(sym, wireBytes(5, wireVarint(1, 1), wireVarint(1, 2), wireSample(n, 1))),
		"packed in two":       cat(sym, wireBytes(5, wireRefs(1), wireSample(n, 1), wireRefs(2))),
		"mixed":               cat(sym, wireBytes(5, wireRefs(1), wireVarint(1, 2), wireSample(n, 1))),
		"refs behind":         cat(sym, wireBytes(5, wireSample(n, 1), wireRefs(1, 2))),
		"first is not empty":  cat(wireSymbols("__name__", "m"), wireBytes(5, wireRefs(0, 1), wireSample(n, 1))),
		"symbol twice":        cat(wireSymbols("", "__name__", "m", "m"), wireBytes(5, wireRefs(1, 3), wireSample(n, 1))),
		"refs in long form":   cat(sym, wireBytes(5, wireBytes(1, []byte{0x81, 0x80, 0x00, 2}), wireSample(n, 1))),
		"empty packed beside": cat(sym, wireBytes(5, wireRefs(), wireRefs(1, 2), wireRefs(), wireSample(n, 1))),
	} {
		t.Run(name, func(t *testing.T) {
			s.survives(t, m, packed(v2, body)).is(t, http.StatusNoContent).wrote(t, v2, 1, 0, 0)
		})
	}
	for name, body := range map[string][]byte{
		"no symbols": wireBytes(5, wireRefs(1, 2), wireSample(n, 5)),
		"no labels":  cat(sym, wireBytes(5, wireSample(n, 5))),
	} {
		t.Run(name, func(t *testing.T) {
			s.survives(t, m, packed(v2, body)).is(t, http.StatusBadRequest).wrote(t, v2, 0, 0, 0)
		})
	}
	s.readBack(t, m)
}

// Huge counts of small things, and sizes that are lies, cost neither memory nor time.
func TestHugeCountsAndLyingSizes(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	limit := 32 << 20
	small := snappy.Encode(nil, encode(v1, series("m").at(n, 1)))
	for name, tc := range map[string]struct {
		v    version
		body []byte
		want int // 0: 204 or 400
	}{
		"header claims 4 GiB":           {v1, cat(uvarint(math.MaxUint32), small[1:]), 400},
		"header claims over 4 GiB":      {v1, cat(uvarint(1<<32), small[1:]), 400},
		"header claims 2^63":            {v1, cat(uvarint(1<<63), small[1:]), 400},
		"header without end":            {v1, bytes.Repeat([]byte{0xff}, 30), 400},
		"header claims the limit":       {v1, cat(uvarint(uint64(limit)), small[1:]), 400},
		"header claims one over":        {v1, cat(uvarint(uint64(limit)+1), small[1:]), 400},
		"header claims one more":        {v1, cat(uvarint(uint64(small[0])+1), small[1:]), 400},
		"header claims one less":        {v1, cat(uvarint(uint64(small[0])-1), small[1:]), 400},
		"copy from before the start":    {v1, []byte{64, 0x02, 0xff, 0xff}, 400},
		"zeros of the limit":            {v1, snappy.Encode(nil, make([]byte, limit)), 400},
		"zeros of twice the limit":      {v2, snappy.Encode(nil, make([]byte, 2*limit)), 400},
		"a body over the limit":         {v1, make([]byte, limit+1), 400},
		"a million empty series":        {v1, snappy.Encode(nil, bytes.Repeat(wireBytes(1), 1_000_000)), 0},
		"a million empty series of 2.0": {v2, snappy.Encode(nil, cat(wireSymbols(""), bytes.Repeat(wireBytes(5), 1_000_000))), 0},
		"a million empty symbols":       {v2, snappy.Encode(nil, bytes.Repeat(wireSymbols(""), 1_000_000)), 204},
		"a million metadata":            {v1, snappy.Encode(nil, bytes.Repeat(wireBytes(3, wireString(2, "m")), 1_000_000)), 0},
		"a million empty metadata":      {v1, snappy.Encode(nil, bytes.Repeat(wireBytes(3), 1_000_000)), 0},
		"a million bad exemplars":       {v1, snappy.Encode(nil, wireBytes(1, wireLabels("__name__", "m"), bytes.Repeat(wireBytes(3, wireLabels("", "")), 1_000_000))), 0},
		"a million empty histograms":    {v1, snappy.Encode(nil, wireBytes(1, wireLabels("__name__", "m"), bytes.Repeat(wireBytes(4), 1_000_000))), 400},
		"a million labels":              {v1, snappy.Encode(nil, wireBytes(1, bytes.Repeat(wireBytes(1), 1_000_000), wireSample(n, 1))), 400},
		"a million spans":               {v1, snappy.Encode(nil, wireBytes(1, wireLabels("__name__", "m"), wireBytes(4, wireVarint(15, uint64(n)), bytes.Repeat(wireBytes(11), 1_000_000)))), 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.survives(t, m, request{v: tc.v, body: tc.body})
			if tc.want != 0 {
				a.is(t, tc.want)
			} else if a.status != http.StatusNoContent && a.status != http.StatusBadRequest {
				t.Errorf("%v", a)
			}
			if len(a.body) > 16<<10 {
				t.Errorf("the answer has %d bytes", len(a.body))
			}
			if strings.Contains(name, "spans") && a.status == http.StatusNoContent {
				m.write(series("m").hist(n, &histogram.Histogram{}))
			}
		})
	}
	// At the limit to the byte a body is taken.
	e := series("at_the_limit").at(n, 1)
	b := encode(v1, e)
	for over, want := range map[int]int{0: 204, 1: 400} {
		pad := limit - len(b) - len(wireClaim(90, uint64(limit), nil)) + over
		a := s.survives(t, m, packed(v1, cat(b, wireBytes(90, bytes.Repeat([]byte("x"), pad)))))
		a.is(t, want)
	}
	m.write(e)
	if got := s.resident(t); !built.Race && got > 1<<30 {
		t.Errorf("%d MiB are resident", got>>20)
	}
	s.readBack(t, m)
}

// A body that is fine up to its last byte but one stores nothing.
func TestNothingOfABrokenBodyIsStored(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		var entries []entry
		for i := range 20 {
			entries = append(entries, series("whole", "v", v.String(), "i", fmt.Sprint(i)).at(n, 1).hist(n+1, intHistogram(i)).exemplar(n, 1, "trace_id", "x"))
		}
		b := encode(v, entries...)
		for cut := 1; cut < len(b); cut += 1 + len(b)/rounds(150, 3000) {
			part := b[:len(b)-cut]
			a := s.send(t, packed(v, part))
			if whole, err := wholeEntries(v, part); err == nil {
				// Cut between two entries: a smaller request.
				a.is(t, http.StatusNoContent).wrote(t, v, whole, whole, whole)
				m.write(entries[:whole]...)
			} else {
				a.is(t, http.StatusBadRequest).wrote(t, v, 0, 0, 0)
			}
		}
		// All is there, and then one byte of another field.
		s.send(t, packed(v, append(b[:len(b):len(b)], 0xff))).is(t, http.StatusBadRequest).wrote(t, v, 0, 0, 0)
	})
	s.readBack(t, m)
}

// wholeEntries returns how many entries a body holds, or why it is broken.
func wholeEntries(v version, body []byte) (int, error) {
	if v == v2 {
		var req writev2.Request
		err := req.Unmarshal(body)
		return len(req.Timeseries), err
	}
	var req prompb.WriteRequest
	err := req.Unmarshal(body)
	return len(req.Timeseries), err
}

// Bodies with random damage are refused as a whole where the protocol's usual decoder
// refuses them, and otherwise answered; what is readable after all of them is readable
// after restarts, in both modes alike.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	s := start(t)
	n := nowMs() - hour
	rnd := seeded(t, 77)
	both(t, func(t *testing.T, v version) {
		e := series("damage", "v", v.String(), "é", "x").at(n, 1.5).at(n+1000, staleNaN).exemplar(n, 2, "trace_id", "abc")
		e = e.hist(n+2000, intHistogram(3)).fhist(n+3000, floatHistogram(4)).hist(n+4000, customHistogram(2, 1, 2, 3))
		e.meta = &meta{typ: 1, help: "help", unit: "s"}
		whole := encode(v, e, series("damage", "i", "2").at(n, 7), series("damage_2", "v", "x").at(n+1, 8).at(n, 9))
		for i := range scaled(rounds(1500, 60_000), 4) {
			b := bytes.Clone(whole)
			for range 1 + rnd.IntN(3) {
				k := rnd.IntN(len(b))
				switch rnd.IntN(5) {
				case 0:
					b[k] ^= 1 << rnd.IntN(8)
				case 1:
					b[k] = byte(rnd.Uint32())
				case 2:
					b = append(b[:k:k], b[min(len(b), k+1+rnd.IntN(8)):]...)
				case 3:
					b = append(b[:k:k], append(bytes.Repeat([]byte{byte(rnd.Uint32())}, 1+rnd.IntN(12)), b[k:]...)...)
				case 4:
					from := rnd.IntN(len(b))
					b = append(b[:k:k], append(bytes.Clone(b[from:min(len(b), from+rnd.IntN(40))]), b[k:]...)...)
				}
				if len(b) == 0 {
					b = []byte{0}
				}
			}
			a := s.send(t, packed(v, b))
			if a.status != http.StatusNoContent && a.status != http.StatusBadRequest {
				t.Fatalf("round %d: %v", i, a)
			}
			if _, err := wholeEntries(v, b); err != nil && (a.status != http.StatusBadRequest || a.written[0] > 0 || a.written[1] > 0 || a.written[2] > 0) {
				t.Errorf("round %d: the library says %v: %v; body %x", i, err, a, b)
			}
		}
	})
	before := s.readAll(t, samplesMode)
	for _, again := range []func(testing.TB){func(testing.TB) {}, s.restart, s.crash} {
		again(t)
		for _, mode := range modes {
			if d := diff(s.readAll(t, mode), before); d != "" {
				t.Errorf("%v:\n%s", mode, d)
			}
		}
	}
}
