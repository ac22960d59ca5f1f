package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/ooo"
	"github.com/rwsink/rwsink/store"
)

// sourceBlock is a block of Prometheus. It is open while a range needs it.
type sourceBlock struct {
	dir    string
	meta   tsdb.BlockMeta
	block  *tsdb.Block
	failed bool // it does not open, which was said
}

// lastT returns the last timestamp that the block may have.
func (b *sourceBlock) lastT() int64 { return b.meta.MaxTime - 1 }

// The names in a data directory of Prometheus that hold what is in no block yet.
var headNames = []string{"wal", "wbl", "chunks_head"}

// fault says why a directory that looks like a block is none to import.
type fault struct {
	dir string
	err error
}

// findBlocks adds the blocks of a directory, which is one or holds some, what is
// wrong with others, and the parts of Prometheus's head in it.
func (in *inputs) findBlocks(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "meta.json")); err == nil {
		b, err := findBlock(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		in.blocks = append(in.blocks, b)
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found, heads := 0, len(in.heads)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if slices.Contains(headNames, e.Name()) {
			if parts, err := os.ReadDir(path); err != nil || len(parts) > 0 {
				in.heads = append(in.heads, path)
			}
		}
		if !isULID(e.Name()) || !e.IsDir() {
			continue
		}
		found++
		if b, err := findBlock(path); err != nil {
			in.faults = append(in.faults, fault{path, err})
		} else {
			in.blocks = append(in.blocks, b)
		}
	}
	if found == 0 {
		if store.Exists(dir) == nil {
			return fmt.Errorf("%s: a data directory of rwsink, not of Prometheus: export it first", dir)
		}
		if len(in.heads) > heads {
			return fmt.Errorf("%s: Prometheus has no blocks in it yet, and what is in no block (%s) is not read: take a snapshot with its admin API and import that",
				dir, strings.Join(headNames, ", "))
		}
		return fmt.Errorf("%s: neither a block of Prometheus nor a directory of blocks", dir)
	}
	return nil
}

func findBlock(dir string) (*sourceBlock, error) {
	if _, err := os.Stat(filepath.Join(dir, "rwsink.json")); err == nil {
		return nil, errors.New("is a block of rwsink, not of Prometheus: export it first")
	}
	b := &sourceBlock{dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err == nil {
		err = json.Unmarshal(data, &b.meta)
	}
	if err == nil && (b.meta.Version != 1 || b.meta.MinTime >= b.meta.MaxTime) {
		err = fmt.Errorf("version %d, range [%d, %d)", b.meta.Version, b.meta.MinTime, b.meta.MaxTime)
	}
	if err != nil {
		return nil, fmt.Errorf("not a block of Prometheus: meta.json: %w", err)
	}
	return b, nil
}

// blockSet is the blocks to import, with what they are read for.
type blockSet struct {
	list   []*sourceBlock // the later ones rank higher
	gate   *gate
	adder  *adder
	logger *slog.Logger
}

// cursors opens the blocks that reach into [lo, hi] and returns a cursor for
// each; those that end before lo are closed.
func (s *blockSet) cursors(ctx context.Context, lo, hi int64) (out []cursor, release func() error, err error) {
	var queriers []storage.Querier
	release = func() error {
		var errs []error
		for _, q := range queriers {
			errs = append(errs, q.Close())
		}
		return errors.Join(errs...)
	}
	for _, b := range s.list {
		if b.block != nil && b.lastT() < lo {
			err = errors.Join(err, b.block.Close())
			b.block = nil
		}
		if b.failed || b.meta.MinTime > hi || b.lastT() < lo || !s.open(b) {
			continue
		}
		q, qerr := tsdb.NewBlockQuerier(b.block, lo, hi)
		if qerr != nil {
			s.gate.refuse(place{name: b.dir}, qerr.Error())
			b.failed = true
			continue
		}
		queriers = append(queriers, q)
		c := &blockCursor{owner: s, from: b, set: q.Select(ctx, true, nil, everything)}
		if s.adder.extra.IsEmpty() {
			out = append(out, c)
			continue
		}
		list, lerr := s.adder.labelled(c)
		if lerr != nil {
			return nil, release, lerr
		}
		out = append(out, list...)
	}
	return out, release, err
}

// everything matches every series.
var everything = labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".*")

// open opens a block; one that does not open is refused as a whole, once.
func (s *blockSet) open(b *sourceBlock) bool {
	if b.block != nil {
		return true
	}
	block, err := tsdb.OpenBlock(s.logger, b.dir, nil, nil)
	if err != nil {
		s.gate.refuse(place{name: b.dir}, err.Error())
		b.failed = true
		return false
	}
	b.block = block
	return true
}

func (s *blockSet) close() error {
	var errs []error
	for _, b := range s.list {
		if b.block != nil {
			errs = append(errs, b.block.Close())
			b.block = nil
		}
	}
	return errors.Join(errs...)
}

// blockCursor walks the series of a block within a range.
type blockCursor struct {
	owner *blockSet
	from  *sourceBlock
	set   storage.SeriesSet
	now   storage.Series
	last  labels.Labels
	wire  []head.Label
	bad   bool // the series now was refused; what was read of it before stays
	runs  chunkenc.Samples
}

func (c *blockCursor) labels() labels.Labels { return c.last }

func (c *blockCursor) next() (bool, error) {
	for c.set.Next() {
		s := c.set.At()
		ls := s.Labels()
		if err := c.check(ls); err != nil {
			c.owner.gate.refuse(place{name: c.from.dir}, "series "+clip(ls.String())+": "+err.Error())
			continue
		}
		c.now, c.last, c.bad = s, ls, false
		return true, nil
	}
	if err := c.set.Err(); err != nil {
		if errors.Is(err, context.Canceled) {
			return false, err
		}
		c.owner.gate.refuse(place{name: c.from.dir}, err.Error())
	}
	return false, nil
}

// check says why a series cannot be taken: its labels, or its place among the others.
func (c *blockCursor) check(ls labels.Labels) error {
	c.wire = c.wire[:0]
	ls.Range(func(l labels.Label) {
		c.wire = append(c.wire, head.Label{Name: []byte(l.Name), Value: []byte(l.Value)})
	})
	proper, err := head.Canonical(c.wire, limits)
	switch {
	case err != nil:
		return err
	case !labels.Equal(proper, ls):
		return errors.New("its labels are not sorted, or one is empty")
	case c.now != nil && labels.Compare(c.last, ls) >= 0:
		return fmt.Errorf("it stands behind series %s", clip(c.last.String()))
	}
	return nil
}

func (c *blockCursor) layer() ooo.Layer {
	return ooo.Layer{Lo: c.from.meta.MinTime, Hi: c.from.lastT(), Read: c.read}
}

// batchSamples is how many samples are handed on at a time.
const batchSamples = 1024

// read gives what the series has in [lo, hi]. Where the block turns out damaged
// the series ends, and that is said.
func (c *blockCursor) read(lo, hi int64, emit func(*chunkenc.Samples) error) error {
	if c.bad {
		return nil
	}
	it := c.now.Iterator(nil)
	c.runs.Reset(chunkenc.KindFloat)
	send := func() error {
		if c.runs.Len() == 0 {
			return nil
		}
		c.owner.gate.read += uint64(c.runs.Len())
		err := emit(&c.runs)
		c.runs.Reset(c.runs.Kind)
		return err
	}
	last := int64(math.MinInt64)
	for kind := it.Seek(lo); kind != promenc.ValNone && it.AtT() <= hi; kind = it.Next() {
		t := it.AtT()
		if t <= last && last != math.MinInt64 {
			c.spoil(fmt.Errorf("timestamp %d stands behind %d", t, last))
			break
		}
		last = t
		if !c.owner.gate.takes(t) {
			c.owner.gate.turnAway(place{name: c.from.dir}, t, c.last.String)
			continue
		}
		if want := kindOf(kind); want != c.runs.Kind || c.runs.Len() >= batchSamples {
			if err := send(); err != nil {
				return err
			}
			c.runs.Reset(want)
		}
		if err := appendFrom(&c.runs, it, kind, t); err != nil {
			c.owner.gate.refuse(place{name: c.from.dir}, fmt.Sprintf("series %s: histogram at %d: %v", clip(c.last.String()), t, err))
		}
	}
	if err := it.Err(); err != nil {
		c.spoil(err)
	}
	return send()
}

// spoil says what is wrong with the series, of which nothing more is read.
func (c *blockCursor) spoil(err error) {
	c.bad = true
	c.owner.gate.refuse(place{name: c.from.dir}, "series "+clip(c.last.String())+": "+err.Error())
}

func kindOf(v promenc.ValueType) chunkenc.Kind {
	switch v {
	case promenc.ValHistogram:
		return chunkenc.KindHistogram
	case promenc.ValFloatHistogram:
		return chunkenc.KindFloatHistogram
	}
	return chunkenc.KindFloat
}

// appendFrom appends the sample that the iterator is at.
func appendFrom(s *chunkenc.Samples, it promenc.Iterator, kind promenc.ValueType, t int64) error {
	switch kind {
	case promenc.ValHistogram:
		_, h := it.AtHistogram(nil)
		if err := head.CheckHistogram(h); err != nil {
			return err
		}
		s.H = append(s.H, h)
	case promenc.ValFloatHistogram:
		_, fh := it.AtFloatHistogram(nil)
		if err := head.CheckFloatHistogram(fh); err != nil {
			return err
		}
		s.FH = append(s.FH, fh)
	default:
		_, v := it.At()
		s.V = append(s.V, v)
	}
	if st := it.AtST(); st != 0 || len(s.ST) > 0 {
		for len(s.ST) < len(s.T) {
			s.ST = append(s.ST, 0)
		}
		s.ST = append(s.ST, st)
	}
	s.T = append(s.T, t)
	return nil
}

// maxNamed bounds what a message tells of a series or a line, in bytes.
const maxNamed = 512

// clip returns as much of a text as a message tells.
func clip(s string) string {
	if len(s) > maxNamed {
		s = s[:maxNamed] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
