package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/ooo"
)

// TestSpill puts rows in any order, many of them at the same time, into a spill
// that holds few, and reads what a map of the last numbers has.
func TestSpill(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const length = 100
	dir := t.TempDir()
	s, err := newSpill(dir, 50*rowBytes, func(t int64) (int64, int64) {
		lo := (t+1e6)/length*length - 1e6
		return lo, lo + length - 1
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the file has a name: %v, %v", left, err)
	}
	type key struct {
		series string
		t      int64
	}
	type sample struct {
		v  float64
		st int64
	}
	want := map[key]sample{}
	for i := range 5000 {
		ls := labels.FromStrings(labels.MetricName, "m", "i", fmt.Sprint(rng.IntN(1+i/20)))
		x := sample{v: float64(rng.IntN(5))}
		if rng.IntN(4) == 0 {
			x.v = math.Float64frombits(value.StaleNaN)
		}
		if rng.IntN(8) == 0 {
			x.st = rng.Int64N(100) - 50
		}
		k := key{ls.String(), rng.Int64N(1000) - 500}
		if err := s.add(s.series.number(ls), k.t, math.Float64bits(x.v), extra{st: x.st}); err != nil {
			t.Fatal(err)
		}
		if old, ok := want[k]; !ok || !value.IsStaleNaN(x.v) || value.IsStaleNaN(old.v) {
			want[k] = x
		}
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	got := 0
	for _, lo := range s.begins() {
		last := labels.EmptyLabels()
		err := walk(s.cursors(lo), func(ls labels.Labels, layers []ooo.Layer) error {
			if labels.Compare(last, ls) >= 0 {
				t.Fatalf("%s behind %s", ls, last)
			}
			last = ls
			var stack ooo.Stack
			return stack.Read(layers, lo, lo+length-1, 7, func(run *chunkenc.Samples) error {
				for i, at := range run.T {
					x := sample{v: run.V[i]}
					if len(run.ST) > 0 {
						x.st = run.ST[i]
					}
					w, ok := want[key{ls.String(), at}]
					if !ok || math.Float64bits(w.v) != math.Float64bits(x.v) || w.st != x.st {
						t.Fatalf("%s at %d: got %v, want %v %v", ls, at, x, w, ok)
					}
					got++
				}
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got != len(want) {
		t.Errorf("%d samples, want %d", got, len(want))
	}
}

// TestLineReader reads lines of every length around the buffer's, the last
// without a newline.
func TestLineReader(t *testing.T) {
	var text bytes.Buffer
	var want []string
	for n := range 70 {
		line := strings.Repeat("x", n)
		want = append(want, line)
		text.WriteString(line + "\n")
	}
	text.WriteString("end")
	want = append(want, "end")
	o, err := openText(&text, Auto)
	if err != nil || o.format != OpenMetrics {
		t.Fatalf("%v, %v", o, err)
	}
	lines := lineReader{r: bufio.NewReaderSize(o.r, 16)}
	var got []string
	for {
		line, err := lines.next()
		if err != nil {
			break
		}
		got = append(got, string(line))
		if lines.number != len(got) {
			t.Fatalf("number %d of line %d", lines.number, len(got))
		}
	}
	if !slices.Equal(got, want) || lines.whole {
		t.Errorf("%d lines, want %d; whole %v", len(got), len(want), lines.whole)
	}
}

func TestFormatByContent(t *testing.T) {
	for text, want := range map[string]Format{
		`{"metric":{}}`: JSON, " \n{ \"a\" : 1": JSON, `{}`: JSON, `{"metric" 1 2`: OpenMetrics, `{"a b",c="d"} 1 2`: OpenMetrics,
		"# EOF": OpenMetrics, "": OpenMetrics, "m 1 2": OpenMetrics, `{__name__="a"} 1 2`: JSON,
	} {
		if o, err := openText(strings.NewReader(text), Auto); err != nil || o.format != want {
			t.Errorf("%q: %v, %v, want %s", text, o, err, want)
		}
	}
}

// TestProgress shows a step on a terminal whose clock the test moves.
func TestProgress(t *testing.T) {
	var screen bytes.Buffer
	now := time.Unix(0, 0)
	p := NewProgress(&screen)
	p.now = func() time.Time { return now }
	p.begin("reading", 200)
	now = now.Add(10 * time.Second)
	p.add(1_500_000)
	p.at(50)
	now = now.Add(10 * time.Second)
	p.at(100)
	if want := "\rreading [###############...............]  50% 20s left 1.5M samples, 75.0k/s"; !strings.Contains(screen.String(), want) {
		t.Errorf("%q, want %q", screen.String(), want)
	}
	screen.Reset()
	if _, err := p.Aside(&screen).Write([]byte("a line\n")); err != nil {
		t.Fatal(err)
	}
	if got := screen.String(); !strings.HasPrefix(got, "\r  ") || !strings.Contains(got, "\ra line\n\rreading [") {
		t.Errorf("%q", got)
	}
	screen.Reset()
	p.end()
	if got := screen.String(); strings.Trim(got, " \r") != "" || got == "" {
		t.Errorf("%q", got)
	}
	screen.Reset()
	var none *Progress
	none.begin("x", 1)
	none.add(1)
	none.at(1)
	none.end()
	if none.Aside(&screen) != &screen {
		t.Error("no progress stands aside")
	}
}

// TestLedgerLetsGoFirst: a block of a range that is no longer there is removed only
// once the ledger does not name it, so that no kill leaves a ledger without its block.
func TestLedgerLetsGoFirst(t *testing.T) {
	const name = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	target, err := openBlocks(t.TempDir(), ledgerHead{Format: Blocks, RangeMs: 10})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(target.dir, name)
	if err := errors.Join(os.Mkdir(dir, 0o700), target.ledger.note(ledgerEntry{Begin: 5, Done: true, Block: name}), target.close()); err != nil {
		t.Fatal(err)
	}
	if err := target.keep(nil); err == nil {
		t.Error("a ledger that cannot be written to")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the block is gone, and the ledger names it: %v", err)
	}
}

// TestLedgerRefuses: a ledger of another export, of another version or none at all is an
// error and is left as it is; one that was broken off, or is of version 1, goes on.
func TestLedgerRefuses(t *testing.T) {
	head := ledgerHead{Format: JSON, From: 1, To: 2, RangeMs: 3}
	line := func(version int, magic string, to int64) string {
		other := head
		other.To = to
		text, err := jsonfile.Encode(jsonfile.Kind{Magic: magic, Newest: version}, &other)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const old = `{"magic":"rwsink-export","version":1,"source":"","format":"json","from":1,"to":2,"matchers":null,"rangeMs":3}` + "\n"
	ours := line(3, "rwsink-export", 2)
	for text, want := range map[string]string{
		"{}\n":                                 `magic "", want "rwsink-export"`,
		"x\n":                                  "invalid character",
		"x":                                    "not the ledger",
		`{"magic":"mine"}`:                     "not the ledger",
		line(2, "rwsink-block", 2):             `magic "rwsink-block"`,
		line(4, "rwsink-export", 2):            "has version 4, this rwsink knows 3: use a newer rwsink",
		line(2, "rwsink-export", 3):            "another export",
		strings.ReplaceAll(ours, ":3,", ":4,"): "version 4, want 1 to 3, with checksum",
		strings.ReplaceAll(ours, `:1,`, `:0,`): "checksum",
		ours + "x\n":                           "invalid character",
		ours + `{"begin":1,"done":t`:           "",
		ours[:30]:                              "",
		ours[:3]:                               "",
		old + `{"begin":1,"done":true}` + "\n": "",

		line(2, "rwsink-export", 2) + `{"begin":1,"done":true}` + "\n": "",
		ours + `{"begin":1,"done":true}` + "\n":                        "entry 1: no checksum at its end: choose another output",
		strings.Replace(old, ":2,", ":3,", 1):                          "another export",
		"":                                                             "",
	} {
		path := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := findLedger(path, head)
		if err == nil {
			err = l.close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if left, err := os.ReadFile(path); err != nil || want != "" && string(left) != text {
			t.Errorf("%q became %q, %v", text, left, err)
		}
	}
}

// TestDamagedLedgerEntry flips every bit of the entries of a ledger: it is refused, and never
// takes a range for finished that is not, nor the file for shorter than it is.
func TestDamagedLedgerEntry(t *testing.T) {
	path, head := filepath.Join(t.TempDir(), "ledger"), ledgerHead{Format: JSON, RangeMs: 10}
	l, err := beginLedger(path, head)
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err := errors.Join(err, l.note(ledgerEntry{Begin: 5}),
		l.note(ledgerEntry{Begin: 5, Done: true, Stamp: "ab", Samples: 20, Start: 10, End: 1234}), l.close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := len(first); at < len(whole)-1; at++ {
		for bit := range 8 {
			text := slices.Clone(whole)
			text[at] ^= 1 << bit
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if l, err := findLedger(path, head); err == nil {
				t.Errorf("byte %d of %d, bit %d: %+v", at-len(first), len(whole)-len(first), bit, l.entries)
				_ = l.close()
			}
		}
	}
}
