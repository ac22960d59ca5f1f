package transfer_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/transfer"
)

// importWith imports inputs with labels added.
func importWith(t testing.TB, dir string, extra labels.Labels, inputs ...string) (transfer.Imported, []string) {
	t.Helper()
	var said []string
	out, err := transfer.Import(context.Background(), transfer.ImportOptions{
		Store: options(dir), Inputs: inputs, From: math.MinInt64, To: math.MaxInt64, Labels: extra, Say: func(s string) { said = append(said, s) },
	})
	must(t, err)
	return out, said
}

// named returns the values of a directory by series and time.
func named(t testing.TB, dir string) map[string]float64 {
	t.Helper()
	s, err := store.OpenOffline(context.Background(), options(dir))
	must(t, err)
	defer func() { must(t, s.Close()) }()
	v := s.View()
	defer v.Close()
	list, err := v.SelectAny(context.Background(), math.MinInt64, math.MaxInt64, nil)
	must(t, err)
	out := map[string]float64{}
	r := v.NewReader()
	for i := range list {
		must(t, r.Read(&list[i], math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
			for k, at := range run.T {
				out[fmt.Sprint(list[i].Labels, " ", at)] = run.V[k]
			}
			return nil
		}))
	}
	return out
}

// TestImportAddsLabels imports the same series from text, JSON lines and blocks with
// labels that sort first, in between and last: they are added where a series has
// none of that name; series that become one are one.
func TestImportAddsLabels(t *testing.T) {
	rng := newRand(t)
	extra := labels.FromStrings("A", "1", "region", "eu", "zzz", "9")
	begin := time.Now().Add(-30*time.Hour).UnixMilli() / 1000 * 1000
	var json, text strings.Builder
	plain, want := map[string]float64{}, map[string]float64{}
	write := func(ls labels.Labels, at int64, v float64) {
		fmt.Fprintf(&json, `{"metric":%s,"values":[%g],"timestamps":[%d]}`+"\n", jsonOf(ls), v, at)
		fmt.Fprintf(&text, "%s%s %g %d.%03d\n", ls.Get(labels.MetricName), strings.ReplaceAll(labels.NewBuilder(ls).Del(labels.MetricName).Labels().String(), ", ", ","), v, at/1000, at%1000)
		plain[fmt.Sprint(ls, " ", at)] = v
		b := labels.NewBuilder(ls)
		extra.Range(func(l labels.Label) {
			if !ls.Has(l.Name) {
				b.Set(l.Name, l.Value)
			}
		})
		want[fmt.Sprint(b.Labels(), " ", at)] = v
	}
	for n := range int64(400) {
		b := labels.NewBuilder(labels.FromStrings(labels.MetricName, "m", "k", fmt.Sprint(rng.IntN(6))))
		for name, values := range map[string][]string{"A": {"0", "1"}, "region": {"eu", "us"}, "zzz": {"9", "0"}, "q": {"", "1"}} {
			if rng.IntN(3) == 0 {
				b.Set(name, values[rng.IntN(2)])
			}
		}
		write(b.Labels(), begin+n*137_000, float64(n))
	}
	// At one time the series that has more of the labels itself wins.
	write(labels.FromStrings(labels.MetricName, "n"), begin, 1)
	write(labels.FromStrings(labels.MetricName, "n", "region", "eu"), begin, 2)
	write(labels.FromStrings(labels.MetricName, "n", "region", "eu", "zzz", "9"), begin, 3)
	text.WriteString("# EOF\n")
	dir := fixture.QuickDir(t)
	for name, s := range map[string]string{"lines.json": json.String(), "text": text.String()} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(s), 0o600))
	}
	into := filepath.Join(dir, "plain")
	importInto(t, into, filepath.Join(dir, "lines.json"))
	if got := named(t, into); !maps.Equal(got, plain) {
		t.Fatalf("without labels: %d samples, want %d", len(got), len(plain))
	}
	export(t, transfer.ExportOptions{Store: options(into), Output: filepath.Join(dir, "blocks"), Format: transfer.Blocks, From: math.MinInt64, To: math.MaxInt64})
	for _, input := range []string{"lines.json", "text", "blocks"} {
		into := filepath.Join(dir, "into-"+input)
		out, said := importWith(t, into, extra, filepath.Join(dir, input))
		if out.Refused() || int(out.Samples) != len(want) || out.Repeated != 2 {
			t.Errorf("%s: %s %q, want %d samples, 2 given again", input, out, said, len(want))
		}
		if got := named(t, into); !maps.Equal(got, want) {
			t.Errorf("%s: %d samples, want %d", input, len(got), len(want))
			for _, k := range slices.Sorted(maps.Keys(want)) {
				if v, ok := got[k]; !ok || v != want[k] {
					t.Fatalf("%s is %v (there: %t), want %v", k, v, ok, want[k])
				}
			}
		}
		if again, _ := importWith(t, into, extra, filepath.Join(dir, input)); again.Samples > 0 || int(again.Same) != len(want) {
			t.Errorf("%s, again: %s", input, again)
		}
	}
}

// jsonOf writes labels whose names and values need no escapes.
func jsonOf(ls labels.Labels) string {
	var parts []string
	ls.Range(func(l labels.Label) { parts = append(parts, fmt.Sprintf("%q:%q", l.Name, l.Value)) })
	return "{" + strings.Join(parts, ",") + "}"
}

// TestImportRefusesTooManyLabels: what has room without the added labels and none with them is refused by name.
func TestImportRefusesTooManyLabels(t *testing.T) {
	dir := fixture.QuickDir(t)
	b := labels.NewBuilder(labels.FromStrings(labels.MetricName, "full"))
	for i := range 255 {
		b.Set(fmt.Sprintf("l%03d", i), "v")
	}
	at := time.Now().UnixMilli()
	lines := fmt.Sprintf(`{"metric":%s,"values":[1],"timestamps":[%d]}`+"\n"+`{"metric":{"__name__":"m"},"values":[1],"timestamps":[%d]}`+"\n", jsonOf(b.Labels()), at, at)
	input := filepath.Join(dir, "lines.json")
	must(t, os.WriteFile(input, []byte(lines), 0o600))
	plain := filepath.Join(dir, "plain")
	if out, said := importInto(t, plain, input); out.Samples != 2 {
		t.Fatalf("%s %q", out, said)
	}
	export(t, transfer.ExportOptions{Store: options(plain), Output: filepath.Join(dir, "blocks"), Format: transfer.Blocks, From: math.MinInt64, To: math.MaxInt64})
	for _, input := range []string{input, filepath.Join(dir, "blocks")} {
		out, said := importWith(t, filepath.Join(dir, "into-"+filepath.Base(input)), labels.FromStrings("region", "eu"), input)
		if out.Samples != 1 || out.Bad != 1 || len(said) != 1 || !strings.Contains(said[0], "257 labels, the limit is 256") {
			t.Errorf("%s: %s %q", input, out, said)
		}
	}
}
