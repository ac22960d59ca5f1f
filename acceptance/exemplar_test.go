package acceptance

import (
	"fmt"
	"net/http"
	"testing"
)

// Nothing about exemplars or metadata costs the samples beside them.
func TestExemplarsNeverCostSamples(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		name := func(n string) entry { return series("exemplar", "v", v.String(), "n", n) }
		// Those that are fine: alone, before the first sample, twice, several at one time, unordered in one entry.
		s.store(t, m, v, name("first").exemplar(n, 1, "trace_id", "a"))
		s.store(t, m, v, name("first").at(n, 1))
		s.store(t, m, v, name("twice").at(n, 1).exemplar(n, 1, "trace_id", "a"))
		s.store(t, m, v, name("twice").at(n+1, 1).exemplar(n, 1, "trace_id", "a"))
		s.store(t, m, v, name("twice").at(n+2, 1).exemplar(n+1, 1, "trace_id", "a").exemplar(n+1, 1, "trace_id", "a"))
		s.store(t, m, v, name("one time").hist(n, intHistogram(1)).exemplar(n, 3, "trace_id", "a").exemplar(n, 1, "trace_id", "b").exemplar(n, 2, "trace_id", "c"))
		s.store(t, m, v, name("unordered").at(n, 1).exemplar(n+3, 3, "trace_id", "a").exemplar(n+1, 1, "trace_id", "b").exemplar(n+2, 2, "trace_id", "c"))
		s.store(t, m, v, name("bare").at(n, 1).exemplar(n, 3))
		s.store(t, m, v, name("bits").at(n, 1).exemplar(n, staleNaN, "trace_id", "a").exemplar(n+1, plainNaN, "trace_id", "b"))
		s.store(t, m, v, name("entries").at(n, 1), name("entries").exemplar(n, 1, "trace_id", "a"), name("entries").exemplar(n+1, 1, "trace_id", "b"))

		// A request of several exemplars is sent again, at once and after others.
		several := []entry{
			name("again").at(n, 1).exemplar(n, 1, "trace_id", "a").exemplar(n+1, 1, "trace_id", "b").exemplar(n+2, 1, "trace_id", "c"),
			name("again, one time").hist(n, intHistogram(1)).exemplar(n, 1, "trace_id", "a").exemplar(n, 2, "trace_id", "b").exemplar(n, 2, "trace_id", "c").exemplar(n, 2, "trace_id", "d"),
		}
		s.store(t, m, v, several...)
		s.store(t, m, v, several...)
		s.store(t, m, v, name("again").at(n+10, 1).exemplar(n+10, 1, "trace_id", "d"))
		s.store(t, m, v, several...)

		// One that is older than the newest of its series: named in 2.0, counted in 1.0.
		s.store(t, m, v, name("older").at(n, 1).exemplar(n+10, 1, "trace_id", "new"))
		old := name("older").at(n+1, 1).hist(n+2, intHistogram(1)).exemplar(n, 1, "trace_id", "old")
		a := s.survives(t, m, packed(v, encode(v, old)))
		if v == v2 {
			a.is(t, http.StatusBadRequest).wrote(t, v, 1, 1, 0).names(t, "exemplar", "older")
		} else {
			a.is(t, http.StatusNoContent)
		}
		m.write(old)

		// Those that are bad in themselves.
		for what, kv := range map[string][]string{
			"utf-8":      {"trace_id", "\xff"},
			"label name": {"", "x"},
			"label\xff":  {"a\xff", "x"},
			"twice":      {"a", "1", "a", "2"},
			"too long":   {"trace_id", string(make([]byte, 5000))},
		} {
			e := name("bad").at(n, 1).exemplar(n, 1, kv...)
			a := s.survives(t, m, packed(v, encode(v, e)))
			if a.status != http.StatusNoContent {
				a.is(t, http.StatusBadRequest).names(t, "exemplar")
			}
			if v == v2 && a.status == http.StatusNoContent != (a.written[2] == 1) {
				t.Errorf("%s: status and count disagree: %v", what, a)
			}
			if v == v2 && a.written[0] != 1 {
				t.Errorf("%s: the sample was not written: %v", what, a)
			}
			m.write(e)
		}
		// Time 0, if it is refused, costs only itself.
		e := name("time 0").at(n, 1).exemplar(0, 1, "trace_id", "a")
		if a := s.survives(t, m, packed(v, encode(v, e))); v == v2 && a.written[0] != 1 {
			t.Errorf("the sample beside an exemplar at time 0: %v", a)
		}
		m.write(e)
	})
	s.readBack(t, m)
}

// With no room for exemplars at all, samples flow and no exemplar is claimed
// that a sender would take for a loss.
func TestManyExemplars(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--storage.exemplars=10"), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		var entries []entry
		for i := range 100 {
			e := series("ring", "v", v.String(), "i", fmt.Sprint(i)).at(n, 1)
			for k := range int64(5) {
				e = e.exemplar(n+k, float64(k), "trace_id", fmt.Sprint(i, k))
			}
			entries = append(entries, e)
		}
		a := s.post(t, v, entries...)
		a.is(t, http.StatusNoContent)
		if v == v2 && (a.written[0] != 100 || a.written[2] < 1 || a.written[2] > 500) {
			t.Errorf("written %v", a.written)
		}
		m.write(entries...)
	})
	s.readBack(t, m)
}

// Metadata of any kind, with samples, alone and wrong, costs no sample.
func TestMetadataNeverCostsSamples(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		with := func(e entry, md meta) entry { e.meta = &md; return e }
		for typ := range int32(8) {
			s.store(t, m, v, with(series("meta", "v", v.String()).at(n+int64(typ), 1), meta{typ: typ, help: "words", unit: "seconds"}))
			s.store(t, m, v, with(series("meta_only", "v", v.String()), meta{typ: typ}))
		}
		for _, typ := range []int32{8, 99, -1, 1 << 30} {
			e := with(series("meta", "v", v.String()).at(n+100+int64(typ)%97, 1), meta{typ: typ, help: "odd"})
			if a := s.survives(t, m, packed(v, encode(v, e))); a.status != http.StatusNoContent {
				a.is(t, http.StatusBadRequest).wrote(t, v, 1, 0, 0)
			}
			m.write(e)
		}
		e := with(series("meta", "v", v.String()).at(n+1000, 1), meta{typ: 1, help: string(make([]byte, 1<<20)), unit: "é"})
		if a := s.survives(t, m, packed(v, encode(v, e))); a.status != http.StatusNoContent {
			a.is(t, http.StatusBadRequest).wrote(t, v, 1, 0, 0)
		}
		m.write(e)
	})
	// References of metadata and exemplars that point nowhere.
	for i, field := range [][]byte{
		wireBytes(5, wireVarint(1, 1), wireVarint(3, 99)), wireBytes(5, wireVarint(1, 1), wireVarint(4, 1<<32-1)),
		wireBytes(4, wireRefs(1, 99), wireVarint(3, uint64(n))), wireBytes(4, wireRefs(1), wireVarint(3, uint64(n))), wireBytes(4, wireRefs(1<<32-1, 1), wireVarint(3, uint64(n))),
	} {
		at := n + int64(i)
		body := cat(wireSymbols("", "__name__", "refs"), wireBytes(5, wireRefs(1, 2), wireSample(at, 1), field), wireBytes(5, wireRefs(1, 2), wireSample(at+100, 1)))
		s.survives(t, m, packed(v2, body)).is(t, http.StatusBadRequest).wrote(t, v2, 2, 0, 0)
		m.write(series("refs").at(at, 1).at(at+100, 1))
	}
	s.readBack(t, m)
}
