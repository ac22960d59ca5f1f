package transfer_test

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/transfer"
)

// TestRoundTrip exports in either format, imports into an empty directory, and
// finds every bit again; and imports once more, which changes nothing.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	dir, _, want := randomDir(t, true)
	for _, format := range []transfer.Format{transfer.Blocks, transfer.JSON} {
		out := filepath.Join(t.TempDir(), "out")
		export(t, transfer.ExportOptions{Store: options(dir), Output: out, Format: format, From: math.MinInt64, To: math.MaxInt64})
		expect := want
		if format == transfer.Blocks {
			expect = nil
			for _, s := range want {
				expect = append(expect, standardText(s))
			}
		}
		into := filepath.Join(fixture.QuickDir(t), "into")
		got, said := importInto(t, into, out)
		if got.Samples != uint64(len(want)) || got.Refused() || len(said) > 0 {
			t.Errorf("%s: %s %q, want %d samples", format, got, said[:min(3, len(said))], len(want))
		}
		same(t, string(format), readDir(t, into), expect)
		blocks, err := os.ReadDir(filepath.Join(into, "blocks"))
		must(t, err)
		again, _ := importInto(t, into, out)
		if again.Samples+uint64(again.Blocks) != 0 || again.Same != uint64(len(want)) {
			t.Errorf("%s, again: %s, want all there", format, again)
		}
		same(t, string(format)+", again", readDir(t, into), expect)
		if after, err := os.ReadDir(filepath.Join(into, "blocks")); err != nil || len(after) != len(blocks) {
			t.Errorf("%d blocks after the second import, %d after the first, %v", len(after), len(blocks), err)
		}
	}
}

// TestImportEndsWithItsContext ends an import whose input neither goes on nor ends.
func TestImportEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, format := range []transfer.Format{transfer.JSON, transfer.OpenMetrics} {
		r, w := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			out, err := transfer.Import(ctx, transfer.ImportOptions{
				Store: options(filepath.Join(fixture.QuickDir(t), "into")), Inputs: []string{transfer.Stdin}, Stdin: r, Format: format,
				From: math.MinInt64, To: math.MaxInt64,
			})
			if out.Bad > 0 {
				err = errors.New(out.String())
			}
			ended <- err
		}()
		_, err := io.WriteString(w, "{")
		must(t, err)
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", format, err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: it goes on", format)
		}
		must(t, w.Close())
	}
}
