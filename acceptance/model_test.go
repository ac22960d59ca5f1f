package acceptance

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
)

// point is one sample of any kind.
type point struct {
	t  int64
	v  float64
	h  *histogram.Histogram
	fh *histogram.FloatHistogram
}

// stale says whether p is a stale marker.
func (p point) stale() bool {
	switch {
	case p.h != nil:
		return value.IsStaleNaN(p.h.Sum)
	case p.fh != nil:
		return value.IsStaleNaN(p.fh.Sum)
	}
	return value.IsStaleNaN(p.v)
}

func (p point) String() string {
	switch {
	case p.h != nil:
		return fmt.Sprintf("@%d %v (sum %x, hint %d)", p.t, p.h, math.Float64bits(p.h.Sum), p.h.CounterResetHint)
	case p.fh != nil:
		return fmt.Sprintf("@%d float %v (sum %x, hint %d)", p.t, p.fh, math.Float64bits(p.fh.Sum), p.fh.CounterResetHint)
	}
	return fmt.Sprintf("@%d %v (%x)", p.t, p.v, math.Float64bits(p.v))
}

// equal compares by bits. Two histograms are equal when they differ only in reset
// hint and empty buckets; of a stale one only the marker counts.
func (p point) equal(q point) bool {
	if p.t != q.t || (p.h == nil) != (q.h == nil) || (p.fh == nil) != (q.fh == nil) {
		return false
	}
	switch {
	case p.h != nil:
		return p.stale() && q.stale() || p.h.Copy().Compact(0).Equals(q.h.Copy().Compact(0))
	case p.fh != nil:
		return p.stale() && q.stale() || p.fh.Copy().Compact(0).Equals(q.fh.Copy().Compact(0))
	}
	return math.Float64bits(p.v) == math.Float64bits(q.v)
}

// model is what must be readable: series by their label set, samples by their time.
type model struct {
	tracks map[string]*track // by key
}

// track is one series of a model.
type track struct {
	labels labels.Labels
	points map[int64]point
}

// has says whether there is a sample at t.
func (tr *track) has(t int64) bool {
	_, ok := tr.points[t]
	return ok
}

func newModel() *model { return &model{tracks: map[string]*track{}} }

// clone returns a copy that shares nothing that write changes.
func (m *model) clone() *model {
	c := newModel()
	for k, tr := range m.tracks {
		c.tracks[k] = &track{labels: tr.labels, points: maps.Clone(tr.points)}
	}
	return c
}

// write notes one acknowledged request: of the samples of a series at one time the
// last number stays, or the last stale marker when there is no number. Within a
// request the histograms come after the floats.
func (m *model) write(entries ...entry) {
	for _, e := range entries {
		for _, s := range e.samples {
			m.put(e.labels, point{t: s.t, v: s.v})
		}
	}
	for _, e := range entries {
		for _, h := range e.hists {
			m.put(e.labels, point{t: h.t, h: h.h, fh: h.fh})
		}
	}
}

func (m *model) put(kv []string, p point) {
	ls := canonical(kv)
	tr := m.tracks[key(ls)]
	if tr == nil {
		tr = &track{labels: ls, points: map[int64]point{}}
		m.tracks[key(ls)] = tr
	}
	if old, ok := tr.points[p.t]; !ok || old.stale() || !p.stale() {
		tr.points[p.t] = p
	}
}

// key is what a label set is known by in a model.
func key(ls labels.Labels) string { return string(ls.Bytes(nil)) }

// canonical returns the label set that the labels of the wire mean.
func canonical(kv []string) labels.Labels {
	b := labels.NewScratchBuilder(len(kv) / 2)
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i+1] != "" {
			b.Add(kv[i], kv[i+1])
		}
	}
	b.Sort()
	return b.Labels()
}

// result is what a read returned or must return: series sorted by their labels.
type result []readSeries

// readSeries is one series of a result, its points sorted by time.
type readSeries struct {
	labels labels.Labels
	points []point
}

// within returns what a read of [mint, maxt] must return.
func (m *model) within(mint, maxt int64) result {
	var out result
	for _, tr := range m.tracks {
		rs := readSeries{labels: tr.labels}
		for t, p := range tr.points {
			if mint <= t && t <= maxt {
				rs.points = append(rs.points, p)
			}
		}
		slices.SortFunc(rs.points, func(a, b point) int {
			if a.t < b.t {
				return -1
			}
			return 1
		})
		if len(rs.points) > 0 {
			out = append(out, rs)
		}
	}
	slices.SortFunc(out, func(a, b readSeries) int { return labels.Compare(a.labels, b.labels) })
	return out
}

// all returns everything that must be readable.
func (m *model) all() result { return m.within(math.MinInt64, math.MaxInt64) }

// diff describes how got differs from want, in a few lines; empty when it does not.
func diff(got, want result) string {
	var b strings.Builder
	lines := 0
	say := func(format string, args ...any) {
		if lines++; lines <= 12 {
			fmt.Fprintf(&b, format+"\n", args...)
		}
	}
	i, j := 0, 0
	for i < len(got) || j < len(want) {
		c := 0
		switch {
		case i == len(got):
			c = 1
		case j == len(want):
			c = -1
		default:
			c = labels.Compare(got[i].labels, want[j].labels)
		}
		switch {
		case c < 0:
			say("unexpected series %s with %d samples, first %v", short(got[i].labels), len(got[i].points), got[i].points[0])
			i++
		case c > 0:
			say("missing series %s with %d samples, first %v", short(want[j].labels), len(want[j].points), want[j].points[0])
			j++
		default:
			diffPoints(say, got[i], want[j])
			i, j = i+1, j+1
		}
	}
	if lines > 12 {
		fmt.Fprintf(&b, "… and %d more differences\n", lines-12)
	}
	return b.String()
}

func diffPoints(say func(string, ...any), got, want readSeries) {
	i, j := 0, 0
	for i < len(got.points) || j < len(want.points) {
		switch {
		case j == len(want.points) || i < len(got.points) && got.points[i].t < want.points[j].t:
			say("%s: unexpected %v", short(got.labels), got.points[i])
			i++
		case i == len(got.points) || got.points[i].t > want.points[j].t:
			say("%s: missing %v", short(want.labels), want.points[j])
			j++
		default:
			if !got.points[i].equal(want.points[j]) {
				say("%s: got %v, want %v", short(got.labels), got.points[i], want.points[j])
			}
			i, j = i+1, j+1
		}
	}
}

func short(ls labels.Labels) string {
	if n := len(key(ls)); n > 1000 {
		return fmt.Sprintf("{__name__=%q, …} (%d bytes)", tail(ls.Get("__name__"), 300), n)
	}
	return ls.String()
}

// holds expects that the server returns exactly what m holds, in both read modes;
// of the series that match, if matchers are given.
func (s *server) holds(t testing.TB, m *model, when string, ms ...*prompb.LabelMatcher) {
	t.Helper()
	if len(ms) == 0 {
		ms = append(ms, everything)
	}
	want := m.all()
	for _, mode := range modes {
		if d := diff(s.read(t, mode, query(math.MinInt64, math.MaxInt64, ms...))[0], want); d != "" {
			t.Errorf("%s, %v:\n%s", when, mode, d)
		}
	}
}

// readBack expects that the server holds exactly what m holds: now, after it was
// ended and started again, after it was killed and started again, and after a flush.
func (s *server) readBack(t testing.TB, m *model, ms ...*prompb.LabelMatcher) {
	t.Helper()
	s.holds(t, m, "at once", ms...)
	s.restart(t)
	s.holds(t, m, "after SIGTERM and a start", ms...)
	s.crash(t)
	s.holds(t, m, "after SIGKILL and a start", ms...)
	s.flush(t)
	s.holds(t, m, "after a flush", ms...)
	s.crash(t)
	s.holds(t, m, "after a flush, SIGKILL and a start", ms...)
}
