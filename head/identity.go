package head

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/zeebo/xxh3"

	"github.com/rwsink/rwsink/head/postings"
)

// Series identity. The same label set is one series however it is written:
//
//  1. A request hashes the wire form of a label set into a Key, 128 bits under
//     a secret seed, and looks it up in the table of wire forms. A hit costs
//     about one cache miss; nothing is locked, decoded or allocated.
//  2. A miss decodes the labels, checks and sorts them, relabels them, and
//     looks for a series with equal labels under a 32-bit hash of them; this
//     hash only narrows the search, the labels are always compared.
//  3. None: a series is created. Either way the wire form is remembered.
//
// A Key is trusted since nobody outside can make two wire forms collide under
// a seed that they do not know, and by chance it does not happen. A test that
// shortens the hashes (hashMask) turns trust off: every look-up then goes the
// way of step 2.

// Key is the 128-bit hash, under the head's secret seed, of one wire form of a label set.
type Key struct{ Hi, Lo uint64 }

// Label is one label as it stands on the wire; the bytes are borrowed for the call.
type Label struct{ Name, Value []byte }

// pageSize is how many references one page of the reference table holds.
const pageSize = 512

type identity struct {
	seed     uint64
	hashMask uint64 // all ones, fewer in tests
	limits   Limits
	relabel  []*relabel.Config
	postings *postings.Index
	count    atomic.Int64 // series
	created  prometheus.Counter
	byKey    *keyTable // changed under mu

	mu       sync.RWMutex // guards what follows, and the creation of series
	byLabels labelTable
	pages    map[uint64]*[pageSize]*Series // by reference
	also     map[*Series][]uint64          // references beside its own that the log knew a series by
	lastRef  uint64
	unlisted uint64 // the postings have the series below this reference; 0 when they lack one that a replay has found
	live     bool   // the log is replayed
}

func newIdentity(o Options) *identity {
	return &identity{
		seed:     rand.Uint64(),
		hashMask: math.MaxUint64,
		limits:   o.Limits,
		relabel:  o.Relabel,
		created:  o.Metrics.Created,
		postings: postings.New(),
		byKey:    newKeyTable(),
		pages:    map[uint64]*[pageSize]*Series{},
		also:     map[*Series][]uint64{},
	}
}

// lookup sets each of out to the series of a wire form, droppedSeries, or nil.
func (id *identity) lookup(keys []Key, out []*Series) {
	if id.hashMask != math.MaxUint64 {
		clear(out)
		return
	}
	id.byKey.findAll(keys, out)
}

// remember notes a wire form of s, or of something dropped when s is droppedSeries. Called under id.mu.
func (id *identity) remember(k Key, s *Series) {
	if s.aliases >= maxAliases || id.byKey.find(k) != nil {
		return
	}
	if s != droppedSeries {
		s.aliases++
	}
	id.byKey.add(k, s)
}

// resolve finds or creates the series of the labels and remembers k; a nil
// series without an error is one that relabelling drops.
func (id *identity) resolve(k Key, wire []Label) (*Series, error) {
	ls, err := Canonical(wire, id.limits)
	if err != nil {
		return nil, err
	}
	keep := true
	if len(id.relabel) > 0 {
		if ls, keep, err = id.relabelled(ls); err != nil {
			return nil, err
		}
	}
	hash := id.hash(ls)
	id.mu.Lock()
	defer id.mu.Unlock()
	if !keep {
		id.remember(k, droppedSeries)
		return nil, nil
	}
	s := id.byLabels.find(hash, ls)
	if s == nil {
		if n := id.limits.Series; n > 0 && id.count.Load() >= int64(n) {
			return nil, &Refusal{
				Reason: ReasonSeriesLimit,
				Detail: fmt.Sprintf("the limit of %d series is reached (--limits.series)", n),
				Series: seriesText(ls),
			}
		}
		s = id.create(hash, ls, id.lastRef+1)
		id.created.Inc()
	}
	id.remember(k, s)
	return s, nil
}

// restore finds or creates the series that the log knows under ref.
func (id *identity) restore(ref uint64, ls labels.Labels) *Series {
	hash := id.hash(ls)
	id.mu.Lock()
	defer id.mu.Unlock()
	s := id.byLabels.find(hash, ls)
	if s == nil {
		return id.create(hash, ls, ref)
	}
	if ref != s.ref && !slices.Contains(id.also[s], ref) {
		id.also[s] = append(id.also[s], ref)
		id.setRef(ref, s)
	}
	return s
}

func (id *identity) create(hash uint32, ls labels.Labels, ref uint64) *Series {
	s := &Series{labels: ls, ref: ref, hash: hash}
	id.byLabels.add(s)
	id.setRef(ref, s)
	id.count.Add(1)
	switch {
	case id.live:
		id.postings.Add(ref, ls)
	case ref < id.unlisted:
		id.unlisted = 0
	}
	return s
}

// list puts the series that a replay has found since it was last called into the
// postings, which take them in order of reference: the log has new series in the
// order in which requests came through. Once all of it is replayed references
// ascend, and each new series goes to the postings at once.
func (id *identity) list(replayed bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.live {
		return
	}
	if id.unlisted == 0 {
		id.postings.Clear()
	}
	id.live = replayed
	if id.unlisted > id.lastRef {
		return // as for most deletes of a log
	}
	for _, n := range slices.Sorted(maps.Keys(id.pages)) {
		if (n+1)*pageSize <= id.unlisted {
			continue
		}
		for i, s := range id.pages[n] {
			if ref := n*pageSize + uint64(i); s != nil && s.ref == ref && ref >= id.unlisted {
				id.postings.Add(ref, s.labels)
			}
		}
	}
	id.unlisted = id.lastRef + 1
}

// setRef names s by ref too: a log can know one label set under two references.
func (id *identity) setRef(ref uint64, s *Series) {
	page := id.pages[ref/pageSize]
	if page == nil {
		page = new([pageSize]*Series)
		id.pages[ref/pageSize] = page
	}
	page[ref%pageSize] = s
	id.lastRef = max(id.lastRef, ref)
}

// byRef returns the series that the log or the postings know under ref, or nil.
func (id *identity) byRef(ref uint64) *Series {
	id.mu.RLock()
	defer id.mu.RUnlock()
	return id.at(ref)
}

// at is byRef for a caller that holds mu.
func (id *identity) at(ref uint64) *Series {
	if page := id.pages[ref/pageSize]; page != nil {
		return page[ref%pageSize]
	}
	return nil
}

func (id *identity) hash(ls labels.Labels) uint32 {
	var buf [1024]byte
	return uint32(xxh3.HashSeed(ls.Bytes(buf[:0]), id.seed) & id.hashMask)
}

// Canonical checks labels and returns them sorted, without empty values. The
// error is a *Refusal. Limits must have their defaults filled in.
func Canonical(wire []Label, limits Limits) (labels.Labels, error) {
	refuse := func(reason, format string, args ...any) (labels.Labels, error) {
		return labels.EmptyLabels(), &Refusal{
			Reason: reason, Detail: fmt.Sprintf(format, args...), Series: FormatLabels(wire),
		}
	}
	if len(wire) > limits.Labels {
		return refuse(ReasonLabelLimit, "%d labels, the limit is %d", len(wire), limits.Labels)
	}
	var buf [32]Label // more than most series have
	sorted := append(buf[:0], wire...)
	if byName := func(a, b Label) int { return bytes.Compare(a.Name, b.Name) }; !slices.IsSortedFunc(sorted, byName) {
		slices.SortStableFunc(sorted, byName)
	}
	size, named := 0, false
	builder := labels.NewScratchBuilder(len(wire))
	builder.SetUnsafeAdd(true) // what Labels returns is a copy
	for i, l := range sorted {
		size += len(l.Name) + len(l.Value)
		switch {
		case len(l.Name) == 0:
			return refuse(ReasonLabelName, "a label name is empty")
		case !utf8.Valid(l.Name):
			return refuse(ReasonLabelUTF8, "label name %q is not valid UTF-8", clip(l.Name))
		case !utf8.Valid(l.Value):
			return refuse(ReasonLabelUTF8, "the value of label %q is not valid UTF-8", clip(l.Name))
		case i > 0 && bytes.Equal(l.Name, sorted[i-1].Name):
			return refuse(ReasonDuplicateLabel, "label name %q is given twice", clip(l.Name))
		case size > limits.LabelBytes:
			return refuse(ReasonLabelLimit, "more than %d bytes of labels", limits.LabelBytes)
		}
		if len(l.Value) > 0 {
			named = named || string(l.Name) == labels.MetricName
			builder.Add(borrowed(l.Name), borrowed(l.Value))
		}
	}
	if !named {
		return refuse(ReasonNoMetricName, "the label __name__ is missing or empty")
	}
	return builder.Labels(), nil
}

// borrowed returns b as a string for as long as b stays what it is.
func borrowed(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// relabelled applies the relabel file; keep is false when it drops the series.
func (id *identity) relabelled(ls labels.Labels) (out labels.Labels, keep bool, err error) {
	builder := labels.NewBuilder(ls)
	keep = relabel.ProcessBuilder(builder, id.relabel...)
	out = builder.Labels()
	switch {
	case !keep:
	case out.Get(labels.MetricName) == "":
		err = &Refusal{Reason: ReasonNoMetricName, Detail: "relabelling left no label __name__", Series: seriesText(ls)}
	case nameless(out):
		err = &Refusal{Reason: ReasonLabelName, Detail: "relabelling made a label without a name", Series: seriesText(ls)}
	}
	return out, keep, err
}

// nameless says whether a label has an empty name.
func nameless(ls labels.Labels) (found bool) {
	ls.Range(func(l labels.Label) { found = found || l.Name == "" })
	return found
}

// all returns the series that match, in no order.
func (id *identity) all(ctx context.Context, p index.Postings) ([]*Series, error) {
	var out []*Series
	for p.Next() {
		if len(out)%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if s := id.byRef(uint64(p.At())); s != nil {
			out = append(out, s)
		}
	}
	return out, p.Err()
}
