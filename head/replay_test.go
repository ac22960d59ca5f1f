package head_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
	"github.com/rwsink/rwsink/wal/record"
)

// TestReplayClosesContainersBetweenFrames replays a frame in the middle of which
// stands a sample that a block holds, for which the open container has to make
// way. Each frame must be wholly in one container: once a block is made of the
// first and the process ends, what the second has of the frame would be taken
// for held by the block.
func TestReplayClosesContainersBetweenFrames(t *testing.T) {
	for name, late := range map[string]sample{"floats": float(1, nowMs+400, 4), "a histogram": ints(1, nowMs+400, 4)} {
		t.Run(name, func(t *testing.T) {
			fs := memfs.New(1)
			p := mustStart(t, fs, nearOptions())
			p.stored(t, float(1, nowMs+100, 1))
			p.stored(t, float(1, nowMs+200, 2), float(1, nowMs+300, 3), late)
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			p = mustStartCovered(t, fs, nearOptions(), func(at int64, lsn wal.LSN) (wal.LSN, bool) { return 1, at == nowMs+300 && lsn == 2 })
			defer func() {
				if err := p.stop(); err != nil {
					t.Error(err)
				}
			}()
			list, err := p.head.Freeze(context.Background(), func(head.ContainerInfo) bool { return true })
			if err != nil || len(list) != 2 {
				t.Fatalf("%d containers, %v; want one from before the block and one from after", len(list), err)
			}
			for i, want := range []struct {
				to      wal.LSN
				samples int
			}{{1, 1}, {2, 2}} {
				from, to := list[i].Log()
				if from != want.to-1 || to != want.to || list[i].Samples() != want.samples {
					t.Errorf("container %d holds %d samples of the frames after %d up to %d, want %d of frame %d",
						i, list[i].Samples(), from, to, want.samples, want.to)
				}
			}
		})
	}
}

// TestReplayCounts replays a frame of floats and histograms of several times, some of which a block
// holds and some of which are of series that nobody named: what is placed and what is counted.
func TestReplayCounts(t *testing.T) {
	const held = nowMs + 300
	fs := memfs.New(1)
	p := mustStart(t, fs, nearOptions())
	h := ints(0, nowMs, 4).h
	payload := record.Append(nil, &record.Batch{
		Series: []record.Series{{Ref: 1, Labels: labels.FromStrings(labels.MetricName, "m", "i", "1")}},
		Floats: record.Floats{
			Ref: []uint64{1, 7, 600, 1, 1, 1},
			T:   []int64{nowMs, nowMs, nowMs, held, nowMs + 100, nowMs + 200},
			ST:  []int64{nowMs - 50, 0, 0, 0, 0, 0},
			V:   []float64{1, 2, 3, 4, 5, 6},
		},
		Histograms: []record.Histogram{{Ref: 7, T: nowMs + 400, H: h}, {Ref: 1, T: nowMs + 400, H: h}, {Ref: 1, T: held, H: h}},
	})
	if _, err := p.log.Begin(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.log.Write(wal.ClassWritten, payload); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.log.Commit(), p.stop()); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	o := nearOptions()
	o.Logger = slog.New(slog.NewTextHandler(&said, nil))
	p = mustStartCovered(t, fs, o, func(at int64, _ wal.LSN) (wal.LSN, bool) { return 0, at == held })
	started := float(1, nowMs, 1)
	started.st = nowMs - 50
	last := ints(1, nowMs+400, 4)
	m := oracle{}
	m.add(started, float(1, nowMs+100, 5), float(1, nowMs+200, 6), last)
	p.holds(t, m)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" samples=4 ", " in_blocks=2 ", " samples_without_series=3 "} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("want%s: %s", want, said.String())
		}
	}
}

// TestReplayOfSeriesOutOfOrder replays a log that names series in another order
// than that of their references, as requests side by side make it, without and
// with a delete in the middle: matchers find after it what they did before, and
// so did the delete.
func TestReplayOfSeriesOutOfOrder(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		t.Run(fmt.Sprintf("delete %t", deletes), func(t *testing.T) { replayOutOfOrder(t, deletes) })
	}
}

func replayOutOfOrder(t *testing.T, deletes bool) {
	const series = 200
	fs, m := memfs.New(1), oracle{}
	p := mustStart(t, fs, nearOptions())
	for i := range series {
		p.series(i)
	}
	write := func(from, to int) {
		for i := from; i < to; i++ {
			s := float(series-1-i*37%series, nowMs+int64(i), float64(i))
			p.stored(t, s)
			m.add(s)
		}
	}
	write(0, series/2)
	if deletes {
		p.delete(t, deleteOf(math.MinInt64, math.MaxInt64, "1.*"))
		maps.DeleteFunc(m, func(i int, _ map[int64]sample) bool { return fmt.Sprint(i)[0] == '1' })
	}
	write(series/2, series)
	for range 2 {
		p.holds(t, m)
		v := p.head.View()
		for i := range m {
			found, err := v.Select(context.Background(), math.MinInt64, math.MaxInt64,
				labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "m"), labels.MustNewMatcher(labels.MatchEqual, "i", fmt.Sprint(i)))
			if err != nil || len(found) != 1 {
				t.Fatalf("series %d: found %d, %v", i, len(found), err)
			}
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		p = mustStart(t, fs, nearOptions())
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
}
