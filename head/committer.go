package head

import (
	"fmt"
	"math"
	"slices"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/ooo"
	"github.com/rwsink/rwsink/wal"
	"github.com/rwsink/rwsink/wal/record"
)

// maxGroup bounds the items of one group, so that a burst does not make the
// first of its requests wait for the last.
const maxGroup = 1 << 17

// committer is the head's only writer. One goroutine takes the waiting batches
// as a group and
//
//  1. judges each: what is refused is taken out of it (under a narrow window,
//     where that depends on what is stored, a batch with a series of a batch
//     before it begins another group),
//  2. begins a group in the log, writes a frame a batch, with the records of
//     the series that the segment does not name yet, and commits it: one sync,
//  3. applies the batches in the order of their frames, and wakes the requests.
//
// An error in step 2 stores nothing of the group. Since only what the log has
// taken is applied, and in its order, visible implies durable and a restart
// changes no answer.
type committer struct {
	head    *Head
	log     *wal.Log
	applier *applier
	probe   ooo.Buffer

	group   uint32   // counts groups, for Series.group
	batches []*Batch // taken from the queue
	judged  []*Batch // of them, those of the group
	lsns    []wal.LSN
	record  record.Batch
	payload []byte

	maxPayload int       // bytes of a frame
	named      []*Series // whose record this group writes
	keep       []bool
	order      []candidate
	reader     *Reader
	suspect    bool
	nowMs      int64      // of the group, by the wall clock
	monoMs     int64      // of the group, by the monotonic clock
	recent     *Container // open, or nil: where the next sample is looked for first
	stats      committerStats
}

// committerStats count since the last time they were taken.
type committerStats struct {
	inOrder, late      int
	lateness, disorder metrics.DelayCounts
}

func newCommitter(h *Head) *committer {
	return &committer{
		head: h, log: h.options.Log, applier: newApplier(h.options), group: 1,
		reader: (&View{head: h}).NewReader(), maxPayload: wal.MaxPayload,
	}
}

func (c *committer) run() {
	defer close(c.head.finished)
	for {
		select {
		case f := <-c.head.control:
			f(c)
			c.report()
		case b, ok := <-c.head.queue:
			if !ok {
				return
			}
			c.batches = append(c.batches[:0], b)
			c.gather(b.items())
			c.commit()
			c.press()
		}
	}
}

// press signals that cold runs hold too much.
func (c *committer) press() {
	if c.head.Pressed() {
		select {
		case c.head.pressure <- struct{}{}:
		default:
		}
	}
}

// gather takes the batches that wait, as long as there are fewer than maxGroup items beside the n.
func (c *committer) gather(n int) {
	for n < maxGroup {
		select {
		case b, ok := <-c.head.queue:
			if !ok {
				return
			}
			c.batches = append(c.batches, b)
			n += b.items()
		default:
			return
		}
	}
}

// commit carries the batches that were taken from the queue through.
func (c *committer) commit() {
	w := c.head.clock.bounds()
	c.watch(w)
	c.nowMs, c.monoMs = w.nowMs, c.head.clock.mono().Milliseconds()
	for _, b := range c.batches {
		c.revive(b)
		if w.narrow() && c.meets(b) {
			c.finish(w)
		}
		if b.err = c.judge(b, w); b.err != nil || b.items() == 0 {
			b.done <- struct{}{}
			continue
		}
		if w.narrow() {
			c.mark(b)
		}
		c.judged = append(c.judged, b)
	}
	c.finish(w)
	clear(c.batches)
	c.report()
}

// watch logs when the clock becomes suspect, and when it no longer is.
func (c *committer) watch(w bounds) {
	if w.suspect == c.suspect {
		return
	}
	c.suspect = w.suspect
	if w.suspect {
		c.head.log.Error(c.head.clockNotice())
	} else {
		c.head.log.Info("the clock is no longer suspect")
	}
}

// finish logs and applies the group, wakes its requests and begins the next.
func (c *committer) finish(w bounds) {
	if len(c.judged) == 0 {
		return
	}
	err := c.write(c.judged)
	if err != nil {
		c.head.options.Metrics.GroupFailures.Inc()
		c.unname(0)
	}
	c.head.outage.note(c.head.log, "nothing of a group was stored", err)
	for i, b := range c.judged {
		if b.err = err; err == nil {
			c.apply(b, c.lsns[i])
		}
		b.done <- struct{}{}
	}
	c.head.options.Metrics.Groups.Inc()
	clear(c.judged)
	c.judged = c.judged[:0]
	c.group++
}

// meets says whether the group has samples of a series of b.
func (c *committer) meets(b *Batch) bool {
	return slices.ContainsFunc(b.series, func(s *Series) bool { return s.group == c.group }) ||
		slices.ContainsFunc(b.hists, func(h histSample) bool { return h.series.group == c.group })
}

// mark notes that the group has samples of the series of b.
func (c *committer) mark(b *Batch) {
	for _, s := range b.series {
		s.group = c.group
	}
	for i := range b.hists {
		b.hists[i].series.group = c.group
	}
}

// revive replaces the series of b that were collected since it was begun.
func (c *committer) revive(b *Batch) {
	if b.since == c.head.collections.Load() {
		return
	}
	id := c.head.identity
	for i, s := range b.series {
		if s.gone {
			b.series[i] = id.withLabels(s.labels)
		}
	}
	for i := range b.hists {
		if s := b.hists[i].series; s.gone {
			b.hists[i].series = id.withLabels(s.labels)
		}
	}
	for i := range b.exemplars {
		if s := b.exemplars[i].series; s.gone {
			b.exemplars[i].series = id.withLabels(s.labels)
		}
	}
}

// write makes the group durable.
func (c *committer) write(group []*Batch) error {
	c.lsns, c.named = c.lsns[:0], c.named[:0]
	segment, err := c.log.Begin()
	if err != nil {
		return err
	}
	for _, b := range group {
		named := len(c.named)
		c.payload = record.Append(c.payload[:0], c.toRecord(b, segment))
		if len(c.payload) > c.maxPayload {
			c.refuseWhole(b)
			c.unname(named)
		}
		lsn, err := c.log.Write(wal.ClassWritten, c.payload)
		if err != nil {
			return err
		}
		c.lsns = append(c.lsns, lsn)
	}
	return c.log.Commit()
}

// toRecord turns a batch into what the log takes; the memory is borrowed until the next call.
func (c *committer) toRecord(b *Batch, segment uint64) *record.Batch {
	r := &c.record
	clear(r.Series)
	clear(r.Histograms)
	clear(r.Exemplars)
	r.Series, r.Histograms, r.Exemplars = r.Series[:0], r.Histograms[:0], r.Exemplars[:0]
	refs := r.Floats.Ref[:0]
	for _, s := range b.series {
		c.name(s, segment)
		refs = append(refs, s.ref)
	}
	r.Floats = record.Floats{Ref: refs, T: b.times, ST: b.starts, V: b.values}
	for i := range b.hists {
		s := &b.hists[i]
		c.name(s.series, segment)
		r.Histograms = append(r.Histograms, record.Histogram{Ref: s.series.ref, T: s.t, ST: s.st, H: s.h, FH: s.fh})
	}
	for i := range b.exemplars {
		e := &b.exemplars[i]
		c.name(e.series, segment)
		r.Exemplars = append(r.Exemplars, record.Exemplar{Ref: e.series.ref, T: e.Ts, V: e.Value, Labels: e.Labels})
	}
	r.Metadata = b.metadata
	return r
}

// name puts the record of s before its first use in a segment.
func (c *committer) name(s *Series, segment uint64) {
	mark := uint32(segment%math.MaxUint32) + 1 // not 0, and another one for the next segment
	if s.loggedIn == mark {
		return
	}
	s.loggedIn = mark
	c.named = append(c.named, s)
	c.record.Series = append(c.record.Series, record.Series{Ref: s.ref, Labels: s.labels})
}

// unname forgets that the series of c.named from i on were named.
func (c *committer) unname(i int) {
	for _, s := range c.named[i:] {
		s.loggedIn = 0
	}
	c.named = c.named[:i]
}

// refuseWhole refuses a batch that no frame can hold, and leaves an empty one to log.
func (c *committer) refuseWhole(b *Batch) {
	detail := fmt.Sprintf("the request takes %d bytes of log, at most %d", len(c.payload), c.maxPayload)
	counts := [numItems]int{len(b.times), len(b.hists), len(b.exemplars), len(b.metadata)}
	for item, n := range counts {
		b.result.Refused.Add(n, &Refusal{Item: Item(item), Reason: ReasonRequestLimit, Detail: detail})
	}
	b.result.Samples -= len(b.times)
	b.result.Histograms -= len(b.hists)
	b.result.Exemplars -= len(b.exemplars)
	b.clear()
	c.payload = c.payload[:0]
}

// apply makes a logged batch visible.
func (c *committer) apply(b *Batch, lsn wal.LSN) {
	h := c.head
	h.mu.Lock()
	var boxes [aheadOf]*Container
	old := false
	for i, s := range b.series {
		if i%aheadOf == 0 {
			to := min(i+aheadOf, len(b.series))
			c.applier.ahead(b.series[i:to])
			if old = b.times[i] < c.nowMs-2*h.options.BlockDuration.Milliseconds(); old { // as mostly all then
				c.applier.coldAhead(&boxes, h.containers.Load(), b.series[i:to], b.times[i:to])
			}
		}
		if old {
			c.recent = boxes[i%aheadOf]
		}
		c.stats.lateness.Observe(elapsed(b.times[i], c.nowMs))
		c.placeFloat(s, lsn, b.times[i], b.start(i), b.values[i])
	}
	for i := range b.hists {
		c.stats.lateness.Observe(elapsed(b.hists[i].t, c.nowMs))
		c.place(b.hists[i].series, lsn, &b.hists[i].sample)
	}
	h.mu.Unlock()
	for i := range b.exemplars {
		e := &b.exemplars[i]
		if err := h.exemplars.add(e.series.labels, e.Exemplar); err != nil {
			// Another batch of the group was ahead of it.
			b.result.Exemplars--
			b.refuseExemplar(*e, err)
		}
	}
	h.metadata.apply(b.metadata)
}

// placeFloat is place for a float. Nearly all come in order, without a start
// timestamp, and only add to the tail of the newest part.
func (c *committer) placeFloat(s *Series, lsn wal.LSN, t, st int64, v float64) {
	p := s.live
	if p == nil || t <= s.newest || st != 0 || !p.takes(t) || !c.applier.onlyPushed(p) {
		c.place(s, lsn, &sample{t: t, st: st, v: v})
		return
	}
	c.stats.inOrder++
	s.newest = t
	p.box.touch(t, lsn, c.monoMs)
	p.floats.push(p.box.arena, p.maxT, t, v)
	p.maxT = t
}

// place puts one sample into its container. Head.mu is held for writing.
func (c *committer) place(s *Series, lsn wal.LSN, x *sample) {
	p, box := s.partAt(x.t), (*Container)(nil)
	if p != nil {
		box = p.box
	} else {
		box = c.container(x.t, lsn-1)
	}
	if s.seen && x.t <= s.newest {
		c.stats.late++
		c.stats.disorder.Observe(elapsed(x.t, s.newest))
	} else {
		c.stats.inOrder++
		s.newest, s.seen = x.t, true
	}
	box.touch(x.t, lsn, c.monoMs)
	if box.cold != nil {
		of, first := box.cold.add(s, x)
		if first {
			c.head.hold(s)
		}
		c.applier.pack(box.cold, of)
		c.head.countCold(box.cold)
		return
	}
	if p == nil {
		p = c.open(s, box)
	}
	c.applier.add(box, p, x)
}

// open makes a part of s in box, which is near and has none yet.
func (c *committer) open(s *Series, box *Container) *part {
	p := &part{series: s, box: box, place: uint8(s.ref)}
	box.parts.put(s, p)
	c.head.hold(s)
	s.link(p)
	return p
}

// holds says whether the series has the very same sample already.
func (c *committer) holds(s *Series, x *sample) bool {
	c.reader.view.list = c.head.containers.Load()
	same := false
	err := c.reader.Read(s, x.t, x.t, func(run *chunkenc.Samples) error {
		c.probe.Reset()
		x.addTo(&c.probe)
		_, stats := c.applier.merger.Merge([]*chunkenc.Samples{run}, &c.probe)
		same = stats.Duplicates == 1
		return nil
	})
	return err == nil && same
}

// forget drops what was counted of samples, which a replay has not accepted but read.
func (c *committer) forget() {
	c.stats = committerStats{}
	c.applier.stats.duplicates, c.applier.stats.overwritten = 0, 0
}

// report hands what was counted to the metrics.
func (c *committer) report() {
	m, a := c.head.options.Metrics, &c.applier.stats
	m.InOrder.Add(float64(c.stats.inOrder))
	m.Late.Add(float64(c.stats.late))
	c.stats.disorder.ObserveZero(c.stats.inOrder)
	c.stats.inOrder, c.stats.late = 0, 0
	m.Lateness.Take(&c.stats.lateness)
	m.Disorder.Take(&c.stats.disorder)
	m.Duplicates.Add(float64(a.duplicates))
	m.Overwritten.Add(float64(a.overwritten))
	m.Merges.Add(float64(a.merges))
	m.TailsSealed.Add(float64(a.tailSealed))
	m.Chunks.Add(float64(a.chunks))
	*a = applyStats{}
	m.Series.Set(float64(c.head.identity.count.Load()))
	list := c.head.containers.Load()
	m.Containers.Set(float64(len(list.frozen) + len(list.open)))
}
