package transfer_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rwsink/rwsink/internal/fixture"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/transfer"
)

// childEnv makes the test's binary a process that imports or exports, to be killed.
const childEnv = "RWSINK_TRANSFER_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := child(strings.Split(job, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child does a job: what, data directory, input or output.
func child(job []string) error {
	ctx := context.Background()
	if job[0] == "import" {
		_, err := transfer.Import(ctx, transfer.ImportOptions{Store: options(job[1]), Inputs: job[2:], From: math.MinInt64, To: math.MaxInt64, Memory: 64 << 10})
		return err
	}
	_, err := transfer.Export(ctx, transfer.ExportOptions{Store: options(job[1]), Output: job[2], Format: transfer.Format(job[0]), From: math.MinInt64, To: math.MaxInt64})
	return err
}

// kills is how often a job is killed, and in a soak.
const kills, soakKills = 5, 60

// killed runs a job many times, each killed at another moment of the time that
// it took at first in scratch, calls after behind each, and then runs it to its end.
func killed(t *testing.T, scratch, job []string, after func()) {
	t.Helper()
	command := func(job []string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(job, "\n"))
		cmd.Stderr = os.Stderr
		return cmd
	}
	began := time.Now()
	must(t, command(scratch).Run())
	took := time.Since(began)
	kills := kills
	if os.Getenv("RWSINK_SOAK") != "" {
		kills = soakKills
	}
	for k := range kills {
		cmd := command(job)
		must(t, cmd.Start())
		time.Sleep(took * time.Duration(k+1) / time.Duration(kills+1))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		after()
	}
	must(t, command(job).Run())
}

// TestImportKilled kills imports of text and of blocks at many moments: nothing
// is damaged, nothing left behind, and the repetition completes it.
func TestImportKilled(t *testing.T) {
	dir, _, _ := randomDir(t, true)
	for _, format := range []transfer.Format{transfer.JSON, transfer.Blocks} {
		in := filepath.Join(t.TempDir(), "in")
		export(t, transfer.ExportOptions{Store: options(dir), Output: in, Format: format, From: math.MinInt64, To: math.MaxInt64})
		base := fixture.QuickDir(t)
		whole, into := filepath.Join(base, "whole"), filepath.Join(base, "into")
		killed(t, []string{"import", whole, in}, []string{"import", into, in}, func() {
			if store.Exists(into) != nil {
				return // killed before there was a directory
			}
			c, err := store.Check(context.Background(), into, store.CheckOptions{Fault: func(err error) { t.Error(err) }, Note: func(string) {}})
			if err != nil || c.Faults > 0 {
				t.Errorf("%v, %v", c, err)
			}
		})
		want := readDir(t, whole)
		same(t, string(format), readDir(t, into), want)
		if len(want) < 1000 {
			t.Errorf("only %d samples", len(want))
		}
		if a, b := left(t, whole), left(t, into); !slices.Equal(a, b) {
			t.Errorf("%s: %q are left, want %q", format, b, a)
		}
		settle := func(dir string) int64 {
			s, err := store.OpenOffline(context.Background(), options(dir))
			must(t, err)
			must(t, s.Flush(context.Background()))
			must(t, s.Close())
			return bytesOf(t, dir)
		}
		if a, b := settle(whole), settle(into); float64(b) > 1.02*float64(a) {
			t.Errorf("%s: %d bytes, %d when it was not killed", format, b, a)
		}
	}
}

// left returns the names in a data directory, and those in its blocks that are no block's.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, sub := range []string{dir, filepath.Join(dir, "blocks")} {
		entries, err := os.ReadDir(sub)
		must(t, err)
		for _, e := range entries {
			if len(e.Name()) != 26 {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

func bytesOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		n += st.Size()
		return err
	}))
	return n
}

// TestExportKilled kills exports of either format at many moments; then the
// output is what one run gives.
func TestExportKilled(t *testing.T) {
	dir, _, want := randomDir(t, true)
	for _, format := range []transfer.Format{transfer.JSON, transfer.Blocks} {
		base := fixture.QuickDir(t)
		whole, out := filepath.Join(base, "whole"), filepath.Join(base, "out")
		killed(t, []string{string(format), dir, whole}, []string{string(format), dir, out}, func() {})
		if format == transfer.JSON {
			a, err := os.ReadFile(whole)
			must(t, err)
			b, err := os.ReadFile(out)
			must(t, err)
			if string(a) != string(b) {
				t.Errorf("%d bytes, want %d", len(b), len(a))
			}
			continue
		}
		got, _ := readStandard(t, out)
		var texts []string
		for _, s := range want {
			texts = append(texts, standardText(s))
		}
		slices.Sort(got)
		slices.Sort(texts)
		same(t, "blocks", got, texts)
		entries, err := os.ReadDir(out)
		must(t, err)
		for _, e := range entries {
			if len(e.Name()) != 26 && e.Name() != "rwsink-export.json" && e.Name() != "wal" {
				t.Errorf("%s is left", e.Name())
			}
		}
	}
}

// TestExportAgain changes the directory between two exports: the second writes
// what has changed, and the output is that of a new one.
func TestExportAgain(t *testing.T) {
	t.Parallel()
	dir, newest, _ := randomDir(t, false)
	s, err := store.OpenOffline(context.Background(), options(dir))
	must(t, err)
	must(t, s.Flush(context.Background()))
	must(t, s.Close())
	o := transfer.ExportOptions{Store: options(dir), From: math.MinInt64, To: math.MaxInt64}
	outs := map[transfer.Format]string{transfer.JSON: filepath.Join(t.TempDir(), "lines"), transfer.Blocks: filepath.Join(t.TempDir(), "blocks")}
	for o.Format, o.Output = range outs {
		export(t, o)
	}
	s, err = store.OpenOffline(context.Background(), options(dir))
	must(t, err)
	rng := newRand(t)
	for range 3 {
		b := s.Head().NewBatch()
		put(t, s.Head(), b, rng, 0, newest-rng.Int64N(4*24*3600)*1000, 0)
		_, err := s.Head().Commit(context.Background(), b)
		must(t, err)
		b.Release()
	}
	must(t, s.Close())
	for o.Format, o.Output = range outs {
		again := export(t, o)
		if again.Kept == again.Ranges || o.Format == transfer.Blocks && again.Kept == 0 {
			t.Errorf("%s: %+v: want those that changed written again", o.Format, again)
		}
		fresh := o
		fresh.Output = filepath.Join(t.TempDir(), "fresh")
		want := export(t, fresh)
		if again.Samples != want.Samples || again.Ranges != want.Ranges {
			t.Errorf("%s: %+v, want %+v", o.Format, again, want)
		}
		if o.Format == transfer.JSON {
			a, err := os.ReadFile(o.Output)
			must(t, err)
			b, err := os.ReadFile(fresh.Output)
			must(t, err)
			if string(a) != string(b) {
				t.Errorf("%d bytes, want %d", len(a), len(b))
			}
			continue
		}
		got, _ := readStandard(t, o.Output)
		expect, _ := readStandard(t, fresh.Output)
		slices.Sort(got)
		slices.Sort(expect)
		same(t, "blocks", got, expect)
	}
	// What a Prometheus has worked on is left alone.
	blocks, err := filepath.Glob(filepath.Join(outs[transfer.Blocks], "0*"))
	must(t, err)
	must(t, os.RemoveAll(blocks[0]))
	o.Format, o.Output = transfer.Blocks, outs[transfer.Blocks]
	if _, err := transfer.Export(context.Background(), o); err == nil || !strings.Contains(err.Error(), filepath.Base(blocks[0])) {
		t.Errorf("a block is gone: %v", err)
	}
}
