package head_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs/memfs"
)

// describe commits metadata of one family, in order, as one batch.
func (p *process) describe(t tester, family string, helps ...string) head.Result {
	t.Helper()
	b := p.head.NewBatch()
	defer b.Release()
	for _, help := range helps {
		b.Metadata(family, model.MetricTypeCounter, "", help)
	}
	res, err := p.head.Commit(context.Background(), b)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return res
}

// TestLatestMetadataWins sends what is known, and what is not, in every order.
func TestLatestMetadataWins(t *testing.T) {
	fs := memfs.New(1)
	p := mustStart(t, fs, options())
	for _, helps := range [][]string{{"a"}, {"a", "b"}, {"c", "b"}, {"a", "c", "b"}, {"b"}, {"b", "a"}, {"b", "b", "a", "a"}} {
		p.describe(t, "f", helps...)
		want := head.Metadata{Type: model.MetricTypeCounter, Help: helps[len(helps)-1]}
		if got := p.head.Metadata()["f"]; got != want {
			t.Errorf("after %v: got %v", helps, got)
		}
	}
	before := p.log.Size()
	p.describe(t, "f", "a", "a")
	if p.log.Size() != before {
		t.Error("what is known is logged again")
	}
	p.stop()
	p = mustStart(t, fs, options())
	defer p.stop()
	if got := p.head.Metadata()["f"].Help; got != "a" {
		t.Errorf("after a restart: %q", got)
	}
}

// TestMetadataIsBounded fills the table: what is there still changes, no more comes in.
func TestMetadataIsBounded(t *testing.T) {
	const families = 100_000
	p := run(t, options())
	if res := p.describe(t, "long", strings.Repeat("é", 8<<10)); res.Refused.Len(head.ItemMetadata) != 1 || len(p.head.Metadata()) != 0 {
		t.Errorf("got %+v", res)
	}
	b := p.head.NewBatch()
	for i := range families + 5 {
		b.Metadata(fmt.Sprint("f", i), model.MetricTypeGauge, "", "")
		b.Metadata(fmt.Sprint("f", i), model.MetricTypeGauge, "", "twice")
	}
	res, err := p.head.Commit(context.Background(), b)
	b.Release()
	if err != nil || res.Refused.Len(head.ItemMetadata) != 5 || len(p.head.Metadata()) != families {
		t.Errorf("%d families, %d refused, %v", len(p.head.Metadata()), res.Refused.Len(head.ItemMetadata), err)
	}
	p.describe(t, "f1", "new")
	if p.head.Metadata()["f1"].Help != "new" {
		t.Error("a known family does not change")
	}
	if res := p.describe(t, "other", "x"); res.Refused.Len(head.ItemMetadata) != 1 {
		t.Errorf("got %+v", res)
	}
}
