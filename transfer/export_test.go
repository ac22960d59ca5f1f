package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/transfer"
)

// readStandard reads blocks with Prometheus's library, which must find no two
// that overlap and no chunk of more than 120 samples.
func readStandard(t *testing.T, dir string) (out []string, metas []tsdb.BlockMeta) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if len(name.Name()) != 26 {
			continue
		}
		b, err := tsdb.OpenBlock(promslog.NewNopLogger(), filepath.Join(dir, name.Name()), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		metas = append(metas, b.Meta())
		q, err := tsdb.NewBlockQuerier(b, math.MinInt64, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
		for set.Next() {
			out = appendStandard(out, set.At().Labels().Get("i"), set.At().Iterator(nil))
		}
		cq, err := tsdb.NewBlockChunkQuerier(b, math.MinInt64, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		all := cq.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"))
		for all.Next() {
			for it := all.At().Iterator(nil); it.Next(); {
				if n := it.At().Chunk.NumSamples(); n > 120 {
					t.Errorf("a chunk of %d samples", n)
				}
			}
		}
		if err := errors.Join(set.Err(), all.Err(), q.Close(), cq.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(metas, func(a, b tsdb.BlockMeta) int { return int(a.MinTime - b.MinTime) })
	if o := tsdb.OverlappingBlocks(metas); len(o) > 0 {
		t.Errorf("blocks overlap: %v", o)
	}
	return out, metas
}

func appendStandard(out []string, name string, it promenc.Iterator) []string {
	for {
		run := chunkenc.Samples{}
		kind := it.Next()
		switch kind {
		case promenc.ValNone:
			return out
		case promenc.ValFloat:
			ts, v := it.At()
			run.T, run.V = []int64{ts}, []float64{v}
		case promenc.ValHistogram:
			ts, h := it.AtHistogram(nil)
			run = chunkenc.Samples{Kind: chunkenc.KindHistogram, T: []int64{ts}, H: []*histogram.Histogram{h}}
		default:
			ts, fh := it.AtFloatHistogram(nil)
			run = chunkenc.Samples{Kind: chunkenc.KindFloatHistogram, T: []int64{ts}, FH: []*histogram.FloatHistogram{fh}}
		}
		out = append(out, fmt.Sprintf("%s %d %d %s", name, run.T[0], it.AtST(), valueText(&run, 0)))
	}
}

// timeOf returns the timestamp of "i t st value".
func timeOf(s string) (ts int64) {
	var i string
	_, _ = fmt.Sscan(s, &i, &ts)
	return ts
}

// standardText is "i t st value" as blocks of Prometheus can hold it: without a
// start timestamp.
func standardText(s string) string {
	f := strings.SplitN(s, " ", 4)
	return strings.Join([]string{f[0], f[1], "0", f[3]}, " ")
}

func export(t *testing.T, o transfer.ExportOptions) transfer.Exported {
	t.Helper()
	out, err := transfer.Export(context.Background(), o)
	must(t, err)
	return out
}

// TestExportIsReadByPrometheus exports everything, and a part by range and
// matchers, and reads the same.
func TestExportIsReadByPrometheus(t *testing.T) {
	t.Parallel()
	dir, newest, want := randomDir(t, true)
	from, to := newest-30*3600*1000, newest-3600*1000
	for _, tc := range []struct {
		name string
		o    transfer.ExportOptions
		keep func(string) bool
	}{
		{"everything", transfer.ExportOptions{From: math.MinInt64, To: math.MaxInt64}, func(string) bool { return true }},
		{"in long blocks", transfer.ExportOptions{From: math.MinInt64, To: math.MaxInt64, Range: 36 * time.Hour}, func(string) bool { return true }},
		{"a range and two selectors", transfer.ExportOptions{From: from, To: to, Matchers: [][]*labels.Matcher{
			{labels.MustNewMatcher(labels.MatchRegexp, "i", "[14]")},
			{labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"), labels.MustNewMatcher(labels.MatchRegexp, "i", "[46]")},
		}}, func(s string) bool {
			return strings.ContainsRune("146", rune(s[0])) && timeOf(s) >= from && timeOf(s) <= to
		}},
		{"nothing", transfer.ExportOptions{From: 0, To: 1}, func(string) bool { return false }},
	} {
		tc.o.Store, tc.o.Output, tc.o.Format = options(dir), filepath.Join(t.TempDir(), "out"), transfer.Blocks
		out := export(t, tc.o)
		got, metas := readStandard(t, tc.o.Output)
		var part []string
		for _, s := range want {
			if tc.keep(s) {
				part = append(part, standardText(s))
			}
		}
		if out.Samples != uint64(len(part)) || out.Ranges != len(metas) || tc.name != "nothing" && out.Ranges < 2 {
			t.Errorf("%s: %+v, want %d samples", tc.name, out, len(part))
		}
		slices.Sort(got)
		slices.Sort(part)
		same(t, tc.name, got, part)
		if again := export(t, tc.o); again.Kept != out.Ranges || again.Samples != out.Samples {
			t.Errorf("%s, again: %+v, want all of %+v kept", tc.name, again, out)
		}
	}
	longest := transfer.ExportOptions{Store: options(dir), Output: filepath.Join(t.TempDir(), "out"), Format: transfer.Blocks,
		From: math.MinInt64, To: math.MaxInt64, Range: math.MaxInt64}
	if out := export(t, longest); out.Samples != uint64(len(want)) || out.Ranges > 2 { // before and after 1970
		t.Errorf("in ranges of the longest duration: %+v, want %d samples", out, len(want))
	}
	same(t, "the directory after the exports", readDir(t, dir), want)
}

func TestExportRefuses(t *testing.T) {
	t.Parallel()
	dir, _, _ := randomDir(t, false)
	full := t.TempDir()
	must(t, os.WriteFile(filepath.Join(full, "x"), []byte("x"), 0o600))
	for want, o := range map[string]transfer.ExportOptions{
		"is not empty":        {Store: options(dir), Output: full},
		"it has 1 bytes":      {Store: options(dir), Output: filepath.Join(full, "x"), Format: transfer.JSON},
		"no data directory":   {Store: options(full), Output: t.TempDir()},
		"00:00:02Z, is after": {Store: options(dir), Output: t.TempDir(), From: 2000, To: 1000},
		"go to a directory":   {Store: options(dir), Output: transfer.Stdout},
		`format "x"`:          {Store: options(dir), Output: t.TempDir(), Format: "x"},
	} {
		if o.Format == "" {
			o.Format = transfer.Blocks
		}
		if _, err := transfer.Export(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	// Nothing of the directory itself is written to, on whatever way.
	must(t, os.Symlink(filepath.Join(dir, "wal"), filepath.Join(full, "link")))
	for _, to := range []string{filepath.Join(dir, "LOCK"), filepath.Join(dir, "blocks", "01M8PE560V7R3XSSHVJV05ZA0Y"), filepath.Join(full, "link", "new")} {
		o := transfer.ExportOptions{Store: options(dir), Output: to, Format: transfer.JSON}
		if _, err := transfer.Export(context.Background(), o); err == nil || !strings.Contains(err.Error(), "of the data directory") {
			t.Errorf("export to %s: %v", to, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(t.TempDir(), "out")
	o := transfer.ExportOptions{Store: options(dir), Output: out, Format: transfer.Blocks, From: math.MinInt64, To: math.MaxInt64}
	if _, err := transfer.Export(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("an export that is ended: %v", err)
	}
	// Another export into the output of one is refused by name.
	o.Output = t.TempDir()
	export(t, o)
	o.To = 1_700_000_000_123
	o.Matchers = [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, "i", "1 2"), labels.MustNewMatcher(labels.MatchNotEqual, "j", "")}}
	const another = "of another export: of --format=blocks --block-duration=2h0m0s, and not of --format=blocks --block-duration=2h0m0s --to=2023-11-14T22:13:20.123Z --match='{i=\"1 2\",j!=\"\"}': choose another output"
	if _, err := transfer.Export(context.Background(), o); err == nil || !strings.Contains(err.Error(), another) {
		t.Errorf("another export into the same directory: %v", err)
	}
}

// TestDamagedBlock damages a chunk of the directory: an export or an import that reads it
// fails and names it; the next goes on without that chunk.
func TestDamagedBlock(t *testing.T) {
	t.Parallel()
	sound, _, want := randomDir(t, false)
	lines := filepath.Join(t.TempDir(), "lines")
	export(t, transfer.ExportOptions{Store: options(sound), Output: lines, Format: transfer.JSON, From: math.MinInt64, To: math.MaxInt64})
	for name, do := range map[string]func(dir, out string) (samples uint64, err error){
		"export": func(dir, out string) (uint64, error) {
			got, err := transfer.Export(context.Background(), transfer.ExportOptions{Store: options(dir), Output: out, Format: transfer.JSON, From: math.MinInt64, To: math.MaxInt64})
			return got.Samples, err
		},
		"import": func(dir, _ string) (uint64, error) {
			got, err := transfer.Import(context.Background(), transfer.ImportOptions{Store: options(dir), Inputs: []string{lines}, From: math.MinInt64, To: math.MaxInt64})
			return got.Samples + got.Same, err
		},
	} {
		dir, out := filepath.Join(fixture.QuickDir(t), "data"), filepath.Join(t.TempDir(), "out")
		must(t, os.CopyFS(dir, os.DirFS(sound)))
		must(t, os.RemoveAll(filepath.Join(dir, "wal"))) // which would have what is lost
		chunks, err := filepath.Glob(filepath.Join(dir, "blocks", "0*", "chunks", "000001"))
		must(t, err)
		data, err := os.ReadFile(chunks[0])
		must(t, err)
		data[len(data)/2] ^= 1
		must(t, os.WriteFile(chunks[0], data, 0o600))
		_, err = do(dir, out)
		if err == nil || !strings.Contains(err.Error(), chunks[0]) || !strings.Contains(err.Error(), "the same command again goes on") {
			t.Errorf("%s: %v, want an error that names %s and what to do", name, err, chunks[0])
		}
		got, err := do(dir, out)
		if least := uint64(len(want) / 2); err != nil || got < least {
			t.Errorf("%s, again: %d samples, %v, want at least %d", name, got, err, least)
		}
		aside, err := filepath.Glob(filepath.Join(dir, "quarantine", "0*.damaged"))
		if err != nil || len(aside) != 1 {
			t.Errorf("%s: set aside %q, %v", name, aside, err)
		}
		if c, err := store.Check(context.Background(), dir, store.CheckOptions{Fault: func(err error) { t.Error(err) }, Note: func(string) {}}); err != nil || c.Faults > 0 {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

// TestExportOfNothing tells what the directory holds, whatever is asked for.
func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	dir, newest, _ := randomDir(t, false)
	o := transfer.ExportOptions{Store: options(dir), Output: filepath.Join(t.TempDir(), "out"), Format: transfer.JSON, From: 0, To: 1000}
	got := export(t, o)
	if lo, hi := got.Held[0], got.Held[1]; got.Samples != 0 || lo > newest-3*24*hour || lo < newest-5*24*hour || hi < newest || hi > newest+4*hour {
		t.Errorf("%+v, want what reaches to %d", got, newest)
	}
	o.Store, o.Output = options(fixture.QuickDir(t)), filepath.Join(t.TempDir(), "out")
	s, err := store.OpenOffline(context.Background(), o.Store)
	must(t, err)
	must(t, s.Close())
	if got := export(t, o); got != (transfer.Exported{}) {
		t.Errorf("%+v of an empty directory", got)
	}
}

// TestExportOfTooManyRanges asks for more ranges than there is memory for, of a directory
// with a sample at the beginning of time; what is named of it is exported, that sample, too.
func TestExportOfTooManyRanges(t *testing.T) {
	t.Parallel()
	dir, newest, _ := randomDir(t, false)
	s, err := store.OpenOffline(context.Background(), options(dir))
	must(t, err)
	b := s.Head().NewBatch()
	put(t, s.Head(), b, newRand(t), 0, math.MinInt64, 0)
	_, err = s.Head().Commit(context.Background(), b)
	must(t, errors.Join(err, s.CloseOffline()))
	b.Release()
	o := transfer.ExportOptions{Store: options(dir), Output: filepath.Join(t.TempDir(), "out"), Format: transfer.JSON, From: math.MinInt64, To: math.MaxInt64}
	if _, err := transfer.Export(context.Background(), o); err == nil || !strings.Contains(err.Error(), "--from") {
		t.Errorf("all: %v", err)
	}
	if _, err := os.Stat(o.Output); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the output is there: %v", err)
	}
	o.To = math.MinInt64 + 1000
	if got := export(t, o); got.Samples != 1 {
		t.Errorf("%+v at the beginning of time", got)
	}
	o.Output += "2"
	o.To = math.MaxInt64
	o.From = newest - 10*24*hour
	if got := export(t, o); got.Samples == 0 || got.Held[0] > math.MinInt64 || got.Held[1] < newest {
		t.Errorf("%+v", got)
	}
}

// TestExportOfAnother exports a directory over the export of another, which is
// refused and changes nothing. Of one that has gone another way since it was
// copied, no range is taken for its own, though its log has come as far.
func TestExportOfAnother(t *testing.T) {
	t.Parallel()
	for _, format := range []transfer.Format{transfer.JSON, transfer.Blocks} {
		out := filepath.Join(t.TempDir(), "out")
		var ids [2][]byte
		for i := range 2 {
			o := transfer.ExportOptions{Store: options(fixture.QuickDir(t)), Output: out, Format: format, From: math.MinInt64, To: math.MaxInt64}
			s, err := store.OpenOffline(context.Background(), o.Store)
			must(t, err)
			b := s.Head().NewBatch()
			put(t, s.Head(), b, newRand(t), i, 1_700_000_000_000, 0)
			_, err = s.Head().Commit(context.Background(), b)
			must(t, err)
			b.Release()
			must(t, s.Close())
			if i == 1 {
				refused := func() {
					t.Helper()
					before := files(t, filepath.Dir(out))
					_, err := transfer.Export(context.Background(), o)
					ids[1], _ = os.ReadFile(filepath.Join(o.Store.Path, "ID"))
					want := fmt.Sprintf("of another data directory: of that whose ID is %s, and not %s", strings.TrimSpace(string(ids[0])), strings.TrimSpace(string(ids[1])))
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v, want %q", format, err, want)
					}
					if after := files(t, filepath.Dir(out)); !maps.Equal(before, after) {
						t.Errorf("%s: the refused export has changed %v to %v", format, before, after)
					}
				}
				refused()
				if format == transfer.JSON { // whose ledger is there without it
					must(t, os.Rename(out, out+".away"))
					refused()
					must(t, os.Rename(out+".away", out))
				}
				must(t, os.WriteFile(filepath.Join(o.Store.Path, "ID"), ids[0], 0o600))
			}
			if got := export(t, o); got.Samples != 1 || got.Kept > 0 {
				t.Errorf("%s: %+v of directory %d", format, got, i)
			}
			ids[i], err = os.ReadFile(filepath.Join(o.Store.Path, "ID"))
			must(t, err)
			time.Sleep(2 * time.Millisecond) // logs are told by when they were begun
		}
	}
}

// TestExportOfASnapshot goes on with the export of the directory it was made of.
func TestExportOfASnapshot(t *testing.T) {
	t.Parallel()
	dir, _, want := randomDir(t, false)
	s, err := store.OpenOffline(context.Background(), options(dir))
	must(t, err)
	name, err := s.Snapshot(context.Background(), false)
	must(t, err)
	must(t, s.Close())
	o := transfer.ExportOptions{Store: options(dir), Output: filepath.Join(t.TempDir(), "out"), Format: transfer.Blocks, From: math.MinInt64, To: math.MaxInt64}
	first := export(t, o)
	o.Store = options(filepath.Join(dir, "snapshots", name))
	if got := export(t, o); got.Kept != first.Ranges || got.Samples != uint64(len(want)) {
		t.Errorf("%+v after %+v, want all of %d samples kept", got, first, len(want))
	}
}

// files returns the content of all files below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	}))
	return out
}
