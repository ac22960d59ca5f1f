package acceptance

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A damaged block fails the read that meets it and no other: the next one goes on without
// it at once, its directory is set aside, and a restart brings back what the log still has.
func TestDamagedBlockCostsOneRead(t *testing.T) {
	t.Parallel()
	s, whole, rest, n := start(t), newModel(), newModel(), nowMs()-day
	old := series("old").at(n-2*day, 1).at(n-2*day+minute, 2)
	s.store(t, whole, v1, old)
	s.flush(t)
	blocks, err := filepath.Glob(filepath.Join(s.dir, "blocks", "*", "chunks", "000001"))
	if err != nil || len(blocks) != 1 {
		t.Fatal(blocks, err)
	}
	young := series("young").at(n, 3)
	s.store(t, whole, v2, young)
	rest.write(young)
	data := read(t, blocks[0])
	data[20] ^= 1
	f, err := os.OpenFile(blocks[0], os.O_WRONLY, 0) // in place: the program has it mapped
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	all := query(-1<<62, 1<<62, everything)
	if got, err := s.tryRead(samplesMode, all); err == nil {
		t.Fatalf("a damaged chunk was read: %v", got)
	}
	s.holds(t, rest, "the next read")
	deadline := time.Now().Add(3 * time.Second) // less than until the next look by itself
	for {
		if aside, err := os.ReadDir(filepath.Join(s.dir, "quarantine")); err == nil && len(aside) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the damaged block was not set aside at once")
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.restart(t)
	s.readBack(t, whole)
}
