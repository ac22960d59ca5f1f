package acceptance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rwsink/rwsink/internal/built"
)

// program is the program under test.
var program string

// soak says that rounds run long.
var soak = os.Getenv("RWSINK_SOAK") != ""

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rwsink-acceptance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program = os.Getenv("RWSINK_BINARY"); program == "" {
		program = filepath.Join(dir, "rwsink")
		if err := build(program); err != nil {
			fmt.Fprintln(os.Stderr, "acceptance: building rwsink:", err)
			return 1
		}
	}
	if !built.Race {
		// A test waits for its program half of the time, so twice as many run as there are CPUs.
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func build(out string) error {
	args := []string{"build", "-o", out}
	if built.Race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "../cmd/rwsink")...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// rounds returns few, or many in a soak run.
func rounds(few, many int) int {
	if soak {
		return many
	}
	return few
}

// scaled returns n, or n/by under the race detector, which costs about that much more.
func scaled(n, by int) int {
	if built.Race {
		return max(1, n/by)
	}
	return n
}

// seeded returns a random source and prints its seed. RWSINK_SEED sets it.
func seeded(t testing.TB, fallback uint64) *rand.Rand {
	t.Helper()
	seed := fallback
	if soak {
		seed = uint64(time.Now().UnixNano())
	}
	if s := os.Getenv("RWSINK_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("RWSINK_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("RWSINK_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// nowMs is the time of now in Unix milliseconds.
func nowMs() int64 { return time.Now().UnixMilli() }

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)
