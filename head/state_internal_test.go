package head

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
)

// TestStateOfManyFrames writes more metadata and exemplars again than a frame
// may hold, and reads them from those frames alone.
func TestStateOfManyFrames(t *testing.T) {
	fs := memfs.New(1)
	const families, maxPayload = 300, 64 << 10
	open := func() (*Head, *committer, *wal.Log) {
		log, err := wal.Open(wal.Options{FS: fs, Dir: "/wal"})
		if err != nil {
			t.Fatal(err)
		}
		h, c := testHead(t, Options{Log: log})
		c.maxPayload = maxPayload
		return h, c, log
	}
	h, c, log := open()
	if _, err := log.Replay(nil, func(wal.Frame) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range families {
		h.metadata.byFamily[fmt.Sprint("family_", i)] = Metadata{Type: "counter", Help: strings.Repeat("h", 1<<10)}
	}
	for i := range 100 { // as many as the ring takes
		e := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", strings.Repeat("x", 100)), Value: float64(i), Ts: int64(i), HasTs: true}
		if err := h.exemplars.add(testSeries(h, fmt.Sprint("m", strings.Repeat("_", i))).labels, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.logState(); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}

	again, _, log := open()
	frames := 0
	r := replayer{head: again, committer: newCommitter(again)}
	_, err := log.Replay(nil, func(f wal.Frame) error {
		if frames++; len(f.Payload) > maxPayload {
			t.Errorf("a frame of %d bytes, want at most %d", len(f.Payload), maxPayload)
		}
		return r.frame(f)
	})
	if err != nil || frames < 2 {
		t.Errorf("%d frames, %v", frames, err)
	}
	if !maps.Equal(again.Metadata(), h.Metadata()) {
		t.Errorf("%d families came back, want %d", len(again.Metadata()), families)
	}
	held := func(h *Head) (out []string) {
		_ = h.exemplars.ring.IterateExemplars(func(ls labels.Labels, e exemplar.Exemplar) error {
			out = append(out, fmt.Sprint(ls, e))
			return nil
		})
		return out
	}
	if got, want := held(again), held(h); len(want) != 100 || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%d exemplars came back, want %d", len(got), len(want))
	}
	again.Close()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}
