package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/transfer"
)

const hour = int64(3600 * 1000)

// prometheusDir is a data directory written by Prometheus's own library, with
// blocks that overlap (late samples), native histograms, tombstones, and a head.
// It returns what of it is in blocks and not deleted.
func prometheusDir(t *testing.T) (dir string, want []string) {
	t.Helper()
	dir = filepath.Join(fixture.QuickDir(t), "prometheus")
	o := tsdb.DefaultOptions()
	o.OutOfOrderTimeWindow = 48 * hour
	o.RetentionDuration = 0
	o.BlockReloadInterval = time.Hour // nothing happens by itself
	db, err := tsdb.Open(dir, promslog.NewNopLogger(), nil, o, nil)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	db.DisableCompactions()
	base := time.Now().Add(-60*time.Hour).UnixMilli() / (2 * hour) * (2 * hour)
	app := db.Appender(context.Background())
	put := func(i int, ts int64) {
		t.Helper()
		ls := labels.FromStrings(labels.MetricName, "m", "i", fmt.Sprint(i))
		var err error
		switch {
		case i < 2 && (ts/1000)%7 == 0:
			_, err = app.Append(0, ls, ts, math.Float64frombits(value.StaleNaN))
		case i < 2:
			_, err = app.Append(0, ls, ts, float64(ts%1000)/8)
		case i == 2:
			_, err = app.AppendHistogram(0, ls, ts, tsdbutil.GenerateTestHistogram(ts/15000%100), nil)
		default:
			_, err = app.AppendHistogram(0, ls, ts, nil, tsdbutil.GenerateTestFloatHistogram(ts/15000%100))
		}
		must(t, err)
	}
	for ts := base; ts < base+9*hour; ts += 60_000 {
		for i := range 4 {
			put(i, ts)
		}
	}
	must(t, app.Commit())
	must(t, db.Compact(context.Background()))
	app = db.Appender(context.Background())
	for ts := base + 30_000; ts < base+3*hour; ts += 60_000 { // late: between the others
		for i := range 4 {
			put(i, ts)
		}
	}
	must(t, app.Commit())
	must(t, db.CompactOOOHead(context.Background()))
	must(t, db.Delete(context.Background(), base+hour, base+hour+1000_000, labels.MustNewMatcher(labels.MatchEqual, "i", "1")))
	var blocks []tsdb.BlockMeta
	for _, b := range db.Blocks() {
		blocks = append(blocks, b.Meta())
		q, err := tsdb.NewBlockQuerier(b, math.MinInt64, math.MaxInt64)
		must(t, err)
		set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
		for set.Next() {
			want = appendStandard(want, set.At().Labels().Get("i"), set.At().Iterator(nil))
		}
		must(t, errors.Join(set.Err(), q.Close()))
	}
	if len(tsdb.OverlappingBlocks(blocks)) == 0 || len(blocks) < 4 {
		t.Fatalf("%d blocks, none overlap", len(blocks))
	}
	slices.Sort(want)
	return dir, want
}

func TestImportPrometheus(t *testing.T) {
	t.Parallel()
	dir, want := prometheusDir(t)
	into := filepath.Join(fixture.QuickDir(t), "into")
	out, said := importInto(t, into, dir)
	got := readDir(t, into)
	slices.Sort(got)
	if out.Samples != uint64(len(want)) || out.Refused() {
		t.Errorf("%s, want %d samples", out, len(want))
	}
	same(t, "what was imported", got, want)
	if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, filepath.Join(dir, "wal")+": not read") }) {
		t.Errorf("the head is not named: %q", said)
	}
	// One block after another, in any order, comes to the same.
	one := filepath.Join(fixture.QuickDir(t), "one")
	blocks, err := filepath.Glob(filepath.Join(dir, "0*"))
	must(t, err)
	slices.Reverse(blocks)
	for _, b := range blocks {
		out, said := importInto(t, one, b)
		if out.Refused() || len(said) > 0 {
			t.Errorf("%s: %s %q", b, out, said)
		}
	}
	got = readDir(t, one)
	slices.Sort(got)
	same(t, "block by block", got, want)
	if c, err := store.Check(context.Background(), one, store.CheckOptions{Fault: func(err error) { t.Error(err) }, Note: func(string) {}}); err != nil || c.Faults > 0 {
		t.Errorf("%v, %v", c, err)
	}
}

// TestImportDamaged damages one chunk of one block: a series of it is named, and
// all else is there.
func TestImportDamaged(t *testing.T) {
	t.Parallel()
	dir, want := prometheusDir(t)
	blocks, err := filepath.Glob(filepath.Join(dir, "0*"))
	must(t, err)
	name := filepath.Join(blocks[0], "chunks", "000001")
	data, err := os.ReadFile(name)
	must(t, err)
	data[40] ^= 1
	must(t, os.WriteFile(name, data, 0o600))
	must(t, os.RemoveAll(filepath.Join(blocks[1], "index")))
	must(t, os.WriteFile(filepath.Join(blocks[2], "meta.json"), []byte("{}"), 0o600))
	endless := filepath.Join(dir, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	must(t, os.Mkdir(endless, 0o700))
	must(t, os.WriteFile(filepath.Join(endless, "meta.json"), []byte(`{"version":1,"minTime":-9223372036854775808,"maxTime":9223372036854775807,"stats":{"numSamples":1}}`), 0o600))
	into := filepath.Join(fixture.QuickDir(t), "in[to") // no pattern
	s, err := store.OpenOffline(context.Background(), options(into))
	must(t, err)
	must(t, s.Close())
	left := filepath.Join(into, "import-1.tmp")
	must(t, os.WriteFile(left, nil, 0o600))
	out, said := importInto(t, into, dir)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed import left is still there: %v", err)
	}
	got := readDir(t, into)
	if out.Samples != uint64(len(got)) || out.Bad < 4 || len(got) < len(want)/4 {
		t.Errorf("%s, %d samples are there of %d", out, len(got), len(want))
	}
	for _, want := range []string{blocks[0] + ": series {__name__=", blocks[1] + ": ", blocks[2] + ": not a block of Prometheus", endless + ": reaches from any to "} {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q is not said: %q", want, said)
		}
	}
	for _, s := range got {
		if _, ok := slices.BinarySearch(want, s); !ok {
			t.Fatalf("%s was never there", s)
		}
	}
}

// TestImportRefusesInputs gives what is no input at all: nothing is done then.
func TestImportRefusesInputs(t *testing.T) {
	t.Parallel()
	dir, _, _ := randomDir(t, false)
	ours, err := filepath.Glob(filepath.Join(dir, "blocks", "0*"))
	must(t, err)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	young := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(young, "wal", "00000000"), 0o700))
	for want, o := range map[string]transfer.ImportOptions{
		"no such file":                 {Inputs: []string{file + "x"}},
		"neither a block of":           {Inputs: []string{t.TempDir()}},
		"no blocks in it yet":          {Inputs: []string{young}},
		"is a block of rwsink":         {Inputs: []string{ours[0]}},
		"a data directory of rwsink":   {Inputs: []string{dir}},
		"is after --to":                {Inputs: []string{file}, From: 2000, To: 1000},
		"does not go with a file":      {Inputs: []string{file}, Format: transfer.Blocks},
		"does not go with a directory": {Inputs: []string{t.TempDir()}, Format: transfer.JSON},
	} {
		into := filepath.Join(t.TempDir(), "into")
		o.Store = options(into)
		if _, err := transfer.Import(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := os.Stat(into); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the directory was made: %v", want, err)
		}
	}
	// A directory in use is said to be.
	s, err := store.OpenOffline(context.Background(), options(dir))
	must(t, err)
	if _, err := transfer.Import(context.Background(), transfer.ImportOptions{Store: options(dir), Inputs: []string{file}}); err == nil || !strings.Contains(err.Error(), "stop the rwsink that serves it") {
		t.Errorf("in use: %v", err)
	}
	must(t, s.Close())
}

// TestImportBeyondRetention counts the samples of blocks that are too old, as a
// whole or in part.
func TestImportBeyondRetention(t *testing.T) {
	t.Parallel()
	dir, want := prometheusDir(t)
	o := options(filepath.Join(fixture.QuickDir(t), "into"))
	var times []int64
	for _, s := range want {
		times = append(times, timeOf(s))
	}
	slices.Sort(times)
	bound := times[len(times)/2]
	now := time.UnixMilli(bound).Add(15 * 24 * time.Hour)
	o.Head.Accept = head.Accept{Now: func() time.Time { return now }, Retention: 15 * 24 * time.Hour, Window: -1}
	kept := 0
	for _, ts := range times {
		if ts >= bound {
			kept++
		}
	}
	var said []string
	out, err := transfer.Import(context.Background(), transfer.ImportOptions{
		Store: o, Inputs: []string{dir}, From: math.MinInt64, To: math.MaxInt64, Say: func(s string) { said = append(said, s) },
	})
	must(t, err)
	// What is deleted in a block that is left out as a whole is not told from the rest.
	if out.Samples != uint64(kept) || out.TooOld < uint64(len(times)-kept) || out.TooOld > uint64(len(times)-kept)+100 || len(said) < 2 {
		t.Errorf("%s, want %d and %d\n%s", out, kept, len(times)-kept, strings.Join(said, "\n"))
	}
}
