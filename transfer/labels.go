package transfer

import (
	"cmp"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/rwsink/rwsink/head"
)

// adder adds labels to the series that lack them, as Prometheus adds its external
// ones when it sends: a series' own label wins.
type adder struct {
	extra   labels.Labels
	builder *labels.Builder
	wire    []head.Label // scratch
}

func newAdder(extra labels.Labels) *adder {
	return &adder{extra: extra, builder: labels.NewBuilder(labels.EmptyLabels())}
}

// to returns the labels of a series with the others added; the error says that
// they are too many then.
func (a *adder) to(ls labels.Labels) (labels.Labels, error) {
	if a.extra.IsEmpty() {
		return ls, nil
	}
	a.builder.Reset(ls)
	a.extra.Range(func(l labels.Label) {
		if !ls.Has(l.Name) {
			a.builder.Set(l.Name, l.Value)
		}
	})
	a.wire = a.wire[:0]
	a.builder.Range(func(l labels.Label) {
		a.wire = append(a.wire, head.Label{Name: []byte(l.Name), Value: []byte(l.Value)})
	})
	return head.Canonical(a.wire, limits)
}

// own returns how many of the labels a series has itself.
func (a *adder) own(ls labels.Labels) (n int) {
	a.extra.Range(func(l labels.Label) {
		if ls.Has(l.Name) {
			n++
		}
	})
	return n
}

// blockSeries is a series of a block under the labels that it goes by.
type blockSeries struct {
	labels labels.Labels
	had    int // of the added labels, those that it has itself
	series storage.Series
}

// labelledCursor walks series of a block that were looked at before.
type labelledCursor struct {
	blockCursor
	list []blockSeries
}

func (c *labelledCursor) next() (bool, error) {
	if len(c.list) == 0 {
		return false, nil
	}
	c.now, c.last, c.bad = c.list[0].series, c.list[0].labels, false
	c.list = c.list[1:]
	return true, nil
}

// labelled returns cursors over what c walks, with labels added. The series stand
// in another order then, so all of them are looked at first. Those that become one
// go to cursors of their own: the one that has more of the labels itself ranks higher.
func (a *adder) labelled(c *blockCursor) ([]cursor, error) {
	var list []blockSeries
	for {
		ok, err := c.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		ls, err := a.to(c.last)
		if err != nil {
			c.owner.gate.refuse(place{name: c.from.dir}, err.Error()+", with the labels that are added")
			continue
		}
		list = append(list, blockSeries{ls, a.own(c.last), c.now})
	}
	slices.SortStableFunc(list, func(a, b blockSeries) int {
		return cmp.Or(labels.Compare(a.labels, b.labels), cmp.Compare(a.had, b.had))
	})
	var lists [][]blockSeries
	for i, same := 0, 0; i < len(list); i++ {
		if same++; i == 0 || !labels.Equal(list[i-1].labels, list[i].labels) {
			same = 0
		}
		if same == len(lists) {
			lists = append(lists, nil)
		}
		lists[same] = append(lists[same], list[i])
	}
	var out []cursor
	for _, l := range lists {
		out = append(out, &labelledCursor{blockCursor{owner: c.owner, from: c.from}, l})
	}
	return out, nil
}
