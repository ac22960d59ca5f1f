package acceptance

import (
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/rwsink/rwsink/internal/built"
	"github.com/rwsink/rwsink/internal/proc"
)

// However a label set is written, it is one series, and its labels come back
// sorted by bytes.
func TestOneIdentityForEverySpelling(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	rnd := seeded(t, 9)
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		name := "spelled_" + strconv.Itoa(int(v))
		pairs := [][2]string{{"__name__", name}, {"Z", "1"}, {"_x", "2"}, {"a", "3"}, {"ä", "4"}, {"b", "5"}, {"a.b", "6"}, {"日本", "7"}}
		for i := range int64(40) {
			var kv []string
			for _, k := range rnd.Perm(len(pairs)) {
				kv = append(kv, pairs[k][0], pairs[k][1])
				if rnd.IntN(4) == 0 {
					kv = append(kv, fmt.Sprintf("empty%d", k), "")
				}
			}
			s.store(t, m, v, entry{labels: kv}.at(n+i*second, float64(i)))
		}
		// The same spellings in one request.
		var entries []entry
		for i := range int64(20) {
			k := int(i) % len(pairs)
			var kv []string
			for _, p := range append(append([][2]string{}, pairs[k:]...), pairs[:k]...) {
				kv = append(kv, p[0], p[1])
			}
			entries = append(entries, entry{labels: kv}.at(n+(100-i)*second, float64(i)))
		}
		s.store(t, m, v, entries...)
	})
	if got := s.readAll(t, streamedMode); len(got) != 2 {
		t.Errorf("%d series, want 2", len(got))
	}
	s.readBack(t, m)
}

// Both versions name the same series, and 2.0 does so by any symbol table.
func TestVersionsShareSeries(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	for i := range int64(20) {
		v := version(1 + i%2)
		s.store(t, m, v, series("shared", "a", "1", "b", "2").at(n+i*second, float64(i)))
		// More symbols before those of the series.
		filler := series("filler", "i", strconv.FormatInt(i, 10), "shared", "b").at(n, 1)
		s.store(t, m, v, filler, entry{labels: []string{"b", "2", "a", "1", "__name__", "shared"}}.at(n+i*second+1, float64(i)))
	}
	s.readBack(t, m)
}

// Label sets that collide in a common 64-bit hash are two series.
func TestHashCollisionsAreTwoSeries(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	a, b := series("metric", "lbl", "qeYKm3"), series("metric", "lbl", "2fUczT")
	if x, y := canonical(a.labels).Hash(), canonical(b.labels).Hash(); x != y {
		t.Logf("the pair does not collide in the library's hash here: %x, %x", x, y)
	}
	for i := range int64(10) {
		s.store(t, m, version(1+i%2), a.at(n+i*second, 1), b.at(n+i*second, 2))
	}
	s.readBack(t, m)
	s.store(t, m, v2, b.at(n-second, 2))
	s.store(t, m, v1, a.at(n-second, 1))
	s.readBack(t, m)
	for lbl, want := range map[string]float64{"qeYKm3": 1, "2fUczT": 2} {
		got := s.readBoth(t, query(n-hour, n+hour, eq("__name__", "metric"), eq("lbl", lbl)))
		if len(got) != 1 || len(got[0].points) != 11 || got[0].points[0].v != want {
			t.Errorf("%s: got %v", lbl, got)
		}
	}
}

// Label sets that differ only in where one string ends and the next begins are different series.
func TestBoundariesOfLabelsMakeIdentity(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	sets := [][]string{
		{"a", "bc"}, {"ab", "c"}, {"a", "b", "c", "x"}, {"a", "bcx"}, {"a", "b\xc2\xa0c"}, {"a", "b\x00c"}, {"a\x00b", "c"}, {"a", "\x00bc"},
		{"a", `b",c="x`}, {"a", "b", "c", `"x`}, {"a", "b,c=x"}, {`a="b",c`, "x"}, {"a", strings.Repeat("x", 127)}, {"a", strings.Repeat("x", 128)},
		{"a", strings.Repeat("x", 255)}, {"a", strings.Repeat("x", 256)}, {"a", strings.Repeat("x", 65535)}, {"a", strings.Repeat("x", 65536)}, {},
	}
	for round := range int64(4) {
		both(t, func(t *testing.T, v version) {
			var entries []entry
			for i, kv := range sets {
				entries = append(entries, series("m", kv...).at(n+round*second+int64(v), float64(i)))
			}
			s.store(t, m, v, entries...)
		})
	}
	if got := len(s.readAll(t, samplesMode)); got != len(sets) {
		t.Errorf("%d series, want %d", got, len(sets))
	}
	s.readBack(t, m)
}

// What is not valid UTF-8 is refused in words that are, and what is only odd is kept as it is.
func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	good := series("good_utf8", "x", "y").at(n, 1)
	for name, kv := range map[string][]string{
		"value":         {"__name__", "m", "a", "\xff\xfe"},
		"name":          {"__name__", "m", "a\xff", "x"},
		"metric":        {"__name__", "m\xc3"},
		"surrogate":     {"__name__", "m", "a", "\xed\xa0\x80"},
		"overlong":      {"__name__", "m", "a", "\xc0\xaf"},
		"cut at end":    {"__name__", "m", "a", strings.Repeat("x", 100) + "\xe2\x82"},
		"name of label": {"__name__", "m", "\x80", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, v version) {
				a := s.survives(t, m, packed(v, encode(v, good, entry{labels: kv}.at(n, 2))))
				a.is(t, http.StatusBadRequest).wrote(t, v, 1, 0, 0)
				m.write(good)
			})
		})
	}
	odd := []string{"\x00", "\ufffd", "line\nbreak", "😀", `quote"back\slash`, "\u2028", "\x7f", " ", "a\u0301", "\U0010ffff", "{}", "\ufeff"}
	both(t, func(t *testing.T, v version) {
		for i, o := range odd {
			s.store(t, m, v, series("odd_value", "v", v.String(), "x", o).at(n, float64(i)))
			s.store(t, m, v, series("odd_name", "v", v.String(), o, "x").at(n, float64(i)))
			s.store(t, m, v, series(o, "v", v.String(), "x", "odd_metric").at(n, float64(i)))
		}
		s.store(t, m, v, series("http.requests", "v", v.String(), "service.name", "a/b").at(n, 1))
	})
	s.readBack(t, m)
	for _, o := range odd {
		if got := s.readBoth(t, query(n, n, eq("x", o))); len(got) != 2 {
			t.Errorf("x=%q matches %d series, want 2", o, len(got))
		}
	}
}

// A series needs a name and no label may be nameless; an empty value is no label.
func TestMissingNames(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		good := series("named", "v", v.String()).at(n, 1)
		for name, kv := range map[string][]string{
			"no metric":         {"host", "a"},
			"empty metric":      {"__name__", ""},
			"empty metric more": {"__name__", "", "host", "a"},
			"empty label name":  {"__name__", "m", "", "x"},
			"empty both":        {"__name__", "m", "", ""},
			"none":              {},
			"twice":             {"__name__", "m", "a", "1", "a", "2"},
			"twice the same":    {"__name__", "m", "a", "1", "a", "1"},
			"twice, one empty":  {"__name__", "m", "a", "", "a", "1"},
			"twice, both empty": {"__name__", "m", "a", "", "a", ""},
			"name twice":        {"__name__", "m", "__name__", "m"},
			"twice, far apart":  {"a", "1", "b", "2", "__name__", "m", "c", "3", "a", "1"},
		} {
			t.Run(name, func(t *testing.T) {
				bad := entry{labels: kv}
				a := s.survives(t, m, packed(v, encode(v, bad.at(n, 2), good, bad.hist(n, intHistogram(1)))))
				a.is(t, http.StatusBadRequest).wrote(t, v, 1, 0, 0)
				m.write(good)
			})
		}
		s.store(t, m, v, series("absent", "v", v.String(), "x", "").at(n, 1))
		s.store(t, m, v, series("absent", "v", v.String()).at(n+1, 2))
		s.store(t, m, v, series("absent", "y", "", "v", v.String()).at(n+2, 3), series("absent", "v", v.String(), "z", "").at(n+3, 4))
	})
	s.readBack(t, m)
}

// signed returns a label value that carries its own checksum.
func signed(rnd *rand.Rand, id int) string {
	var b strings.Builder
	for range 5 + rnd.IntN(300) {
		b.WriteByte("abcdefghij"[rnd.IntN(10)])
	}
	text := fmt.Sprintf("%d-%s", id, b.String())
	return fmt.Sprintf("%s-%08x", text, crc32.ChecksumIEEE([]byte(text)))
}

// validSigned says whether a label value is as signed made it.
func validSigned(s string) bool {
	i := strings.LastIndexByte(s, '-')
	return i > 0 && utf8.ValidString(s) && fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(s[:i]))) == s[i+1:]
}

// Labels stay what they were while request bodies come and go.
func TestLabelsDoNotAliasRequests(t *testing.T) {
	t.Parallel()
	s, all := start(t), newModel()
	var mu sync.Mutex
	n := nowMs() - hour
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, mode := range modes {
					got, err := s.tryRead(mode, query(math.MinInt64, math.MaxInt64, everything))
					if err != nil {
						t.Errorf("%v: %v", mode, err)
						return
					}
					for _, rs := range got[0] {
						if !validSigned(rs.labels.Get("text")) || !validSigned(rs.labels.Get("__name__")[2:]) {
							t.Errorf("labels changed: %s", short(rs.labels))
							return
						}
					}
				}
			}
		})
	}
	for w := range 32 {
		rnd := rand.New(rand.NewPCG(47, uint64(w)))
		writers.Go(func() {
			for r := range scaled(12, 3) {
				var entries []entry
				for i := range 1 + rnd.IntN(40) {
					id := w<<16 | r<<8 | i
					e := series("m_"+signed(rnd, id), "text", signed(rnd, id)).at(n, float64(id))
					entries = append(entries, e.exemplar(n, 1, "trace_id", strconv.Itoa(id)))
				}
				s.post(t, version(1+r%2), entries...).is(t, http.StatusNoContent)
				mu.Lock()
				all.write(entries...)
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	s.readBack(t, all)
}

// resident returns the resident memory of the process in bytes.
func (s *server) resident(t testing.TB) int64 {
	t.Helper()
	u, err := proc.Read(s.pid())
	if err != nil {
		t.Fatal(err)
	}
	return u.RSS
}

// A new series in a large request does not keep the request in memory.
func TestLargeRequestsAreNotPinned(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	const requests, size = 100, 4 << 20
	rnd := seeded(t, 3)
	filler := make([]byte, size)
	for i := range filler {
		filler[i] = byte(rnd.Uint32())
	}
	for i := range scaled(requests, 8) {
		v := version(1 + i%2)
		e := series("pin", "i", strconv.Itoa(i)).at(n, float64(i)).exemplar(n, 1, "trace_id", strconv.Itoa(i))
		// A field that no version knows carries the bulk.
		a := s.send(t, packed(v, cat(encode(v, e), wireBytes(99, filler))))
		a.is(t, http.StatusNoContent)
		m.write(e)
	}
	if got, limit := s.resident(t), int64(requests*size/2); !built.Race && got > limit {
		t.Errorf("%d MiB are resident after %d requests of %d MiB with one new series each; want under %d",
			got>>20, requests, size>>20, limit>>20)
	}
	s.readBack(t, m)
}

// Each series of an answer has its own values while others are read and written.
func TestParallelReadersSeeTheirOwnSeries(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - 2*hour
	const count = 500
	var inOrder, late, gaps []entry
	for i := range count {
		e := series("own", "i", fmt.Sprintf("%03d", i))
		inOrder = append(inOrder, e.at(n, float64(i)).at(n+10*second, float64(i)).at(n+hour, float64(i)))
		late = append(late, e.at(n+5*second, float64(i)).at(n-second, float64(i)))
		gaps = append(gaps, e.at(n+7*second, float64(i)))
	}
	s.store(t, m, v1, inOrder...)
	s.store(t, m, v2, late...)
	s.restart(t)
	s.store(t, m, v1, gaps...)
	want := m.all()
	stop := make(chan struct{})
	var readers, writer sync.WaitGroup
	writer.Go(func() {
		for k := int64(0); ; k++ {
			select {
			case <-stop:
				return
			default:
			}
			// Another metric, and times out of the readers' range.
			s.post(t, version(1+k%2), series("other", "i", fmt.Sprint(k%50)).at(n+k, float64(k)), inOrder[k%count].at(n+hour+minute+k, -1)).is(t, http.StatusNoContent)
		}
	})
	for r := range 16 {
		mode := modes[r%2]
		readers.Go(func() {
			for range scaled(6, 2) {
				got, err := s.tryRead(mode, query(n-minute, n+hour, eq("__name__", "own")))
				if err != nil {
					t.Errorf("%v: %v", mode, err)
					return
				}
				if d := diff(got[0], want); d != "" {
					t.Errorf("%v:\n%s", mode, d)
					return
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	writer.Wait()
}

// A label set of every odd size is kept whole or refused.
func TestSizesOfLabelSets(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		for _, count := range []int{0, 1, 2, 63, 64, 65, 127, 128, 200, 255} {
			s.store(t, m, v, series("wide_"+strconv.Itoa(count), append(manyLabels(count), "v", v.String())[2*min(1, count):]...).at(n, float64(count)))
		}
		for _, size := range []int{1 << 10, 1 << 16, 1<<20 - 100, 1 << 20} {
			s.store(t, m, v, series("long", "v", v.String(), "x", strings.Repeat("é", size/2)).at(n, float64(size)))
			s.store(t, m, v, series("long", "v", v.String(), strings.Repeat("n", size), "x").at(n, float64(size)))
		}
		for name, e := range map[string]entry{
			"257 labels":   series("over", manyLabels(256)...).at(n, 1),
			"10000 labels": series("over", manyLabels(10000)...).at(n, 1),
			"2 MiB":        series("over", "x", strings.Repeat("x", 2<<20)).at(n, 1),
			"2 MiB in all": series("over", "x", strings.Repeat("x", 1<<20), "y", strings.Repeat("y", 1<<20)).at(n, 1),
		} {
			t.Run(name, func(t *testing.T) {
				a := s.survives(t, m, packed(v, encode(v, e, series("beside", "v", v.String()).at(n, 1))))
				a.is(t, http.StatusBadRequest).wrote(t, v, 1, 0, 0)
				m.write(series("beside", "v", v.String()).at(n, 1))
				if len(a.body) > 16<<10 {
					t.Errorf("the answer has %d bytes", len(a.body))
				}
			})
		}
	})
	s.readBack(t, m)
}
