package head_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
	"github.com/rwsink/rwsink/wal"
	"github.com/rwsink/rwsink/wal/record"
)

// machine is a process on a disk that fails, and what it must hold.
type machine struct {
	fs    *memfs.FS
	clock *fakeClock // of the log: moved so that no try has to be waited for
	p     *process
	want  state
	// errored are the states with each batch that was answered with an error
	// since the last one that was acknowledged: after a crash one of them may be there.
	errored []state
	logged  int // exemplars and metadata make each batch another
}

// state is what must be readable.
type state struct {
	samples oracle
	help    map[string]string
}

func (s state) clone() state { return state{s.samples.clone(), maps.Clone(s.help)} }

// request is one batch.
type request struct {
	samples      []sample
	family, help string
}

func (s state) with(r request) state {
	out := s.clone()
	out.samples.addBatch(r.samples)
	if r.family != "" {
		out.help[r.family] = r.help
	}
	return out
}

// drawSample draws one in order, late, very late, on another, or far away.
func drawSample(t *rapid.T, newest *int64) sample {
	i := rapid.IntRange(0, 4).Draw(t, "series")
	at := *newest
	switch rapid.IntRange(0, 9).Draw(t, "order") {
	case 0, 1: // the same or a little late
		at -= 1000 * rapid.Int64Range(0, 40).Draw(t, "late")
	case 2: // late
		at -= rapid.Int64Range(0, 4*hourMs/1000).Draw(t, "late") * 1000
	case 3: // very late
		at = rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, nowMs / 2}).Draw(t, "t")
	default:
		*newest += 1000 * rapid.SampledFrom([]int64{1, 1, 1, 15, 4000}).Draw(t, "step")
		at = *newest
	}
	n := rapid.IntRange(-1, 2).Draw(t, "value")
	var s sample
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		s = ints(i, at, n)
	case 1:
		s = floats(i, at, n)
	default:
		s = float(i, at, float64(n))
		if n < 0 {
			s.v = staleNaN
		}
	}
	if at > 0 && rapid.IntRange(0, 4).Draw(t, "start") == 0 {
		s.st = at - 500
	}
	return s
}

func drawRequest(t *rapid.T, newest *int64) request {
	r := request{}
	n := rapid.IntRange(1, 12).Draw(t, "samples")
	for range n {
		r.samples = append(r.samples, drawSample(t, newest))
	}
	if rapid.IntRange(0, 3).Draw(t, "twice") == 0 {
		r.samples = append(r.samples, r.samples...)
	}
	if rapid.IntRange(0, 3).Draw(t, "metadata") == 0 {
		r.family, r.help = rapid.SampledFrom([]string{"f", "g"}).Draw(t, "family"), fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "help"))
	}
	return r
}

// write commits a request; it is stored whole or, with an error, not at all.
func (m *machine) write(t *rapid.T, r request) {
	m.clock.ms.Add(2000)
	b := m.p.batch(r.samples...)
	defer b.Release()
	if r.family != "" {
		b.Metadata(r.family, model.MetricTypeGauge, "", r.help)
	}
	m.logged++
	b.Exemplar(m.p.series(0), int64(m.logged), 1, labels.FromStrings("trace", fmt.Sprint(m.logged)))
	res, err := m.p.head.Commit(context.Background(), b)
	if err != nil {
		m.errored = append(m.errored, m.want.with(r))
		return
	}
	if res.Samples+res.Histograms != len(r.samples) || res.Refused.Any() {
		t.Fatalf("got %+v", res)
	}
	m.want, m.errored = m.want.with(r), nil
}

// again starts the process, over and over while the disk fails, and finds out
// which of the possible states is there.
func (m *machine) again(t *rapid.T, o head.Options) {
	var err error
	for range 50 {
		m.clock.ms.Add(2000)
		if m.p, err = start(m.fs, o, m.walOptions()); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	got := m.p.lines(t, math.MinInt64, math.MaxInt64)
	for _, s := range append(m.errored, m.want) {
		if slices.Equal(got, s.samples.lines(math.MinInt64, math.MaxInt64)) && maps.Equal(m.help(), s.help) {
			m.want, m.errored = s, nil
			return
		}
	}
	t.Fatalf("after a start, none of %d states\n got %q\nwant %q", len(m.errored)+1, got, m.want.samples.lines(math.MinInt64, math.MaxInt64))
}

func (m *machine) help() map[string]string {
	out := map[string]string{}
	for family, x := range m.p.head.Metadata() {
		out[family] = x.Help
	}
	return out
}

func (m *machine) walOptions() wal.Options {
	return wal.Options{SegmentBytes: 600, Now: m.clock.now}
}

// drawOptions draws flags that must not matter.
func drawOptions(t *rapid.T) head.Options {
	o, clock := nearOptions(), newClock()
	clock.ms.Add(-hourMs * rapid.SampledFrom([]int64{200, 99, 0}).Draw(t, "clock")) // all near, some, all cold
	o.Accept.Now = clock.now
	o.ChunkSamples = rapid.SampledFrom([]int{2, 8, 240}).Draw(t, "chunk-samples")
	o.BlockDuration = rapid.SampledFrom([]time.Duration{time.Minute, 2 * time.Hour, 100 * time.Hour}).Draw(t, "block-duration")
	o.Encoding = rapid.SampledFrom([]chunkenc.Encoding{chunkenc.EncDelta, chunkenc.EncRaw}).Draw(t, "encoding")
	return o
}

// TestReadableIsAcknowledged runs random requests, restarts, kills, power cuts
// and failing disks: what is readable is what was acknowledged, once and in
// order; a request answered with an error is not there while the process lives
// and, after a crash, whole or not at all.
func TestReadableIsAcknowledged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{fs: memfs.New(rapid.Uint64().Draw(t, "seed")), clock: newClock()}
		m.want = state{oracle{}, map[string]string{}}
		newest := int64(nowMs - 100*hourMs)
		m.again(t, drawOptions(t))
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 16).Draw(t, "step") {
			case 0:
				m.p.stop() // an error of the disk is no loss: all that was acknowledged is synced
				m.again(t, drawOptions(t))
			case 1:
				m.fs.Kill()
				m.p.stop()
				m.again(t, drawOptions(t))
			case 2:
				m.fs.CutAfter(rapid.IntRange(0, 12).Draw(t, "operations"))
				for range rapid.IntRange(0, 4).Draw(t, "requests") {
					m.write(t, drawRequest(t, &newest))
				}
				m.p.stop()
				m.fs.Crash()
				m.again(t, drawOptions(t))
			case 3:
				op := memfs.Op(rapid.IntRange(0, int(memfs.NumOps)-1).Draw(t, "op"))
				m.fs.Fail(op, rapid.IntRange(0, 3).Draw(t, "k"), rapid.IntRange(1, 3).Draw(t, "times"), syscall.EIO)
			case 4:
				m.fs.SetCapacity(rapid.Int64Range(0, 1<<14).Draw(t, "capacity"))
				m.write(t, drawRequest(t, &newest))
				m.fs.SetCapacity(0)
			case 5:
				m.standAlone(t)
			case 6, 7:
				m.delete(t, newest)
			case 8:
				m.freeze(t)
			default:
				m.write(t, drawRequest(t, &newest))
			}
			m.p.holds(t, m.want.samples)
			mint := newest - rapid.Int64Range(0, 4*hourMs).Draw(t, "mint")
			m.p.holdsIn(t, m.want.samples, mint, mint+rapid.Int64Range(0, hourMs).Draw(t, "maxt"))
			if got := m.help(); !maps.Equal(got, m.want.help) {
				t.Fatalf("metadata %v, want %v", got, m.want.help)
			}
		}
		m.p.stop()
	})
}

// delete removes a range of some series; with an error nothing is deleted.
func (m *machine) delete(t *rapid.T, newest int64) {
	m.clock.ms.Add(2000)
	d := head.Delete{MinT: math.MinInt64, MaxT: math.MaxInt64}
	if rapid.Bool().Draw(t, "from") {
		d.MinT = newest - rapid.Int64Range(0, 4*hourMs/1000).Draw(t, "ago")*1000
	}
	if rapid.Bool().Draw(t, "to") {
		d.MaxT = max(d.MinT, newest-rapid.Int64Range(-1, 4*hourMs/1000).Draw(t, "until")*1000)
	}
	which := rapid.SampledFrom([]string{"0", "1", "[2-4]", ".*"}).Draw(t, "series")
	d.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "i", which)}
	want := m.want.clone()
	for i, s := range want.samples {
		maps.DeleteFunc(s, func(at int64, _ sample) bool {
			return d.MinT <= at && at <= d.MaxT && d.Matchers[0].Matches(fmt.Sprint(i))
		})
	}
	lsn, err := m.p.head.Delete(context.Background(), []head.Delete{d})
	switch {
	case lsn == 0 && err == nil:
		t.Fatal("a delete without a frame")
	case lsn == 0:
		m.errored = append(m.errored, want)
	case err != nil: // it is in the log, but maybe not on the disk
		m.want, m.errored = want, append(m.errored, m.want)
	default:
		m.want, m.errored = want, nil
	}
}

// freeze closes some of the containers, as a flush does whose block cannot be written yet.
func (m *machine) freeze(t *rapid.T) {
	some := rapid.Bool().Draw(t, "some")
	_, err := m.p.head.Freeze(context.Background(), func(c head.ContainerInfo) bool { return !some || c.Samples%2 == 0 })
	if err != nil {
		t.Fatal(err)
	}
}

// standAlone fails unless each segment names every series that its frames use.
func (m *machine) standAlone(t *rapid.T) {
	log, err := wal.Open(wal.Options{FS: m.fs.Clone(1), Dir: "/wal", SegmentBytes: 600})
	if err != nil {
		t.Fatalf("open a copy: %v", err)
	}
	defer log.Close()
	var b record.Batch
	segment, named := uint64(0), map[uint64]bool{}
	use := func(ref uint64) {
		if !named[ref] {
			t.Fatalf("segment %d does not name %d", segment, ref)
		}
	}
	_, err = log.Replay(nil, func(f wal.Frame) error {
		if f.Segment != segment {
			segment, named = f.Segment, map[uint64]bool{}
		}
		if err := record.Decode(&b, f.Payload); err != nil {
			return err
		}
		for _, s := range b.Series {
			named[s.Ref] = true
		}
		for _, ref := range b.Floats.Ref {
			use(ref)
		}
		for i := range b.Histograms {
			use(b.Histograms[i].Ref)
		}
		for i := range b.Exemplars {
			use(b.Exemplars[i].Ref)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("replay a copy: %v", err)
	}
}

// TestEachSegmentAlone removes all segments but one: its samples are all
// readable, since it names its series.
func TestEachSegmentAlone(t *testing.T) {
	fs := memfs.New(1)
	p, err := start(fs, options(), wal.Options{SegmentBytes: 400})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		p.stored(t, float(i%7, int64(i), float64(i)), ints(i%3, int64(1000+i), i))
	}
	segments := p.log.Segments()
	p.stop()
	if len(segments) < 10 {
		t.Fatalf("%d segments", len(segments))
	}
	names, err := fs.ReadDir("/wal")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, keep := range names {
		alone := fs.Clone(1)
		for _, name := range names {
			if name != keep {
				if err := alone.Remove("/wal/" + name); err != nil {
					t.Fatal(err)
				}
			}
		}
		p := mustStart(t, alone, options())
		total += len(p.lines(t, math.MinInt64, math.MaxInt64))
		p.stop()
	}
	if total != 400 {
		t.Errorf("%d samples in all, want 400", total)
	}
}
