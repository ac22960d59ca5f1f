package transfer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/transfer"
)

// importText imports a text and returns what is in the directory then.
func importText(t *testing.T, format transfer.Format, text string) (out transfer.Imported, said, got []string) {
	t.Helper()
	dir := fixture.QuickDir(t)
	out, err := transfer.Import(context.Background(), transfer.ImportOptions{
		Store: options(filepath.Join(dir, "data")), Inputs: []string{transfer.Stdin}, Stdin: strings.NewReader(text), Format: format,
		From: math.MinInt64, To: math.MaxInt64, Say: func(s string) { said = append(said, s) },
	})
	must(t, err)
	return out, said, readDir(t, filepath.Join(dir, "data"))
}

const (
	stale    = "7ff0000000000002"
	ordinary = "7ff8000000000001"
)

func bits(v float64) string { return fmt.Sprintf("%x", math.Float64bits(v)) }

// TestVictoriaMetrics imports what release 1.151.0 exported of series that were
// sent to it by remote write: escapes, infinities, stale markers (null), a NaN (dropped there).
func TestVictoriaMetrics(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/victoriametrics.jsonl")
	must(t, err)
	out, said, got := importText(t, transfer.Auto, string(text))
	if out.Samples != 27 || out.Refused() {
		t.Fatalf("%s %q", out, said)
	}
	const t0 = 1767225600000
	var want []string
	add := func(name string, step int64, values ...string) {
		for i, v := range values {
			if v != "" {
				want = append(want, fmt.Sprintf("%s %d 0 %s", name, t0+int64(i)*step, v))
			}
		}
	}
	add(`{__name__="edge"}`, 15000, bits(math.Inf(1)), bits(math.Inf(-1)), bits(1.5), stale, bits(7), "", bits(9))
	add(`{__name__="http_requests_total", job="web", path="/a\"b\\c\nd"}`, 15000, bits(1), bits(2), bits(3), bits(5), bits(8), bits(13), bits(21))
	add(`{__name__="large"}`, 60000, bits(1.7976931348623151e308), "0", "0", "0")
	add(`{__name__="temperature", room="küche 日本"}`, 15003, bits(21.5), bits(-3.25), bits(0.1), "0", bits(1234567890123), bits(-0.000012))
	add(`{__name__="up", instance="a:9100", job="node"}`, 15000, bits(1), bits(0), bits(1), stale)
	same(t, "what was imported", got, want)
}

func TestOpenMetrics(t *testing.T) {
	t.Parallel()
	text := `# HELP http_requests_total The requests.
# TYPE http_requests_total counter
http_requests_total{code="200",path="/a\"b\\c\nd"} 1027 1700000000.003
http_requests_total{path="/a\"b\\c\nd",code="200"} 1028 1700000060 # {trace_id="x"} 0.67 1700000059.5
# TYPE duration histogram
duration_bucket{le="1"} 5 1700000000
duration_bucket{le="+Inf"} 7 1700000000
# TYPE temperature gauge
temperature{empty=""} NaN 1700000000
temperature -Inf 1600000000
temperature 1e-300 -5.5
{"odd.name",job="x"} -0 1700000000.0005
temperature 3 1700000000.1
# EOF
`
	want := []string{
		`{__name__="duration_bucket", le="+Inf"} 1700000000000 0 ` + bits(7),
		`{__name__="duration_bucket", le="1.0"} 1700000000000 0 ` + bits(5),
		`{__name__="http_requests_total", code="200", path="/a\"b\\c\nd"} 1700000000003 0 ` + bits(1027),
		`{__name__="http_requests_total", code="200", path="/a\"b\\c\nd"} 1700000060000 0 ` + bits(1028),
		`{__name__="odd.name", job="x"} 1700000000001 0 ` + bits(math.Copysign(0, -1)),
		`{__name__="temperature"} -5500 0 ` + bits(1e-300),
		`{__name__="temperature"} 1600000000000 0 ` + bits(math.Inf(-1)),
		`{__name__="temperature"} 1700000000000 0 ` + ordinary,
		`{__name__="temperature"} 1700000000100 0 ` + bits(3),
	}
	for _, packed := range []bool{false, true} {
		in := text
		if packed {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, err := z.Write([]byte(text))
			must(t, err)
			must(t, z.Close())
			in = b.String()
		}
		out, said, got := importText(t, transfer.Auto, in)
		if out.Samples != 9 || out.Refused() || out.Exemplars != 1 {
			t.Errorf("packed %v: %s %q", packed, out, said)
		}
		same(t, "what was imported", got, want)
	}
}

// TestOpenMetricsRefuses puts bad lines between good ones: each is named, and
// nothing beside them is lost.
func TestOpenMetricsRefuses(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		`m{a="1"} 1`:                  "no timestamp",
		`m{a="1" 1 1700000000`:        "got",
		`m 1 17x`:                     "17x",
		`m x 1700000000`:              "x",
		`m{a="1",a="2"} 1 1700000000`: "given twice",
		"m{a=\"\xff\"} 1 1700000000":  "UTF-8",
		`{a="1"} 1 1700000000`:        "metric name",
		`# TYPE m nonsense`:           "nonsense",
		`# a comment`:                 "start token",
		``:                            "start token",
		`m 1 1e300`:                   "seconds",
		`m{a="` + "\x00":              "got",
		`{"a` + "\n" + `b"} 1 17`:     "",
		`m 1 NaN`:                     "timestamp",
		"m 1 1700000000\r":            "",
		"\x00m 1 1700000000":          "NUL",
		`m{a="` + strings.Repeat("x", 5<<20) + `"} 1 1700000000`: "4194304 bytes",
	}
	var lines, want, places []string
	lines = append(lines, "# TYPE m gauge")
	good := 0
	for _, line := range slices.Sorted(func(yield func(string) bool) {
		for b := range bad {
			if !yield(b) {
				return
			}
		}
	}) {
		lines = append(lines, fmt.Sprintf("m{good=\"%d\"} 1 1700000000", good))
		places = append(places, fmt.Sprintf("-:%d: ", strings.Count(strings.Join(lines, "\n"), "\n")+2))
		lines = append(lines, line)
		want = append(want, bad[line])
		good++
	}
	lines = append(lines, "m{good=\"last\"} 1 1700000000")
	out, said, got := importText(t, transfer.OpenMetrics, strings.Join(lines, "\n")+"\n# EOF\n")
	if out.Samples != uint64(good+1) || len(got) != good+1 {
		t.Errorf("%s, %d samples are there, want %d", out, len(got), good+1)
	}
	for i, w := range want {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, places[i]) && strings.Contains(s, w) }) {
			t.Errorf("%s%q is not said:\n%s", places[i], w, strings.Join(said, "\n"))
		}
	}
	// What has no sample in it is not read to its end; where there was one it is.
	for text, bad := range map[string]uint64{
		strings.Repeat("m 1\n", 200):                            21,
		strings.Repeat("\x00\n", 200):                           21,
		"m 1 1700000000\n" + strings.Repeat("m 1\n", 200):       201,
		strings.Repeat("m 1\n", 19) + "m 1 1700000000\n# EOF\n": 19,
	} {
		out, said, _ := importText(t, transfer.OpenMetrics, text)
		if stopped := strings.Contains(said[len(said)-1], "no OpenMetrics text"); out.Bad != bad || stopped != (bad == 21) {
			t.Errorf("%.40q: %s, last said %q", text, out, said[len(said)-1])
		}
	}
	for text, want := range map[string]string{
		"m 1 1700000000\n":                     "cut",
		"":                                     "is empty",
		"m 1 1700000000\n# EOF\nm 2 2\n":       "behind # EOF",
		"m 1 1700000000\n# EOF":                "",
		"\x1f\x8bnot packed":                   "gzip",
		"# TYPE m histogram\n0\n\x00\n# EOF\n": "NUL",
		"m x 1700000000\n# EOF\n":              `"x" is not a number`,
		"m 1e999 1700000000\n# EOF\n":          `"1e999" is not a number`,
		"m 1 y\n# EOF\n":                       `"y" is not a number`,
	} {
		out, said, _ := importText(t, transfer.OpenMetrics, text)
		if got := strings.Join(said, "\n"); !strings.Contains(got, want) || out.Refused() != (want != "") || strings.Contains(got, "strconv") {
			t.Errorf("%q: %s %q, want %q", text, out, got, want)
		}
	}
}

func TestJSONRefuses(t *testing.T) {
	t.Parallel()
	const good = `{"metric":{"__name__":"m"},"values":[1],"timestamps":[%d]}`
	bad := []struct{ line, want string }{
		{`{"metric":{"__name__":"m"},"values":[1,2],"timestamps":[1]}`, "1 timestamps for 2 values"},
		{`{"metric":{"__name__":"m"},"values":[1],"timestamps":[1.5]}`, "1.5"},
		{`{"metric":{"__name__":"m"},"values":["x"],"timestamps":[1]}`, `"x" is not a value`},
		{`{"metric":{"__name__":"m"},"values":[1e999],"timestamps":[1]}`, "1e999"},
		{`{"metric":{"__name__":"m"},"values":[true],"timestamps":[1]}`, "true"},
		{`{"metric":{"__name__":"m"},"values":[1]`, "ends"},
		{`{"metric":{"__name__":"m"},"timestamps":[1]}`, "values and histograms"},
		{`{"values":[1],"timestamps":[1]}`, "no metric"},
		{`{"metric":{"a":"b"},"values":[1],"timestamps":[1]}`, "__name__"},
		{`{"metric":{"__name__":"m","a":"1","a":"2"},"values":[1],"timestamps":[1]}`, "given twice"},
		{`{"metric":{"__name__":"m","a":1},"values":[1],"timestamps":[1]}`, "want '\"'"},
		{`{"metric":{"__name__":"m"},"values":[1],"values":[1],"timestamps":[1]}`, "given twice"},
		{`{"metric":{"__name__":"m"},"values":[1],"timestamps":[1]} x`, "more behind"},
		{`{"metric":{"__name__":"m"},"values":[1],"timestamps":[1],"starts":[]}`, "0 starts"},
		{`{"metric":{"__name__":"m"},"values":[1],"timestamps":[1],"bits":{"0":"7ff8000000000000"}}`, "not null"},
		{`{"metric":{"__name__":"m"},"values":[null],"timestamps":[1],"bits":{"0":"0000000000000000"}}`, "not a NaN"},
		{`{"metric":{"__name__":"m"},"values":[null],"timestamps":[1],"bits":{"1":"7ff8000000000000"}}`, "value 1"},
		{`{"metric":{"__name__":"m"},"histograms":[{"schema":3,"sum":1}],"timestamps":[1]}`, "count_int and count_float"},
		{`{"metric":{"__name__":"m"},"histograms":[{"schema":3,"sum":1,"count_int":5}],"timestamps":[1]}`, "histogram 0"},
		{`{"metric":{"__name__":"m"},"histograms":[{"schema":3,"sum":1,"count_int":0,"counts":[]}],"timestamps":[1]}`, "counts"},
		{`{"metric":{"__name__":"m"},"histograms":[{"schema":3,"sum":1e999,"count_int":0}],"timestamps":[1]}`, `"1e999" is not a value`},
		{`{"metric":{"__name__":"m"},"histograms":[{"schema":3,"sum":true,"count_int":0}],"timestamps":[1]}`, `"true" is not a number`},
		{`{"metric":{"__name__":"m"},"histograms":[{"schema":99,"sum":1,"count_int":0}],"timestamps":[1]}`, "schema"},
		{`{"metric":{"__name__":"m"},"histograms":[{"schema":3,"sum":1,"count_int":0,"zero_threshold":-1}],"timestamps":[1]}`, "zero threshold"},
		{`{"metric":{"__name__":"m"},"histograms":[{"schema":3,"sum":1,"count_int":0,"positive_spans":[[0,4294967296]]}],"timestamps":[1]}`, "span"},
		{`{"metric":{"__name__":"m"},"histograms":[{"reset_hint":"x","schema":3,"sum":1,"count_int":0}],"timestamps":[1]}`, "reset_hint"},
		{"{\"metric\":{\"__name__\":\"m\xff\"},\"values\":[1],\"timestamps\":[1]}", "UTF-8"},
		{`{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "nested"},
		{`[]`, "want '{'"},
	}
	var text strings.Builder
	for i, b := range bad {
		fmt.Fprintf(&text, good+"\n%s\n", i, b.line)
	}
	out, said, got := importText(t, transfer.JSON, text.String())
	if out.Samples != uint64(len(bad)) || len(got) != len(bad) || out.Bad != uint64(len(bad)) {
		t.Errorf("%s, %d samples are there, want %d", out, len(got), len(bad))
	}
	for i, b := range bad {
		place := fmt.Sprintf("-:%d: ", 2*i+2)
		if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, place) && strings.Contains(s, b.want) }) {
			t.Errorf("%s%s: %q is not said:\n%s", place, b.line, b.want, strings.Join(said, "\n"))
		}
	}
}

// TestHistogramsAsReceived: what a write may hold, a line may hold, too, and becomes the same.
func TestHistogramsAsReceived(t *testing.T) {
	t.Parallel()
	const line = `{"metric":{"__name__":"m"},"histograms":[%s],"timestamps":[%d]}` + "\n"
	var text strings.Builder
	for i, h := range []string{
		`{"schema":9,"sum":1,"count_int":3,"positive_spans":[[1,2]],"positive_deltas":[1,1]}`,
		`{"schema":8,"sum":1,"count_int":3,"positive_spans":[[1,1]],"positive_deltas":[3]}`,
		`{"schema":9,"sum":1,"count_float":3,"positive_spans":[[1,2]],"positive_counts":[1,2]}`,
		`{"schema":8,"sum":1,"count_float":3,"positive_spans":[[0,0],[1,1]],"positive_counts":[3]}`,
		`{"schema":52,"sum":"NaN:7ff0000000000002","count_int":3,"positive_spans":[[1,1]],"positive_deltas":[3]}`,
		`{"schema":0,"sum":"NaN:7ff0000000000002","count_int":0}`,
	} {
		fmt.Fprintf(&text, line, h, 1000+i)
	}
	out, said, got := importText(t, transfer.JSON, text.String())
	if len(got) != 6 || out.Refused() {
		t.Fatalf("%s %q\n%s", out, said, strings.Join(got, "\n"))
	}
	for i := 0; i < len(got); i += 2 {
		_, a, _ := strings.Cut(got[i], fmt.Sprint(1000+i))
		_, b, _ := strings.Cut(got[i+1], fmt.Sprint(1001+i))
		if a != b {
			t.Errorf("%s, want as %s", got[i], got[i+1])
		}
	}
}

// TestBounds imports samples on both sides of what retention and the clock let in.
func TestBounds(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	o := options(filepath.Join(fixture.QuickDir(t), "data"))
	o.Head.Accept.Now = func() time.Time { return now }
	o.Head.Accept.Retention, o.Head.Accept.MaxFuture = 24*time.Hour, time.Minute
	oldest, newest := now.Add(-24*time.Hour).UnixMilli(), now.Add(time.Minute).UnixMilli()
	text := fmt.Sprintf(`{"metric":{"__name__":"m"},"values":[1,2,3,4,5,6],"timestamps":[%d,%d,%d,%d,%d,%d]}`,
		oldest-1, oldest, oldest+1, newest-1, newest, newest+1)
	var said []string
	out, err := transfer.Import(context.Background(), transfer.ImportOptions{
		Store: o, Inputs: []string{transfer.Stdin}, Stdin: strings.NewReader(text), From: oldest - 5, To: newest - 1, Say: func(s string) { said = append(said, s) },
	})
	must(t, err)
	if out.Samples != 3 || out.TooOld != 1 || out.TooNew != 0 || out.Outside != 2 || !out.Refused() || len(said) != 1 || !strings.Contains(said[0], "-:1: series {__name__=\"m\"}: timestamp") {
		t.Errorf("%s %q", out, said)
	}
	out, err = transfer.Import(context.Background(), transfer.ImportOptions{
		Store: o, Inputs: []string{transfer.Stdin}, Stdin: strings.NewReader(text), From: oldest, To: math.MaxInt64, Say: func(s string) { said = append(said, s) },
	})
	must(t, err)
	if out.Samples != 1 || out.Same != 3 || out.TooNew != 1 || out.Outside != 1 {
		t.Errorf("%s %q", out, said)
	}
}
