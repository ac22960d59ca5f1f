package receiver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/rwsink/rwsink/head"
)

// keyOf1 is the key of a series with these names and values in 1.0.
func keyOf1(t *testing.T, seed uint64, ls ...string) head.Key {
	t.Helper()
	var ts prompb.TimeSeries
	for i := 0; i < len(ls); i += 2 {
		ts.Labels = append(ts.Labels, prompb.Label{Name: ls[i], Value: ls[i+1]})
	}
	return key1(only1(t, fieldBytes(1, mustMarshal(&ts))).ident, seed)
}

// keyOf2 is the same in 2.0; before are symbols that stand ahead in the table.
func keyOf2(t *testing.T, seed uint64, before []string, ls ...string) head.Key {
	t.Helper()
	table := writev2.NewSymbolTable()
	for _, s := range before {
		table.Symbolize(s)
	}
	var ts writev2.TimeSeries
	for _, s := range ls {
		ts.LabelsRefs = append(ts.LabelsRefs, table.Symbolize(s))
	}
	req := writev2.Request{Symbols: table.Symbols(), Timeseries: []writev2.TimeSeries{ts}}
	s := &scanner2{}
	if err := s.reset(mustMarshal(&req), seed); err != nil {
		t.Fatal(err)
	}
	if it, err := s.next(); err != nil || it != itemEntry {
		t.Fatal(it, err)
	}
	return s.key()
}

// labelSets are label sets of which no two are the same sequence.
func labelSets() [][]string {
	sets := [][]string{
		{}, {"", ""}, {"", "", "", ""},
		{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}, {"bc", "a"},
		{"a", "b", "c", "d"}, {"c", "d", "a", "b"}, {"a", "d", "c", "b"}, {"c", "b", "a", "d"}, {"b", "a", "d", "c"},
		{"a", "b", "a", "b"}, {"a", "b", "a", "b", "a", "b"}, {"a", "a", "b", "b"},
		{"__name__", "metric", "lbl", "qeYKm3"}, {"__name__", "metric", "lbl", "2fUczT"},
		{"a", strings.Repeat("x", 500)}, {"a", strings.Repeat("x", 501)},
	}
	for i := range 300 { // many labels, one of them different
		var set []string
		for j := range 150 {
			v := "v"
			if j == i/2 {
				v = fmt.Sprint("w", i%2)
			}
			set = append(set, fmt.Sprint("n", j), v)
		}
		sets = append(sets, set)
	}
	return sets
}

func TestKeysTellLabelSetsApart(t *testing.T) {
	const seed = 42
	seen := map[head.Key]string{}
	note := func(key head.Key, what string) {
		if other, dup := seen[key]; dup {
			t.Errorf("%s and %s have one key", other, what)
		}
		seen[key] = what
	}
	for i, set := range labelSets() {
		one, two := keyOf1(t, seed, set...), keyOf2(t, seed, nil, set...)
		note(one, fmt.Sprintf("1.0 set %d", i))
		note(two, fmt.Sprintf("2.0 set %d", i))
		if one.Lo&1 != 0 || two.Lo&1 != 1 {
			t.Errorf("set %d: keys of the two versions are not told apart by their lowest bit", i)
		}
		if again := keyOf2(t, seed, []string{"x", "b", "n3"}, set...); again != two {
			t.Errorf("set %d: the key in 2.0 depends on the numbers of the symbols", i)
		}
		if keyOf1(t, seed+1, set...) == one || keyOf2(t, seed+1, nil, set...) == two {
			t.Errorf("set %d: a key does not depend on the seed", i)
		}
	}
}

// TestKeysSpread expects every bit of the keys of similar series to be set about
// half of the time.
func TestKeysSpread(t *testing.T) {
	const n = 4096
	var ones [2][128]int
	for i := range n {
		ls := []string{"__name__", "m", "i", fmt.Sprint(i)}
		for v, key := range []head.Key{keyOf1(t, 7, ls...), keyOf2(t, 7, nil, ls...)} {
			for bit := range 64 {
				ones[v][bit] += int(key.Lo >> bit & 1)
				ones[v][64+bit] += int(key.Hi >> bit & 1)
			}
		}
	}
	for v := range ones {
		for bit := 1; bit < 128; bit++ { // bit 0 tells the version
			if d := ones[v][bit] - n/2; d < -200 || d > 200 { // more than six standard deviations
				t.Errorf("version %d.0, bit %d is set in %d of %d keys", v+1, bit, ones[v][bit], n)
			}
		}
	}
}
