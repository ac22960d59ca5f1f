package proc_test

import (
	"os"
	"testing"
	"time"

	"github.com/rwsink/rwsink/internal/proc"
)

func TestUsage(t *testing.T) {
	before, err := proc.Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cpu := proc.CPUTime()
	for begin := time.Now(); time.Since(begin) < 100*time.Millisecond; {
	}
	after, err := proc.Read(os.Getpid())
	if err != nil || after.CPU <= before.CPU || after.RSS < 1<<20 || after.Peak < after.RSS || after.Anon > after.RSS {
		t.Errorf("%+v, %+v, %v", before, after, err)
	}
	if took := proc.CPUTime() - cpu; took < 10*time.Millisecond || took > time.Minute {
		t.Errorf("a tenth of a second took %v", took)
	}
	if got := proc.Resident(); got < 1<<20 || got > after.Peak*2 {
		t.Errorf("%d bytes are resident, %+v", got, after)
	}
	if _, err := proc.Read(1 << 30); err == nil {
		t.Error("a process that is not there has a usage")
	}
}
