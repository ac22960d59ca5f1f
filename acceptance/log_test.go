package acceptance

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// segments returns the paths of the log's segments, oldest first.
func segments(t testing.TB, dir string) (paths []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "wal", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		if regexp.MustCompile(`^\d+$`).MatchString(filepath.Base(p)) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// nextSegment returns the path of the segment that would follow p.
func nextSegment(t testing.TB, p string) string {
	t.Helper()
	base := filepath.Base(p)
	n, err := strconv.Atoi(base)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(p), fmt.Sprintf("%0*d", len(base), n+1))
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// copyDir returns a copy of a data directory.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return out
}

// written is where an acknowledged request stands in the log.
type written struct {
	entries []entry
	path    string // segment
	end     int64  // its size when the request was acknowledged
}

// fill writes requests, each to a series of its own and to a common one, and
// returns where they stand.
func (s *server) fill(t testing.TB, count int, n int64, tag string) (out []written) {
	t.Helper()
	for i := range count {
		at := n + int64(i)*second
		es := []entry{series("own", "tag", tag, "i", fmt.Sprint(i)).at(at, float64(i)), series("common", "tag", tag).at(at, float64(i))}
		if i%5 == 2 { // late ones among them
			es = append(es, series("common", "tag", tag).at(at-3*second/2, -float64(i)).hist(at-3*second/4, intHistogram(i)))
		}
		s.store(t, newModel(), version(1+i%2), es...)
		all := segments(t, s.dir)
		last := all[len(all)-1]
		out = append(out, written{entries: es, path: last, end: size(t, last)})
	}
	return out
}

// modelOf returns what must be readable when only the given requests are in the log.
func modelOf(all []written) *model {
	m := newModel()
	for _, w := range all {
		m.write(w.entries...)
	}
	return m
}

// A torn or dirty end of the log costs what was torn and nothing else: the program
// starts, says so, takes new samples, and they are there after the next start.
func TestTornEndOfTheLog(t *testing.T) {
	t.Parallel()
	s := start(t)
	n := nowMs() - hour
	all := s.fill(t, 60, n, "torn")
	s.kill9(t)
	base, last := s.dir, filepath.Base(all[len(all)-1].path)
	full := all[len(all)-1].end
	rnd := seeded(t, 41)
	type damage struct {
		keep int64 // bytes of the newest segment
		tail []byte
		next func() []byte // another segment behind it
	}
	damages := map[string]damage{
		"zeros":          {full, make([]byte, 4096), nil},
		"a huge length":  {full, bytes.Repeat([]byte{0xff}, 24), nil},
		"empty segment":  {full, nil, func() []byte { return nil }},
		"zero segment":   {full, nil, func() []byte { return make([]byte, 64<<10) }},
		"cut header":     {full, nil, func() []byte { return read(t, filepath.Join(base, "wal", last))[:3] }},
		"only a header?": {full, nil, func() []byte { return read(t, filepath.Join(base, "wal", last))[:16] }},
	}
	for cut := int64(1); cut <= 64; cut += int64(rounds(9, 1)) {
		damages[fmt.Sprintf("cut by %d", cut)] = damage{keep: full - cut}
	}
	for i := len(all) - 2; i >= 0; i -= rounds(17, 1) {
		damages[fmt.Sprintf("cut after request %d", i)] = damage{keep: all[i].end}
		damages[fmt.Sprintf("cut one byte after request %d", i)] = damage{keep: all[i].end + 1}
	}
	for k := 1; k <= 32; k += rounds(10, 1) {
		b := make([]byte, k)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		damages[fmt.Sprintf("%d random bytes", k)] = damage{full, b, nil}
	}
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyDir(t, base)
			path := filepath.Join(dir, "wal", last)
			write(t, path, append(read(t, path)[:d.keep], d.tail...))
			if d.next != nil {
				write(t, nextSegment(t, path), d.next())
			}
			m := modelOf(slices.DeleteFunc(slices.Clone(all), func(w written) bool { return w.end > d.keep }))
			s := startIn(t, dir)
			s.holds(t, m, "after the damage")
			clean := d.tail == nil && d.next == nil && slices.ContainsFunc(all, func(w written) bool { return w.end == d.keep })
			if warned := regexp.MustCompile(`(?i)level=warn[^\n]*` + last[:len(last)-1]).MatchString(s.log(t)); d.next == nil && warned == clean {
				t.Errorf("warned is %v, want %v; log:\n%s", warned, !clean, s.log(t))
			}
			for i := range int64(10) {
				s.store(t, m, version(1+i%2), series("common", "tag", "torn").at(n+hour/2+i, 1), series("new", "i", fmt.Sprint(i)).at(n, 1))
			}
			s.holds(t, m, "after new samples")
			s.restart(t)
			s.holds(t, m, "after SIGTERM and a start")
			s.crash(t)
			s.holds(t, m, "after SIGKILL and a start")
		})
	}
}

// A program that is killed again and again while it starts over a torn log loses
// nothing by that and leaves no heap of files.
func TestKilledWhileRecovering(t *testing.T) {
	t.Parallel()
	s := start(t)
	n := nowMs() - hour
	all := s.fill(t, 40, n, "recover")
	s.kill9(t)
	last := all[len(all)-1]
	write(t, last.path, read(t, last.path)[:last.end-3])
	m := modelOf(all[:len(all)-1])
	for i := range rounds(14, 60) {
		s.launch(t)
		time.Sleep([]time.Duration{1, 3, 6, 10, 15, 25, 40, 80}[i%8] * time.Millisecond)
		s.kill9(t)
	}
	s.up(t)
	s.holds(t, m, "after many kills")
	if got := len(segments(t, s.dir)); got > 6 {
		t.Errorf("%d segments after %d starts without a write", got, rounds(14, 60)+2)
	}
	// The same with a write between the starts.
	for i := range rounds(5, 40) {
		s.store(t, m, version(1+i%2), series("between").at(n+int64(i), 1), series("between", "i", fmt.Sprint(i)).at(n, 1))
		s.kill9(t)
		path := slices.Max(segments(t, s.dir))
		write(t, path, append(read(t, path), 1, 2, 3))
		s.launch(t)
		time.Sleep(time.Duration(5+i*7%30) * time.Millisecond)
		s.kill9(t)
		s.up(t)
	}
	s.readBack(t, m)
}

// lossMetric is any of our metrics that tells of damage.
var lossMetric = regexp.MustCompile(`(?m)^rwsink_\w*(lost|damage|corrupt)\w*(\{[^}]*\})? [1-9]`)

// Damage in the middle of the log is no end of it: what follows is read, the loss is
// told, and the damaged bytes are kept aside.
func TestDamageInTheMiddleOfTheLog(t *testing.T) {
	t.Parallel()
	s := start(t)
	n := nowMs() - hour
	var all []written
	for round := range 3 {
		all = append(all, s.fill(t, 40, n+int64(round)*minute, fmt.Sprint("part", round))...)
		s.restart(t)
	}
	s.kill9(t)
	base := s.dir
	inPart := func(i int) (path string, from, to int64) { // the bytes of request i
		w := all[i]
		if i > 0 && all[i-1].path == w.path {
			from = all[i-1].end
		}
		return filepath.Base(w.path), from, w.end
	}
	flips := map[string]int64{}
	for _, i := range []int{13, 25, 55, 90} {
		_, from, to := inPart(i)
		for name, at := range map[string]int64{"its first byte": from, "its length": from + 3, "its checksum": from + 5, "its number": from + 9, "its payload": (from + to) / 2, "its last byte": to - 1} {
			if i == 13 || name == "its payload" || soak {
				flips[fmt.Sprintf("request %d, %s", i, name)] = at
			}
		}
	}
	for name, at := range flips {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var i int
			if _, err := fmt.Sscanf(name, "request %d,", &i); err != nil {
				t.Fatal(err)
			}
			file, _, _ := inPart(i)
			dir := copyDir(t, base)
			path := filepath.Join(dir, "wal", file)
			b := read(t, path)
			b[at] ^= 0x40
			write(t, path, b)
			damaged := b[max(0, at-8):min(int64(len(b)), at+8)]
			s := startIn(t, dir)
			s.checkDamage(t, modelOf(slices.Delete(slices.Clone(all), i, i+1)), damaged)
		})
	}
	t.Run("end of a segment that is not the last", func(t *testing.T) {
		t.Parallel()
		dir := copyDir(t, base)
		paths := segments(t, dir)
		if len(paths) < 2 {
			t.Logf("one segment only: the end of it is the end of the log")
			return
		}
		b := read(t, paths[0])
		write(t, paths[0], b[:len(b)-2])
		lastOf := 0
		for i, w := range all {
			if filepath.Base(w.path) == filepath.Base(paths[0]) {
				lastOf = i
			}
		}
		s := startIn(t, dir)
		s.checkDamage(t, modelOf(slices.Delete(slices.Clone(all), lastOf, lastOf+1)), nil)
	})
}

// checkDamage expects m to be readable, the loss to be told and the damaged bytes to
// be somewhere, and that life goes on.
func (s *server) checkDamage(t *testing.T, m *model, damaged []byte) {
	t.Helper()
	s.holds(t, m, "after the damage")
	_, metrics, err := s.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if !lossMetric.MatchString(metrics) {
		t.Errorf("no metric tells of the loss")
	}
	if !regexp.MustCompile(`(?i)level=(warn|error)`).MatchString(s.log(t)) {
		t.Errorf("the log does not tell of the loss:\n%s", s.log(t))
	}
	if damaged != nil && !findBytes(t, s.dir, damaged) {
		t.Errorf("the damaged bytes are gone")
	}
	n := nowMs() - minute
	for i := range int64(10) {
		s.store(t, m, version(1+i%2), series("common", "tag", "part0").at(n+i, 1), series("own", "tag", "part1", "i", "3").at(n+i, 1))
	}
	s.readBack(t, m)
}

// findBytes says whether any file below dir holds b.
func findBytes(t testing.TB, dir string, b []byte) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			found = found || bytes.Contains(read(t, path), b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A series that comes and goes over restarts, in order and late, never loses the
// record that its samples point to; also when the log begins new segments meanwhile.
func TestSeriesRecordsOutliveRestartsAndSegments(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - 3*hour
	rnd := seeded(t, 39)
	filler := make([]byte, 700<<10)
	for i := range filler {
		filler[i] = 'a' + byte(rnd.Uint32()%26)
	}
	fillLog := func(round int) { // until a new segment has begun
		before := len(segments(t, s.dir))
		for i := 0; i < 400 && len(segments(t, s.dir)) == before; i++ {
			s.store(t, newModel(), v1, series("filler", "i", fmt.Sprint(round, i), "x", string(filler)).at(n, 1))
		}
		if len(segments(t, s.dir)) == before {
			t.Fatal("the log never began another segment")
		}
	}
	for round := range rounds(1, 3) {
		s.store(t, m, v1, series("back").at(n+hour, 1), series("once", "round", fmt.Sprint(round)).at(n, 1))
		fillLog(round)
		s.store(t, m, v2, series("back").at(n+int64(round)*second, 2)) // late, in the new segment
		s.crash(t)
		s.store(t, m, v1, series("back").at(n+int64(round)*second+1, 3)) // late, after the restart
		s.restart(t)
		s.store(t, m, v2, series("back").at(n+2*hour+int64(round), 4), series("late only", "round", fmt.Sprint(round)).at(n-day, 5))
		s.crash(t)
		s.store(t, m, v2, series("late only", "round", fmt.Sprint(round)).at(n-2*day, 6), series("once", "round", fmt.Sprint(round)).at(n-1, 1))
	}
	s.readBack(t, m, neq("__name__", "filler"))
}

// Two programs never share a directory, and the lock of a killed one does not stay.
func TestOneProgramADirectory(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	s.store(t, m, v1, series("m").at(nowMs(), 1))
	second := newServer(t, s.dir)
	second.launch(t)
	if err := second.ended(t); err == nil {
		t.Error("a second program on the directory ended with status 0")
	}
	if log := second.log(t); !regexp.MustCompile(`(?i)lock|in use|another`).MatchString(log) {
		t.Errorf("it did not say why: %s", log)
	}
	s.store(t, m, v1, series("m").at(nowMs()-1, 2))
	s.readBack(t, m)
}

// What is not ours in the directory of the log harms nothing and stays.
func TestForeignFilesInTheDirectory(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	s.store(t, m, v1, series("m").at(nowMs(), 1))
	s.kill9(t)
	foreign := []string{"wal/notes.txt", "wal/00000001.tmp", "wal/lost+found", "lost+found", "blocks.tmp", "README"}
	for _, name := range foreign {
		write(t, filepath.Join(s.dir, name), []byte("not ours"))
	}
	s.up(t)
	s.store(t, m, v2, series("m").at(nowMs()-1, 2))
	s.readBack(t, m)
	for _, name := range foreign {
		if filepath.Ext(name) != ".tmp" && !bytes.Equal(read(t, filepath.Join(s.dir, name)), []byte("not ours")) {
			t.Errorf("%s was changed", name)
		}
	}
}
