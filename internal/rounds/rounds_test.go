package rounds_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/rwsink/rwsink/internal/rounds"
)

var sink uint64

func work(n int) func() {
	return func() {
		for range n {
			sink = sink*6364136223846793005 + 1
		}
	}
}

// Four times the work takes four times as long, and waiting takes next to nothing.
func TestRace(t *testing.T) {
	m := rounds.Race(1000, work(20_000), work(80_000), func() { time.Sleep(50 * time.Microsecond) })
	if r := m[1].Ratio; m[0].Ratio != 1 || r < 3 || r > 5 {
		t.Errorf("four times the work: ratios %v and %v, want 1 and about 4", m[0].Ratio, r)
	}
	for i, x := range m {
		if x.Least <= 0 || x.Ns < x.Least {
			t.Errorf("variant %d: median %v ns, least %v", i, x.Ns, x.Least)
		}
	}
	if runtime.GOOS == "linux" && m[2].Least*1000 > 30_000 {
		t.Errorf("a sleep of 50 µs counts as %v ns", m[2].Least*1000)
	}
}
