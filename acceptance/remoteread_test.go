package acceptance

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// Each sample sent twice, and the one before it again around every place where a
// chunk may be cut, is there once and no chunks touch.
func TestSeamsRepeatNothing(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		e := series("seam", "v", v.String())
		for k := range int64(300) {
			s.store(t, m, v, e.at(n+k*second, float64(k)))
			s.store(t, m, v, e.at(n+k*second, float64(k)))
			if near := k%60 <= 1 || k%60 == 59; near && k > 0 {
				s.store(t, m, v, e.at(n+(k-1)*second, float64(k-1)))
				s.store(t, m, v, e.at(n+(k-1)*second, float64(k-1)).at(n+k*second, float64(k)))
			}
		}
		// The same in the middle of what is full, and a run of samples that falls between two others.
		for _, k := range []int64{1, 119, 120, 121, 239, 240, 241, 299} {
			for ms := int64(1); ms <= 5; ms++ {
				s.store(t, m, v, e.at(n+k*second+ms, float64(k)))
			}
			s.store(t, m, v, e.at(n+k*second, float64(k)).at(n+k*second+5, float64(k)))
		}
		dense := series("dense", "v", v.String())
		for k := range int64(500) {
			dense = dense.at(n+second+k, float64(k))
		}
		s.store(t, m, v, series("dense", "v", v.String()).at(n, 1).at(n+2*second, 1))
		s.store(t, m, v, dense)
		s.store(t, m, v, dense)
	})
	s.readBack(t, m)
	got := s.readBoth(t, query(n, n+299*second, eq("__name__", "seam")))
	for _, rs := range got {
		if len(rs.points) != 300+5*7 {
			t.Errorf("%s: %d samples, want %d", rs.labels, len(rs.points), 300+5*7)
		}
	}
}

// A whole series stands in one frame, however large its labels or long its samples.
func TestLargeSeriesStandInOneFrame(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - 14*day
	rnd := seeded(t, 61)
	wide := series("wide", "x", strings.Repeat("w", 1<<20)).at(n, 1).at(n+1, 2)
	s.store(t, m, v1, wide)
	s.store(t, m, v2, entry{labels: wide.labels}.hist(n+2, intHistogram(1)))
	count := scaled(rounds(160_000, 600_000), 5) // random values: 9 bytes a sample, far above 1 MiB
	for from := 0; from < count; from += 50_000 {
		e := series("long")
		for i := from; i < min(from+50_000, count); i++ {
			e.samples = append(e.samples, sample{t: n + int64(i)*2*second, v: rnd.NormFloat64()})
		}
		s.store(t, m, v1, e)
	}
	s.store(t, m, v1, series("small").at(n, 1))
	s.readBack(t, m)
	resp, body, err := s.fetch([]mode{streamedMode}, query(math.MinInt64, math.MaxInt64, everything))
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for ; len(body) > 0; frames++ {
		if _, body, err = decodeFrame(body); err != nil {
			t.Fatal(err)
		}
	}
	if frames != 3 || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d frames for 3 series, Content-Encoding %q", frames, resp.Header.Get("Content-Encoding"))
	}
}

// The first response type of the list that is known is answered; none is SAMPLES;
// only unknown ones are an error of the client.
func TestResponseTypes(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	for i := range 130 {
		s.store(t, m, v2, series("f").at(n+int64(i), float64(i)), series("i").hist(n+int64(i), intHistogram(i)), series("x").fhist(n+int64(i), floatHistogram(i)))
	}
	q := query(math.MinInt64, math.MaxInt64, everything)
	for _, tc := range []struct {
		accepted []mode
		want     mode
	}{
		{nil, samplesMode}, {[]mode{0}, samplesMode}, {[]mode{1}, streamedMode}, {[]mode{99, 1}, streamedMode}, {[]mode{99, 0, 1}, samplesMode}, {[]mode{1, 0}, streamedMode},
		{[]mode{0, 1}, samplesMode}, {[]mode{2, 1}, streamedMode}, {[]mode{99}, -1}, {[]mode{99, 100}, -1},
	} {
		resp, body, err := s.fetch(tc.accepted, q)
		if err != nil {
			t.Fatal(err)
		}
		var got []result
		switch tc.want {
		case samplesMode:
			got, err = decodeSamples(resp.Header, body, []*prompb.Query{q})
		case streamedMode:
			got, err = decodeStreamed(resp.Header, body, []*prompb.Query{q})
		default:
			if resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusNotImplemented || len(body) == 0 {
				t.Errorf("%v: status %d, body %q", tc.accepted, resp.StatusCode, body)
			}
			continue
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%v: status %d, %v: %s", tc.accepted, resp.StatusCode, err, tail(string(body), 300))
			continue
		}
		if d := diff(got[0], m.all()); d != "" {
			t.Errorf("%v:\n%s", tc.accepted, d)
		}
	}
	// As other encoders write the list.
	for name, list := range map[string][]byte{
		"not packed": cat(wireVarint(2, 1), wireVarint(2, 0)), "below 0 first": wireBytes(2, uvarint(math.MaxUint64), uvarint(1)),
		"packed in two": cat(wireBytes(2, uvarint(7)), wireBytes(2, uvarint(1))), "beyond 32 bits first": wireBytes(2, uvarint(1<<32+5), uvarint(1)),
	} {
		resp, body, err := s.fetchRaw(snappy.Encode(nil, cat(list, wireBytes(1, marshal(q)))))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeStreamed(resp.Header, body, []*prompb.Query{q}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Several queries of one request are answered one by one, in their order, also
// those with nothing to find.
func TestSeveralQueries(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	for i := range 40 {
		e := series("q"+strconv.Itoa(i%4), "i", fmt.Sprint(i))
		for k := range int64(300) {
			e = e.at(n+k*second, float64(k))
		}
		s.store(t, m, v1, e)
	}
	queries := []*prompb.Query{
		query(n, n+300*second, eq("__name__", "q2")), query(n, n+300*second, eq("__name__", "nothing")), query(n+100*second, n+200*second, eq("__name__", "q1")),
		query(n+5, n+6, eq("__name__", "q1")), query(n, n+300*second), query(n+1, n, everything), query(n+119*second, n+121*second, everything), query(n, n, eq("__name__", "q2"), neq("__name__", "q2")),
	}
	for _, mode := range modes {
		got := s.read(t, mode, queries...)
		for i, q := range queries {
			var want result
			for _, rs := range m.within(q.StartTimestampMs, q.EndTimestampMs) {
				if len(q.Matchers) > 0 && matches(t, rs.labels, q.Matchers) {
					want = append(want, rs)
				}
			}
			if d := diff(got[i], want); d != "" {
				t.Errorf("%v, query %d:\n%s", mode, i, d)
			}
		}
		if got := s.read(t, mode); len(got) != 0 {
			t.Errorf("%v: %d results without a query", mode, len(got))
		}
	}
	// Hints may be ignored.
	q := query(n, n+300*second, everything)
	q.Hints = &prompb.ReadHints{StepMs: 1, Func: "rate", StartMs: n, EndMs: n + 300*second, Grouping: []string{"i"}, By: true, RangeMs: 5000}
	if d := diff(s.readBoth(t, q), m.all()); d != "" {
		t.Errorf("with hints:\n%s", d)
	}
}

// A read that cannot be answered is refused in words and costs nothing.
func TestBadReads(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	s.store(t, m, v1, series("m", "a", "x").at(n, 1))
	q := marshal(query(n, n, eq("__name__", "m")))
	packed := func(b ...[]byte) []byte { return snappy.Encode(nil, cat(b...)) }
	for name, body := range map[string][]byte{
		"nothing":            {},
		"not snappy":         []byte("hello, this is no snappy block"),
		"not protobuf":       packed([]byte("\xff\xff\xff\xff")),
		"cut":                packed(wireBytes(1, q)[:8]),
		"bad regexp":         packed(wireBytes(1, marshal(query(n, n, re("a", "("))))),
		"huge regexp":        packed(wireBytes(1, marshal(query(n, n, re("a", strings.Repeat("(a{1000}", 4)+strings.Repeat("){1000}", 4)))))),
		"unknown matcher":    packed(wireBytes(1, marshal(query(n, n, &prompb.LabelMatcher{Type: 9, Name: "a"})))),
		"claims 2^63":        packed(wireClaim(1, 1<<63, q)),
		"claims 2^64-1":      packed(wireClaim(1, math.MaxUint64, q)),
		"snappy claims 4 GB": cat(uvarint(1<<32-1), []byte("x")),
		"snappy claims 2^63": cat(uvarint(1<<63), []byte("x")),
		"snappy of 64 MB":    snappy.Encode(nil, make([]byte, 64<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			resp, answer, err := s.fetchRaw(body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusBadRequest || len(answer) == 0 {
				t.Errorf("status %d, body %q", resp.StatusCode, tail(string(answer), 500))
			}
		})
	}
	resp, err := s.client.Get(s.url + "/api/v1/read")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d", resp.StatusCode)
	}
	s.holds(t, m, "after bad reads")
}

// A reader that goes away in the middle, or never reads, harms no one.
func TestReadersThatGoAway(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - 2*hour
	rnd := seeded(t, 37)
	var entries []entry
	for i := range 200 {
		e := series("big", "i", fmt.Sprint(i))
		for k := range int64(scaled(1000, 4)) {
			e.samples = append(e.samples, sample{t: n + k*second, v: rnd.NormFloat64()})
		}
		entries = append(entries, e)
	}
	for i := 0; i < len(entries); i += 20 {
		s.store(t, m, v1, entries[i:i+20]...)
	}
	body := packedRead(query(math.MinInt64, math.MaxInt64, everything))
	for i := range 60 {
		c := s.dial(t)
		fmt.Fprintf(c, "POST /api/v1/read HTTP/1.1\r\nHost: x\r\nContent-Encoding: snappy\r\nContent-Length: %d\r\n\r\n", len(body))
		if _, err := c.Write(body); err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 { // some close at once, some after the first bytes, some after more
			if _, err := io.CopyN(io.Discard, c, int64(i%3)*20_000); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
	}
	// Ten that stop reading, and still others are served.
	for range 5 {
		c := s.dial(t)
		defer c.Close()
		fmt.Fprintf(c, "POST /api/v1/read HTTP/1.1\r\nHost: x\r\nContent-Encoding: snappy\r\nContent-Length: %d\r\n\r\n", len(body))
		if _, err := c.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	s.holds(t, m, "while others do not read")
	s.store(t, m, v2, series("after").at(n, 1))
	s.readBack(t, m)
}

func packedRead(queries ...*prompb.Query) []byte {
	return snappy.Encode(nil, marshal(&prompb.ReadRequest{Queries: queries, AcceptedResponseTypes: []mode{streamedMode}}))
}

// The frame's length is the shortest varint of a message that parses, and frames follow one another without a gap.
func TestFramesOfAnEmptyAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	resp, body, err := s.fetch([]mode{streamedMode}, query(0, math.MaxInt64, everything))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || len(body) != 0 || resp.Header.Get("Content-Type") != streamedType {
		t.Errorf("an empty stream: status %d, %d bytes, %q", resp.StatusCode, len(body), resp.Header.Get("Content-Type"))
	}
	s.post(t, v1, series("m").at(nowMs(), 1)).is(t, http.StatusNoContent)
	_, body, err = s.fetch([]mode{streamedMode}, query(0, math.MaxInt64, everything))
	if err != nil {
		t.Fatal(err)
	}
	if size, n := binary.Uvarint(body); len(body) != n+4+int(size) {
		t.Errorf("one frame of %d bytes in an answer of %d", size, len(body))
	}
}
