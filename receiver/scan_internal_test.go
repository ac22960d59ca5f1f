package receiver

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
)

// only1 scans a body with one series entry.
func only1(t *testing.T, body []byte) *entry {
	t.Helper()
	s := &scanner1{}
	s.reset(body)
	it, err := s.next()
	if err != nil || it != itemEntry {
		t.Fatalf("next: got %d, %v, want an entry", it, err)
	}
	return s.entry
}

// only2 scans a body with one series entry.
func only2(t *testing.T, body []byte) (*entry, *scanner2) {
	t.Helper()
	s := &scanner2{}
	if err := s.reset(body, 1); err != nil {
		t.Fatal(err)
	}
	it, err := s.next()
	if err != nil || it != itemEntry {
		t.Fatalf("next: got %d, %v, want an entry", it, err)
	}
	return s.entry, s
}

// TestLabelsApart checks that the labels of an entry are the same bytes wherever
// they stand in it.
func TestLabelsApart(t *testing.T) {
	a, b, c := label1Field("__name__", "m"), label1Field("a", "1"), label1Field("b", strings.Repeat("2", 200))
	s1, s2 := sampleField(1, 1, 0), sampleField(2, 0.5, 0)
	want := join(a, b, c)
	for name, parts := range map[string][][]byte{
		"together":           {a, b, c, s1, s2},
		"behind the samples": {s1, s2, a, b, c},
		"between":            {s1, a, b, c, s2},
		"one by one":         {a, s1, b, s2, c},
		"two and one":        {a, b, s1, s2, c},
		"one and two":        {a, s1, b, c, s2},
		"unknown between":    {a, fieldVarint(9, 1), b, s1, c, s2},
	} {
		t.Run(name, func(t *testing.T) {
			e := only1(t, fieldBytes(1, parts...))
			if !bytes.Equal(e.ident, want) {
				t.Errorf("labels: got %q, want %q", e.ident, want)
			}
			if !slices.Equal(e.t, []int64{1, 2}) || !slices.Equal(e.v, []float64{1, 0.5}) {
				t.Errorf("samples: got %v %v", e.t, e.v)
			}
		})
	}
}

func TestSampleForms(t *testing.T) {
	stale := math.Float64frombits(0x7ff0000000000002)
	tests := []struct {
		name  string
		field []byte
		t     int64
		v     float64
	}{
		{"usual", sampleField(1_764_500_000_000, 1.5, 0), 1_764_500_000_000, 1.5},
		{"stale marker", sampleField(1_764_500_000_000, stale, 0), 1_764_500_000_000, stale},
		{"no value", fieldBytes(2, fieldVarint(2, 1_764_500_000_000)), 1_764_500_000_000, 0},
		{"no time", fieldBytes(2, fieldDouble(1, 2)), 0, 2},
		{"nothing", fieldBytes(2), 0, 0},
		{"before 1970", sampleField(-1, 2, 0), -1, 2},
		{"earliest", sampleField(math.MinInt64, 2, 0), math.MinInt64, 2},
		{"latest", sampleField(math.MaxInt64, 2, 0), math.MaxInt64, 2},
		{"time first", fieldBytes(2, fieldVarint(2, 7), fieldDouble(1, 2)), 7, 2},
		{"twice", fieldBytes(2, fieldDouble(1, 1), fieldVarint(2, 3), fieldDouble(1, 2), fieldVarint(2, 7)), 7, 2},
		{"unknown fields", fieldBytes(2, fieldDouble(1, 2), fieldVarint(2, 7), fieldString(12, "more")), 7, 2},
		{"padded time", fieldBytes(2, fieldDouble(1, 2), []byte{0x10, 0x87, 0x80, 0x00}), 7, 2},
		{"long tag", fieldBytes(2, fieldDouble(1, 2), []byte{0x90, 0x00, 7}), 7, 2},
	}
	names := label1Field("__name__", "m")
	for _, test := range tests {
		for _, pad := range []int{0, 64} { // at the end of the body, and with more behind
			t.Run(test.name, func(t *testing.T) {
				padding := fieldBytes(15, make([]byte, pad))
				e := only1(t, join(fieldBytes(1, names, test.field, test.field), padding))
				if !slices.Equal(e.t, []int64{test.t, test.t}) || math.Float64bits(e.v[1]) != math.Float64bits(test.v) || len(e.v) != 2 {
					t.Errorf("1.0: got %v %v, want %d %v twice", e.t, e.v, test.t, test.v)
				}
				e, _ = only2(t, join(fieldBytes(5, test.field, test.field), padding))
				if !slices.Equal(e.t, []int64{test.t, test.t}) || math.Float64bits(e.v[1]) != math.Float64bits(test.v) || !slices.Equal(e.st, []int64{0, 0}) {
					t.Errorf("2.0: got %v %v %v, want %d %v twice", e.t, e.v, e.st, test.t, test.v)
				}
			})
		}
	}
}

func TestStartTimestamps(t *testing.T) {
	e, _ := only2(t, fieldBytes(5, sampleField(10, 1, 4), sampleField(11, 1, 0), fieldVarint(6, 3), sampleField(12, 1, 5)))
	if want := []int64{4, 0, 5}; !slices.Equal(e.st, want) || e.start != 3 {
		t.Errorf("got %v and %d for the series, want %v and 3", e.st, e.start, want)
	}
	if e, _ = only2(t, fieldBytes(5, sampleField(10, 1, 0), fieldString(6, "of another type"))); e.start != 0 {
		t.Errorf("a field 6 that is no number: got %d, want it unknown", e.start)
	}
	// In 1.0 field 3 of a sample is unknown.
	if e := only1(t, fieldBytes(1, sampleField(10, 1, 4))); len(e.st) != 0 || e.t[0] != 10 {
		t.Errorf("1.0: got %v %v", e.t, e.st)
	}
}

func TestReferences(t *testing.T) {
	symbols := join(fieldString(4, ""), fieldString(4, "__name__"), fieldString(4, "m"), fieldString(4, "a"), fieldString(4, "b"))
	many := make([]uint64, 2*maxEntryLabels+2)
	tests := []struct {
		name  string
		refs  []byte
		want  []uint32
		fault string
	}{
		{"packed", fieldBytes(1, packed(1, 2, 3, 4)), []uint32{1, 2, 3, 4}, ""},
		{"single", join(fieldVarint(1, 1), fieldVarint(1, 2)), []uint32{1, 2}, ""},
		{"packed in parts", join(fieldBytes(1, packed(1)), fieldBytes(1, packed(2, 3)), fieldVarint(1, 4)), []uint32{1, 2, 3, 4}, ""},
		{"around samples", join(fieldBytes(1, packed(1, 2)), sampleField(1, 1, 0), fieldBytes(1, packed(3, 4))), []uint32{1, 2, 3, 4}, ""},
		{"long varints", fieldBytes(1, []byte{0x81, 0x80, 0x80, 0x00, 0x82, 0x00}), []uint32{1, 2}, ""},
		{"none", nil, nil, ""},
		{"odd", fieldBytes(1, packed(1, 2, 3)), []uint32{1, 2, 3}, "labels_refs has 3 references, want an even number"},
		{"beyond the table", fieldBytes(1, packed(1, 5)), []uint32{1}, "labels_refs names symbol 5 of 5"},
		{"beyond 32 bits", fieldBytes(1, packed(1, 1<<32+2)), []uint32{1}, "labels_refs names symbol 4294967298 of 5"},
		{"too many", fieldBytes(1, packed(many...)), make([]uint32, 2*maxEntryLabels), "more than 4096 labels"},
	}
	for _, test := range tests {
		for name, body := range map[string][]byte{
			"symbols first":    join(symbols, fieldBytes(5, test.refs)),
			"symbols last":     join(fieldBytes(5, test.refs), symbols),
			"symbols in parts": join(symbols[:2], fieldVarint(9, 1), fieldBytes(5, test.refs), symbols[2:]),
		} {
			t.Run(test.name+", "+name, func(t *testing.T) {
				e, _ := only2(t, body)
				if !slices.Equal(e.refs, test.want) || e.refsFault != test.fault {
					t.Errorf("got %v %q, want %v %q", e.refs, e.refsFault, test.want, test.fault)
				}
			})
		}
	}
}

// TestSymbolsAmongSeries expects a table in pieces to serve all entries.
func TestSymbolsAmongSeries(t *testing.T) {
	refs := func(a, b uint64) []byte { return fieldBytes(5, fieldBytes(1, packed(a, b)), sampleField(1, 1, 0)) }
	body := join(fieldString(4, ""), refs(1, 3), fieldString(4, "__name__"), refs(1, 2), fieldString(4, "m"), fieldString(4, "n"))
	s := &scanner2{}
	if err := s.reset(body, 1); err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		it, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if it == itemEnd {
			break
		}
		for _, l := range s.appendLabels(nil, s.entry.refs) {
			got = append(got, string(l.Name)+"="+string(l.Value))
		}
	}
	if want := []string{"__name__=n", "__name__=m"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOtherSchema(t *testing.T) {
	one := mustMarshal(&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{Labels: []prompb.Label{{Name: "__name__", Value: "m"}}}}})
	two := mustMarshal(&writev2.Request{Symbols: []string{"", "__name__", "m"}, Timeseries: []writev2.TimeSeries{{LabelsRefs: []uint32{1, 2}}}})
	meta := mustMarshal(&prompb.WriteRequest{Metadata: []prompb.MetricMetadata{{MetricFamilyName: "m"}}})
	var s *schemaError
	for name, err := range map[string]error{
		"1.0 read as 2.0":               second(collect2(one)),
		"2.0 read as 1.0":               second(collect1(two)),
		"1.0 metadata read as 2.0":      second(collect2(meta)),
		"2.0 series alone read as 1.0":  second(collect1(fieldBytes(5))),
		"field 2 read as 2.0":           second(collect2(fieldVarint(2, 1))),
		"2.0 behind 1.0 read as 1.0":    second(collect1(join(one, two))),
		"of another wire type too, 1.0": second(collect1(fieldVarint(4, 1))),
	} {
		if !errors.As(err, &s) {
			t.Errorf("%s: got %v, want a schemaError", name, err)
		}
	}
	if _, err := collect1(join(fieldVarint(2, 1), one, fieldVarint(16, 1))); err != nil {
		t.Errorf("field 2 and unknown fields in 1.0: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestBoundsOnRequests(t *testing.T) {
	repeat := func(n int, b []byte) []byte { return bytes.Repeat(b, n) }
	tests := []struct {
		name string
		one  []byte
		two  []byte
		n    int
	}{
		{"series entries", fieldBytes(1), fieldBytes(5), maxEntries},
		{"metadata entries", fieldBytes(3), nil, maxMetadata},
		{"symbols", nil, fieldBytes(4), maxSymbols},
	}
	for _, test := range tests {
		for i := range 2 { // at the bound, and one beyond
			if test.one != nil {
				checkBound(t, "1.0 "+test.name, scanError1(repeat(test.n+i, test.one)), i == 1)
			}
			if test.two != nil {
				checkBound(t, "2.0 "+test.name, scanError2(repeat(test.n+i, test.two)), i == 1)
			}
		}
	}
	inside := []struct {
		name     string
		one, two []byte
		n        int
	}{
		{"samples", fieldBytes(2), fieldBytes(2), maxSamples},
		{"exemplars", fieldBytes(3), fieldBytes(4), maxExemplars},
		{"histograms", fieldBytes(4), fieldBytes(3), maxHistograms},
	}
	for _, test := range inside { // at the bound in one entry, and one more in another
		one := join(fieldBytes(1, repeat(test.n, test.one)), fieldBytes(1, test.one))
		two := join(fieldBytes(5, repeat(test.n, test.two)), fieldBytes(5, test.two))
		checkBound(t, "1.0 "+test.name, scanError1(one), true)
		checkBound(t, "2.0 "+test.name, scanError2(two), true)
		one, two = one[:len(one)-len(fieldBytes(1, test.one))], two[:len(two)-len(fieldBytes(5, test.two))]
		if test.n < maxSamples { // the samples take too long for more
			checkBound(t, "1.0 "+test.name, scanError1(one), false)
			checkBound(t, "2.0 "+test.name, scanError2(two), false)
		}
	}
	usual := repeat(maxSamples+1, sampleField(1_764_500_000_000, 1, 0))
	checkBound(t, "1.0 samples of the usual form", scanError1(fieldBytes(1, usual)), true)
	checkBound(t, "2.0 samples of the usual form", scanError2(fieldBytes(5, usual)), true)
}

func checkBound(t *testing.T, name string, err error, beyond bool) {
	t.Helper()
	var many *tooManyError
	if got := errors.As(err, &many); got != beyond || !beyond && err != nil {
		t.Errorf("%s, beyond the bound %v: got %v", name, beyond, err)
	}
}

func scanError1(body []byte) error {
	var s scanner1
	s.reset(body)
	for {
		if it, err := s.next(); err != nil || it == itemEnd {
			return err
		}
	}
}

func scanError2(body []byte) error {
	var s scanner2
	if err := s.reset(body, 1); err != nil {
		return err
	}
	for {
		if it, err := s.next(); err != nil || it == itemEnd {
			return err
		}
	}
}

// TestConcatenatedRequests1 expects requests that stand one behind the other to
// be one request, as protobuf has it and some senders use.
func TestConcatenatedRequests1(t *testing.T) {
	r := newRand(t, 31)
	for range 100 {
		a, b := randRequest1(r), randRequest1(r)
		checkOracle1(t, join(mustMarshal(a), mustMarshal(b)))
	}
}

func TestScanningAllocatesNothing(t *testing.T) {
	one, two := benchBodies1(benchBatch)[0], benchBodies2(benchBatch, false)[0]
	var s1 scanner1
	var s2 scanner2
	if n := testing.AllocsPerRun(20, func() { scanAll1(&s1, one, true) }); n != 0 {
		t.Errorf("1.0: %v allocations a request, want 0", n)
	}
	if n := testing.AllocsPerRun(20, func() { scanAll2(&s2, two, true) }); n != 0 {
		t.Errorf("2.0: %v allocations a request, want 0", n)
	}
	if s1.totals.entries != benchBatch || s2.totals.samples != benchBatch {
		t.Fatalf("scanned %d entries and %d samples, want %d", s1.totals.entries, s2.totals.samples, benchBatch)
	}
}

func TestTrimLetsGo(t *testing.T) {
	var s scanner2
	if err := s.reset(join(bytes.Repeat(fieldBytes(4), maxPooledLen+1), fieldBytes(5)), 1); err != nil {
		t.Fatal(err)
	}
	s.trim()
	if s.body != nil || cap(s.symbols) > maxPooledLen || cap(s.hashes) > maxPooledLen {
		t.Errorf("after trim: %d symbols and %d hashes are kept", cap(s.symbols), cap(s.hashes))
	}
}
