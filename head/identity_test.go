package head_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

// wire makes wire labels of names and values in turn.
func wire(pairs ...string) []head.Label {
	out := make([]head.Label, len(pairs)/2)
	for i := range out {
		out[i] = head.Label{Name: []byte(pairs[2*i]), Value: []byte(pairs[2*i+1])}
	}
	return out
}

// TestLabelSets tries label sets of every odd form.
func TestLabelSets(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		name   string
		wire   []head.Label
		want   string
		reason string
	}{
		{"plain", wire("__name__", "m", "a", "b"), `{__name__="m", a="b"}`, ""},
		{"sorted by bytes", wire("ä", "1", "a", "2", "_x", "3", "Z", "4", "__name__", "m"), `{Z="4", __name__="m", _x="3", a="2", "ä"="1"}`, ""},
		{"empty values", wire("b", "", "__name__", "m", "a", ""), `{__name__="m"}`, ""},
		{"name alone", wire("__name__", "m"), `{__name__="m"}`, ""},
		{"metric of any text", wire("__name__", "1 π\n"), `{__name__="1 π\n"}`, ""},
		{"nul", wire("__name__", "m", "a\x00", "\x00"), `{__name__="m", "a\x00"="\x00"}`, ""},
		{"emoji", wire("__name__", "m", "🙂", "🙃"), `{__name__="m", "🙂"="🙃"}`, ""},
		{"noncharacters", wire("__name__", "m", "a", "\uFFFE\uFFFF\uFFFD\U0010FFFF"), "", ""},
		{"names that share a prefix", wire("__name__", "m", "ab", "1", "a", "2", "abc", "3"), `{__name__="m", a="2", ab="1", abc="3"}`, ""},
		{"limit of labels", wire("__name__", "m", "a", "1", "b", "2", "c", "3", "d", "4"), `{__name__="m", a="1", b="2", c="3", d="4"}`, ""},
		{"limit of bytes", wire("__name__", "m", "a", long[:30]), `{__name__="m", a="` + long[:30] + `"}`, ""},

		{"none", nil, "", head.ReasonNoMetricName},
		{"no metric name", wire("a", "b"), "", head.ReasonNoMetricName},
		{"empty metric name", wire("__name__", "", "a", "b"), "", head.ReasonNoMetricName},
		{"empty name", wire("__name__", "m", "", "b"), "", head.ReasonLabelName},
		{"empty name and value", wire("__name__", "m", "", ""), "", head.ReasonLabelName},
		{"twice", wire("__name__", "m", "a", "1", "a", "2"), "", head.ReasonDuplicateLabel},
		{"twice the same", wire("__name__", "m", "a", "1", "a", "1"), "", head.ReasonDuplicateLabel},
		{"twice, once empty", wire("a", "", "__name__", "m", "a", "1"), "", head.ReasonDuplicateLabel},
		{"twice, both empty", wire("a", "", "__name__", "m", "a", ""), "", head.ReasonDuplicateLabel},
		{"metric name twice", wire("__name__", "m", "__name__", "n"), "", head.ReasonDuplicateLabel},
		{"name not UTF-8", wire("__name__", "m", "a\xff", "b"), "", head.ReasonLabelUTF8},
		{"value not UTF-8", wire("__name__", "m", "a", "\xc3"), "", head.ReasonLabelUTF8},
		{"surrogate", wire("__name__", "m", "a", "\xed\xa0\x80"), "", head.ReasonLabelUTF8},
		{"overlong", wire("__name__", "m", "a", "\xc0\x80"), "", head.ReasonLabelUTF8},
		{"metric not UTF-8", wire("__name__", "\xfe"), "", head.ReasonLabelUTF8},
		{"over the limit of labels", wire("__name__", "m", "a", "1", "b", "2", "c", "3", "d", "4", "e", ""), "", head.ReasonLabelLimit},
		{"over the limit of bytes", wire("__name__", "m", "a", long[:32]), "", head.ReasonLabelLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.Limits = head.Limits{Labels: 5, LabelBytes: 40}
			p := run(t, o)
			for round := range 2 {
				s, dropped, err := p.head.Resolve(key(1), c.wire)
				if dropped {
					t.Fatal("dropped")
				}
				if c.reason == "" {
					if err != nil || c.want != "" && s.Labels().String() != c.want {
						t.Fatalf("got %v, %v", s, err)
					}
					if known, _ := p.head.Lookup(key(1)); known != s {
						t.Error("the wire form is not known")
					}
					continue
				}
				var r *head.Refusal
				if !errors.As(err, &r) || s != nil || r.Reason != c.reason || r.Detail == "" || !utf8.ValidString(r.Error()) {
					t.Errorf("round %d: got %v, %v", round, s, err)
				}
				if known, dropped := p.head.Lookup(key(1)); known != nil || dropped {
					t.Error("what was refused is known")
				}
			}
		})
	}
}

// TestLabelsAreCopied writes over the wire bytes after the call.
func TestLabelsAreCopied(t *testing.T) {
	p := run(t, options())
	w := wire("b", "2", "__name__", "m", "a", "1")
	s, _, err := p.head.Resolve(key(1), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range w {
		copy(l.Name, "XXXXXXXX")
		copy(l.Value, "XXXXXXXX")
	}
	if got := s.Labels().String(); got != `{__name__="m", a="1", b="2"}` {
		t.Errorf("got %s", got)
	}
}

// TestOneSeriesUnderManyWireForms writes one label set in many orders, with and
// without empty labels: it is one series, before and after a restart.
func TestOneSeriesUnderManyWireForms(t *testing.T) {
	fs := memfs.New(1)
	for start := range 3 {
		p := mustStart(t, fs, options())
		rng := rand.New(rand.NewPCG(1, uint64(start)))
		var first *head.Series
		for i := range 100 {
			w := wire("__name__", "m", "i", "0", "Z", "1", "ä", "2")
			for e := range i % 3 {
				w = append(w, wire(fmt.Sprint("empty", e), "")...)
			}
			rng.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
			s, _, err := p.head.Resolve(key(i), w)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = s
			}
			if s != first {
				t.Fatalf("form %d is another series", i)
			}
			b := p.head.NewBatch()
			b.Float(s, int64(i), 0, float64(i))
			if _, err := p.head.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		known := 0
		for i := range 100 {
			if s, _ := p.head.Lookup(key(i)); s == first {
				known++
			}
		}
		if known != 8 {
			t.Errorf("%d wire forms are remembered", known)
		}
		want := oracle{}
		for i := range int64(100) {
			want.add(float(0, i, float64(i)))
		}
		p.holds(t, want)
		p.stop()
	}
}

// TestKnownCollision writes two label sets that collide in a common 64-bit hash of labels.
func TestKnownCollision(t *testing.T) {
	fs := memfs.New(1)
	names := []string{"qeYKm3", "2fUczT"}
	for range 2 {
		p := mustStart(t, fs, options())
		for i, n := range names {
			s, _, err := p.head.Resolve(key(i), wire("__name__", "metric", "lbl", n))
			if err != nil {
				t.Fatal(err)
			}
			b := p.head.NewBatch()
			b.Float(s, 1, 0, float64(i))
			if _, err := p.head.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		for i, n := range names {
			v := p.head.View()
			found, err := v.Select(t.Context(), 0, 10, labels.MustNewMatcher(labels.MatchEqual, "lbl", n))
			if err != nil || len(found) != 1 {
				t.Fatalf("found %v, %v", found, err)
			}
			if got := readOne(t, v, found[0]); got != float64(i) {
				t.Errorf("%s has %g", n, got)
			}
		}
		p.stop()
	}
}

func relabelling(t *testing.T, o head.Options, rules ...*relabel.Config) *process {
	for _, r := range rules {
		if r.Regex.Regexp == nil {
			r.Regex = relabel.DefaultRelabelConfig.Regex
		}
		if r.Separator == "" {
			r.Separator = ";"
		}
		if r.Replacement == "" {
			r.Replacement = "$1"
		}
		if err := r.Validate(model.UTF8Validation); err != nil {
			t.Fatal(err)
		}
	}
	o.Relabel = rules
	return run(t, o)
}

// TestRelabelling drops, renames and keeps series, and refuses what it leaves without a name.
func TestRelabelling(t *testing.T) {
	source := func(name string) model.LabelNames { return model.LabelNames{model.LabelName(name)} }
	p := relabelling(t, options(),
		&relabel.Config{Action: relabel.Drop, SourceLabels: source("kind"), Regex: relabel.MustNewRegexp("debug")},
		&relabel.Config{Action: relabel.Replace, SourceLabels: source("job"), Regex: relabel.MustNewRegexp("(.+)"), TargetLabel: "service"},
		&relabel.Config{Action: relabel.LabelDrop, Regex: relabel.MustNewRegexp("job|replica")},
		&relabel.Config{Action: relabel.Replace, SourceLabels: source("service"), Regex: relabel.MustNewRegexp("nameless"), TargetLabel: "__name__", Replacement: "${2}"},
		&relabel.Config{Action: relabel.LabelMap, Regex: relabel.MustNewRegexp("map_(.*)")},
	)
	for i, c := range []struct {
		wire   []head.Label
		want   string
		reason string
	}{
		{wire("__name__", "m", "job", "j", "replica", "a"), `{__name__="m", service="j"}`, ""},
		{wire("__name__", "m", "job", "j", "replica", "b"), `{__name__="m", service="j"}`, ""},
		{wire("__name__", "m", "service", "j"), `{__name__="m", service="j"}`, ""},
		{wire("__name__", "m", "kind", "debug"), "", ""},
		{wire("kind", "debug", "__name__", "m"), "", ""},
		{wire("__name__", "m", "job", "nameless"), "", head.ReasonNoMetricName},
		{wire("__name__", "m", "map_x", "1"), `{__name__="m", map_x="1", x="1"}`, ""},
		{wire("__name__", "m", "map_", "1"), "", head.ReasonLabelName},
		{wire("__name__", "m", "kind", "debug", "kind", ""), "", head.ReasonDuplicateLabel},
	} {
		for range 2 {
			s, dropped, err := p.head.Resolve(key(i), c.wire)
			known, knownDropped := p.head.Lookup(key(i))
			var r *head.Refusal
			switch {
			case c.reason != "":
				if !errors.As(err, &r) || r.Reason != c.reason || known != nil || knownDropped {
					t.Errorf("%d: got %v, %v; known %v, %v", i, s, err, known, knownDropped)
				}
			case c.want == "":
				if err != nil || s != nil || !dropped || known != nil || !knownDropped {
					t.Errorf("%d: got %v, %v, %v; known %v, %v", i, s, dropped, err, known, knownDropped)
				}
			default:
				if err != nil || dropped || s.Labels().String() != c.want || known != s {
					t.Errorf("%d: got %v, %v, %v; known %v", i, s.Labels(), dropped, err, known)
				}
			}
		}
	}
	// An odd replica and its pair are one series.
	a, _ := p.head.Lookup(key(0))
	for i := 1; i < 3; i++ {
		if b, _ := p.head.Lookup(key(i)); b != a {
			t.Errorf("wire form %d is another series", i)
		}
	}
}

// TestSeriesLimit lets no more series in than the limit, also by many at once,
// while those that are there keep flowing under any wire form, also after a
// restart with a lower limit.
func TestSeriesLimit(t *testing.T) {
	const limit = 50
	fs, o := memfs.New(1), options()
	o.Limits.Series = limit
	p := mustStart(t, fs, o)
	want := oracle{}
	var mu sync.Mutex
	var creators sync.WaitGroup
	refusals := 0
	for w := range 8 {
		creators.Go(func() {
			for i := range 2 * limit {
				s, _, err := p.head.Resolve(key(i), wire("__name__", "m", "i", fmt.Sprint(i)))
				var r *head.Refusal
				if errors.As(err, &r) && r.Reason == head.ReasonSeriesLimit {
					mu.Lock()
					refusals++
					mu.Unlock()
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				b := p.head.NewBatch()
				b.Float(s, int64(w), 0, 1)
				if _, err := p.head.Commit(t.Context(), b); err != nil {
					t.Error(err)
				}
				b.Release()
				mu.Lock()
				want.add(float(i, int64(w), 1))
				mu.Unlock()
			}
		})
	}
	creators.Wait()
	if len(want) != limit || refusals != 8*limit {
		t.Errorf("%d series, %d refusals", len(want), refusals)
	}
	p.holds(t, want)
	p.stop()

	o.Limits.Series = 1
	p = mustStart(t, fs, o)
	defer p.stop()
	for i := range want {
		p.stored(t, float(i, 1000, 2))
		want.add(float(i, 1000, 2))
	}
	if _, _, err := p.head.Resolve(key(1000), wire("__name__", "m", "i", "1000")); err == nil {
		t.Error("a new series above the limit")
	}
	p.holds(t, want)
}

// TestLongSeriesIsNamedShort refuses a series with very long labels.
func TestLongSeriesIsNamedShort(t *testing.T) {
	o := options()
	o.Limits.Series = 1
	p := run(t, o)
	p.stored(t, float(0, 1, 1))
	for _, w := range [][]head.Label{
		wire("__name__", "m", "a", strings.Repeat("é", 1<<18), "b", "1"),
		wire("__name__", strings.Repeat("\x00", 1<<18)),
		wire("__name__", "m", strings.Repeat("é", 1<<18), "\xff"),
	} {
		_, _, err := p.head.Resolve(key(9), w)
		if err == nil || len(err.Error()) > 1<<12 || !utf8.ValidString(err.Error()) {
			t.Errorf("%d bytes: %.100s", len(err.Error()), err)
		}
	}
}
