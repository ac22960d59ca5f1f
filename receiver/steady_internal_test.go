package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/built"
	"github.com/rwsink/rwsink/wal"
)

// newHead returns a head that is ready, on a log of its own.
func newHead(t testing.TB) *head.Head {
	t.Helper()
	log, err := wal.Open(wal.Options{Dir: t.TempDir(), Sync: wal.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.New(head.Options{Log: log, Accept: head.Accept{Window: -1, MaxFuture: 1000 * 24 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Replay(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// fillBody decodes a body into a batch.
func fillBody(f *filler, h *head.Head, b *head.Batch, refused *head.Refusals, body []byte, v version) error {
	f.begin(h, b, refused)
	defer f.end()
	if v == version1 {
		return f.fill1(body)
	}
	return f.fill2(body)
}

// commitBody writes a body for good.
func commitBody(tb testing.TB, f *filler, h *head.Head, body []byte, v version) {
	tb.Helper()
	b := h.NewBatch()
	defer b.Release()
	var refused head.Refusals
	if err := fillBody(f, h, b, &refused, body, v); err != nil {
		tb.Fatal(err)
	}
	res, err := h.Commit(context.Background(), b)
	if err != nil || refused.Any() || res.Refused.Any() {
		tb.Fatal(err, refused.Error(), res.Refused.Error())
	}
}

// TestKnownSeriesCostNoMemory decodes requests whose series, metadata and
// symbols were there before: nothing is allocated.
func TestKnownSeriesCostNoMemory(t *testing.T) {
	tests := []struct {
		name string
		body []byte
		v    version
	}{
		{"1.0", benchBodies1(300)[0], version1},
		{"1.0, metadata", mustMarshal(&prompb.WriteRequest{Metadata: []prompb.MetricMetadata{{MetricFamilyName: "m", Help: "M.", Unit: "u"}}}), version1},
		{"2.0", benchBodies2(300, false)[0], version2},
		{"2.0, metadata", benchBodies2(300, true)[0], version2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHead(t)
			f := &filler{}
			commitBody(t, f, h, test.body, test.v)
			var refused head.Refusals
			got := testing.AllocsPerRun(20, func() {
				b := h.NewBatch()
				if err := fillBody(f, h, b, &refused, test.body, test.v); err != nil || refused.Any() {
					t.Fatal(err, refused.Error())
				}
				b.Release()
			})
			if got != 0 && !built.Race {
				t.Errorf("%v allocations a request, want 0", got)
			}
		})
	}
}

// TestNothingPointsIntoTheBody overwrites the body once it is decoded, and
// expects labels, exemplars and metadata to stay what they were.
func TestNothingPointsIntoTheBody(t *testing.T) {
	now := time.Now().UnixMilli()
	one := mustMarshal(&prompb.WriteRequest{
		Timeseries: []prompb.TimeSeries{{
			Labels:  []prompb.Label{{Name: "__name__", Value: "one"}, {Name: "a", Value: "1"}},
			Samples: []prompb.Sample{{Timestamp: now, Value: 1}},
		}},
		Metadata: []prompb.MetricMetadata{{MetricFamilyName: "one", Help: "One.", Unit: "u"}},
	})
	two := mustMarshal(&writev2.Request{
		Symbols: []string{"", "__name__", "two", "a", "1", "Two.", "u"},
		Timeseries: []writev2.TimeSeries{{
			LabelsRefs: []uint32{1, 2, 3, 4}, Samples: []writev2.Sample{{Timestamp: now, Value: 1}},
			Exemplars: []writev2.Exemplar{{LabelsRefs: []uint32{3, 4}, Timestamp: now}},
			Metadata:  writev2.Metadata{Type: 1, HelpRef: 5, UnitRef: 6},
		}},
	})
	h := newHead(t)
	f := &filler{}
	for v, body := range map[version][]byte{version1: one, version2: two} {
		b := h.NewBatch()
		var refused head.Refusals
		if err := fillBody(f, h, b, &refused, body, v); err != nil || refused.Any() {
			t.Fatal(err, refused.Error())
		}
		copy(body, bytes.Repeat([]byte("!"), len(body)))
		if _, err := h.Commit(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	want := map[string]head.Metadata{"one": {Type: "unknown", Help: "One.", Unit: "u"}, "two": {Type: "counter", Help: "Two.", Unit: "u"}}
	for _, name := range []string{"one", "two"} {
		series, err := h.View().Select(context.Background(), 0, math.MaxInt64, labels.MustNewMatcher(labels.MatchEqual, "__name__", name))
		if err != nil || len(series) != 1 || !labels.Equal(series[0].Labels(), labels.FromStrings("__name__", name, "a", "1")) {
			t.Errorf("%s: got %v, %v", name, series, err)
		}
		if m := h.Metadata()[name]; m != want[name] {
			t.Errorf("%s: got metadata %v, want %v", name, m, want[name])
		}
	}
	if len(f.told) != 0 || slices.ContainsFunc(f.told[:cap(f.told)], func(x told) bool { return x.metric != "" }) || f.ahead1.entry.ident != nil || f.scan2.body != nil || f.scan1.body != nil {
		t.Error("the scratch memory still holds on to a body")
	}
	for i := range f.entries {
		if f.entries[i].ident != nil || f.series[i] != nil {
			t.Error("the scratch memory still holds on to an entry")
		}
	}
}

// TestMalformedCreatesNoSeries has new series ahead of what is malformed.
func TestMalformedCreatesNoSeries(t *testing.T) {
	r := newRand(t, 51)
	h := newHead(t)
	f := &filler{}
	for n := range few(2000) {
		ls := []string{"__name__", fmt.Sprint("m", n)}
		sample := sampleField(1, 1, 0)
		one := fieldBytes(1, label1Field(ls[0], ls[1]), sample)
		table := join(fieldString(4, ""), fieldString(4, ls[0]), fieldString(4, ls[1]))
		two := join(table, fieldBytes(5, fieldBytes(1, packed(1, 2)), sample))
		bad1, bad2 := mutate(r, mustMarshal(randRequest1(r))), mutate(r, mustMarshal(randRequest2(r)))
		if _, err := collect1(bad1); err == nil || errors.Is(err, errWide) {
			continue
		}
		b := h.NewBatch()
		var refused head.Refusals
		if err := fillBody(f, h, b, &refused, join(one, bad1), version1); err == nil {
			t.Fatal("1.0: a malformed body was taken")
		}
		key := key1(label1Field(ls[0], ls[1]), h.Seed())
		if s, _ := h.Lookup(key); s != nil {
			t.Fatalf("1.0: series %v was created by the malformed body %x", s.Labels(), bad1)
		}
		if _, err := collect2(bad2); err != nil && !errors.Is(err, errWide) {
			if err := fillBody(f, h, b, &refused, join(two, bad2), version2); err == nil {
				t.Fatal("2.0: a malformed body was taken")
			}
			f.scan2.ring.init(h.Seed())
			hashes := []head.Key{f.scan2.ring.symbolHash([]byte(ls[0])), f.scan2.ring.symbolHash([]byte(ls[1]))}
			if s, _ := h.Lookup(f.scan2.ring.key2([]uint32{0, 1}, hashes)); s != nil {
				t.Fatalf("2.0: series %v was created by the malformed body %x", s.Labels(), bad2)
			}
		}
		b.Release()
	}
}

// TestManyWriters has labels that say what they must be, from many requests at
// once whose bodies share pooled memory.
func TestManyWriters(t *testing.T) {
	h := newHead(t)
	handler := New(Options{Head: h})
	const writers, requests, series = 16, 12, 20
	var wg sync.WaitGroup
	now := time.Now().UnixMilli()
	for w := range writers {
		wg.Go(func() {
			for i := range requests {
				body, v := selfChecking(w, i, series, now)
				if code := serve(handler, snappy.Encode(nil, body), v); code != 204 {
					t.Errorf("writer %d: got %d", w, code)
				}
			}
		})
	}
	wg.Wait()
	all, err := h.View().Select(context.Background(), 0, math.MaxInt64, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
	if err != nil || len(all) != writers*requests*series {
		t.Fatalf("got %d series, %v, want %d", len(all), err, writers*requests*series)
	}
	for _, s := range all {
		if want := checksum(s.Labels().Get("text")); s.Labels().Get("sum") != want || s.Labels().Len() != 3 {
			t.Fatalf("series %v: the sum should be %s", s.Labels(), want)
		}
	}
}
