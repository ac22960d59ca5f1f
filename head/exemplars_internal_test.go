package head

import (
	"errors"
	"testing"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// The ring knows each exemplar that it holds, whatever came after it, and forgets
// the one that it overwrites.
func TestExemplarRingKnowsWhatItHolds(t *testing.T) {
	const size = 3
	r, err := newExemplarRing(size, 1, tsdb.NewExemplarMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	series := labels.FromStrings("__name__", "m")
	at := func(i int) exemplar.Exemplar {
		return exemplar.Exemplar{Labels: labels.FromStrings("trace_id", "x"), Value: 1, Ts: int64(i), HasTs: true}
	}
	for i := range 20 {
		if err := r.judge(series, at(i)); err != nil {
			t.Fatalf("a new exemplar: %v", err)
		}
		if err := r.add(series, at(i)); err != nil {
			t.Fatal(err)
		}
		for k := range i + 1 {
			want := storage.ErrDuplicateExemplar
			if k <= i-size {
				want = storage.ErrOutOfOrderExemplar
			}
			if err := r.judge(series, at(k)); !errors.Is(err, want) {
				t.Fatalf("exemplar %d after %d: %v, want %v", k, i, err, want)
			}
			if err := r.add(series, at(k)); (err == nil) != (k > i-size) {
				t.Fatalf("exemplar %d added again after %d: %v", k, i, err)
			}
		}
		if len(r.held) != min(i+1, size) {
			t.Fatalf("%d are held, want %d", len(r.held), min(i+1, size))
		}
	}
	other := at(19)
	other.Value = 2
	if err := r.judge(series, other); err != nil {
		t.Errorf("another value: %v", err)
	}
	if err := r.judge(labels.FromStrings("__name__", "n"), at(0)); err != nil {
		t.Errorf("another series: %v", err)
	}
}

func TestExemplarRingOfNoSize(t *testing.T) {
	r, err := newExemplarRing(-1, 1, tsdb.NewExemplarMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	e := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", "x"), Ts: 1, HasTs: true}
	if err := r.judge(labels.EmptyLabels(), e); !errors.Is(err, storage.ErrExemplarsDisabled) {
		t.Errorf("judge: %v", err)
	}
	if err := r.add(labels.EmptyLabels(), e); !errors.Is(err, storage.ErrExemplarsDisabled) {
		t.Errorf("add: %v", err)
	}
}
