package head_test

import (
	"context"
	"testing"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
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
			o, err := nearOptions(), error(nil)
			if o.Log, err = wal.Open(wal.Options{FS: fs, Dir: "/wal"}); err != nil {
				t.Fatal(err)
			}
			h, err := head.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				h.Close()
				if err := o.Log.Close(); err != nil {
					t.Error(err)
				}
			}()
			err = h.Replay(context.Background(), func(at int64, lsn wal.LSN) (wal.LSN, bool) { return 1, at == nowMs+300 && lsn == 2 })
			if err != nil {
				t.Fatal(err)
			}
			list, err := h.Freeze(context.Background(), func(head.ContainerInfo) bool { return true })
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
