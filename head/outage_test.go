package head_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

// TestOutageIsTold lets the disk refuse writes or deletes: the head stays ready, says
// that nothing is stored until something is, and logs one line of many.
func TestOutageIsTold(t *testing.T) {
	for name, do := range map[string]func(p *process) error{
		"nothing of a group was stored": func(p *process) error {
			_, err := p.write(float(0, nowMs, 1))
			return err
		},
		"nothing was deleted": func(p *process) error {
			_, err := p.head.Delete(context.Background(), []head.Delete{deleteOf(0, 1, "none")})
			return err
		},
	} {
		fs, o, log := memfs.New(1), options(), &bytes.Buffer{}
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		p := mustStart(t, fs, o)
		fs.Fail(memfs.OpWrite, 0, 1, syscall.ENOSPC)
		for i := range 5 {
			if err := do(p); err == nil {
				t.Fatalf("%s: try %d went through", name, i)
			}
		}
		if why := p.head.Notice(); p.head.Ready() != nil || !strings.Contains(why, "nothing is stored") || !strings.Contains(why, "no space") {
			t.Errorf("%s: ready %v, notice %q", name, p.head.Ready(), why)
		}
		for end := time.Now().Add(10 * time.Second); do(p) != nil; time.Sleep(50 * time.Millisecond) { // the log tries once a second
			if time.Now().After(end) {
				t.Fatalf("%s: does not heal", name)
			}
		}
		if why := p.head.Notice(); why != "" {
			t.Errorf("%s: still %q", name, why)
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		if text := log.String(); strings.Count(text, name) != 1 || !strings.Contains(text, "writes are stored again") {
			t.Errorf("%s: logged\n%s", name, text)
		}
	}
}
