package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/ooo"
	"github.com/rwsink/rwsink/store"
)

// Format is a form in which samples come and go.
type Format string

// The formats.
const (
	Auto        Format = "auto"        // by content
	Blocks      Format = "blocks"      // a block of Prometheus, or a directory of blocks
	OpenMetrics Format = "openmetrics" // text, to import only
	JSON        Format = "json"        // JSON lines
)

// Stdin is the name of the standard input among the inputs.
const Stdin = "-"

// ImportOptions say what Import reads and where it goes.
type ImportOptions struct {
	Store    store.Options // its Path, retention and bounds of time count
	Inputs   []string      // directories, files (packed by gzip or not), Stdin
	Stdin    io.Reader
	Format   Format        // of all inputs; "" is Auto
	From, To int64         // Unix milliseconds, both included: nothing else is taken
	Labels   labels.Labels // added to every series that has none of their name
	Memory   int           // bytes for samples of text until they are sorted into a file: 64 MiB
	Progress *Progress     // nil shows nothing
	Say      func(string)  // told what is refused, and where; and what is left aside
}

// defaultMemory is the default of ImportOptions.Memory.
const defaultMemory = 64 << 20

// Imported is what became of the samples of an import.
type Imported struct {
	Blocks    int    // written
	Samples   uint64 // written
	Same      uint64 // were there before
	Other     uint64 // left out: the directory holds another value at their time
	Repeated  uint64 // left out: the input has a later one at their time
	Outside   uint64 // not between From and To
	TooOld    uint64 // refused: retention does not reach them
	TooNew    uint64 // refused: in the future
	Bad       uint64 // refused: lines, series, blocks or files that make no sense
	Exemplars uint64 // left aside
}

// Refused says whether anything was refused.
func (i Imported) Refused() bool { return i.TooOld+i.TooNew+i.Bad > 0 }

// String is the summary, in a line.
func (i Imported) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d samples in %d blocks", i.Samples, i.Blocks)
	for _, part := range []struct {
		n    uint64
		text string
	}{
		{i.Same, "were there before"},
		{i.Other, "left out: another value is there at their time"},
		{i.Repeated, "left out: given again later in the input"},
		{i.Outside, "not between --from and --to"},
		{i.TooOld, "refused: older than retention"},
		{i.TooNew, "refused: in the future"},
		{i.Bad, "lines, series or files refused"},
		{i.Exemplars, "exemplars not kept"},
	} {
		if part.n > 0 {
			fmt.Fprintf(&b, "; %d %s", part.n, part.text)
		}
	}
	return b.String()
}

// Import fills samples into a data directory that no process uses. It may be
// ended at any moment, and repeated: what is there already is not written again.
// The error is of what ended it; what was refused is in Imported alone.
func Import(ctx context.Context, o ImportOptions) (out Imported, err error) {
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Format == "" {
		o.Format = Auto
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Store.Logger == nil {
		o.Store.Logger = slog.New(slog.DiscardHandler)
	}
	if err := inOrder(o.From, o.To); err != nil {
		return out, err
	}
	inputs, err := findInputs(o)
	if err != nil {
		return out, err
	}
	s, err := store.OpenOffline(ctx, o.Store)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.CloseOffline()) }()
	m := importer{o: o, store: s, rangeOf: s.FillRanges(), gate: &gate{from: o.From, to: o.To, say: o.Say}, adder: newAdder(o.Labels)}
	m.gate.oldest, m.gate.newest = s.FillBounds()
	m.blocks = blockSet{list: inputs.blocks, gate: m.gate, adder: m.adder, logger: o.Store.Logger}
	for _, f := range inputs.faults {
		m.gate.refuse(place{name: f.dir}, f.err.Error())
	}
	for _, h := range inputs.heads {
		o.Say(h + ": not read: what Prometheus has in no block yet; a snapshot (its admin API) has all of it in blocks")
	}
	if m.spill, err = m.newSpill(); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, m.spill.close(), m.blocks.close()) }()
	err = m.run(ctx, inputs.texts)
	o.Progress.end()
	return m.summary(), err
}

// inputs is what is to be read.
type inputs struct {
	texts  []text
	blocks []*sourceBlock
	heads  []string // parts of Prometheus's head, not read
	faults []fault
}

// text is an input that is a text.
type text struct {
	name string
	size int64 // as it stands, 0 when it is not known
}

// findInputs looks at all inputs before anything is read. One that is not there is an error.
func findInputs(o ImportOptions) (in inputs, err error) {
	for _, name := range o.Inputs {
		if name == Stdin {
			in.texts = append(in.texts, text{name: name})
			continue
		}
		st, err := os.Stat(name)
		if err != nil {
			return in, err
		}
		if st.IsDir() != (o.Format == Blocks) && o.Format != Auto {
			return in, fmt.Errorf("%s: --format=%s does not go with a %s", name, o.Format, map[bool]string{true: "directory", false: "file"}[st.IsDir()])
		}
		if !st.IsDir() {
			in.texts = append(in.texts, text{name, st.Size()})
			continue
		}
		if err := in.findBlocks(name); err != nil {
			return in, err
		}
	}
	return in, nil
}

// importer is one import.
type importer struct {
	o       ImportOptions
	store   *store.Store
	rangeOf func(t int64) (lo, hi int64)
	gate    *gate
	adder   *adder
	blocks  blockSet
	spill   *spill
	out     Imported
}

// newSpill makes a spill in the data directory, once the empty files are gone that
// imports left there that were killed before they could unname them.
func (m *importer) newSpill() (*spill, error) {
	dir := m.o.Store.Path
	entries, err := os.ReadDir(dir) // not Glob, to which a directory's name may be a pattern
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if left, _ := filepath.Match(spillPattern, e.Name()); !left {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return newSpill(dir, m.o.Memory, m.rangeOf)
}

func (m *importer) run(ctx context.Context, texts []text) error {
	if err := m.collect(ctx, texts); err != nil {
		return err
	}
	begins := m.ranges()
	m.o.Progress.begin("writing", float64(len(begins)))
	for i, begin := range begins {
		if err := m.fill(ctx, begin); err != nil {
			return err
		}
		m.o.Progress.at(float64(i + 1))
	}
	return nil
}

// collect reads the texts into the spill.
func (m *importer) collect(ctx context.Context, texts []text) error {
	c := collector{gate: m.gate, adder: m.adder, spill: m.spill, known: map[string]uint32{}}
	var whole float64
	for _, t := range texts {
		if whole += float64(t.size); t.size == 0 {
			whole = 0
			break
		}
	}
	m.o.Progress.begin("reading", whole)
	var before int64
	for _, t := range texts {
		if err := m.collectOne(ctx, &c, t, before); err != nil {
			return err
		}
		before += t.size
	}
	m.out.Exemplars = c.exemplars
	return m.spill.flush()
}

func (m *importer) collectOne(ctx context.Context, c *collector, t text, before int64) error {
	r, close := m.o.Stdin, func() error { return nil }
	if t.name != Stdin {
		f, err := os.Open(t.name)
		if err != nil {
			return err
		}
		r, close = f, f.Close
	}
	piped := unblocked(ctx, r)
	defer piped.Close()
	samples := m.gate.read
	counted := &countingReader{r: piped, progress: m.o.Progress, n: before, count: func() int {
		n := m.gate.read - samples
		samples = m.gate.read
		return int(n)
	}}
	o, err := openText(counted, m.o.Format)
	switch {
	case err != nil:
		m.gate.refuse(place{name: t.name}, err.Error())
		err = nil
	case o.format == JSON:
		err = c.jsonLines(ctx, o.r, t.name)
	default:
		err = c.openMetrics(ctx, o.r, t.name)
	}
	return errors.Join(err, close())
}

// unblocked returns a reader of r whose reads end with ctx: a pipe that nobody
// writes to must not keep an import from ending. Close it.
func unblocked(ctx context.Context, r io.Reader) *io.PipeReader {
	out, in := io.Pipe()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	return out
}

// countingReader shows how much was read.
type countingReader struct {
	r        io.Reader
	n        int64
	progress *Progress
	count    func() int // of samples since the last call
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += int64(n)
	r.progress.add(r.count())
	r.progress.at(float64(r.n))
	return n, err
}

// maxBlockRanges bounds how many ranges a block may reach over, each of a block's
// duration at least: beyond it (15 years of 2 h) its meta.json makes no sense.
const maxBlockRanges = 1 << 16

// ranges returns the begins of the ranges that there is something for, ascending.
// Blocks that are out of bounds as a whole are counted here.
func (m *importer) ranges() []int64 {
	begins := m.spill.begins()
	m.blocks.list = slices.DeleteFunc(m.blocks.list, func(b *sourceBlock) bool {
		lo, hi := b.meta.MinTime, b.lastT()
		n := b.meta.Stats.NumSamples
		switch {
		case n == 0:
		case hi < m.gate.from || lo > m.gate.to:
			m.gate.outside += n
			return true
		case hi < m.gate.oldest:
			m.gate.tooOld += n
			m.gate.say(fmt.Sprintf("%s: all %d samples, the newest of %s, are older than --storage.retention.time keeps (%s)", b.dir, n, clock(hi), clock(m.gate.oldest)))
			return true
		}
		all := begins
		for t := lo; ; {
			begin, end := m.rangeOf(t)
			all = append(all, begin)
			if end >= hi {
				begins = all
				return false
			}
			if len(all)-len(begins) == maxBlockRanges {
				m.gate.refuse(place{name: b.dir}, fmt.Sprintf("reaches from %s to %s, over more than %d ranges", clock(lo), clock(hi), maxBlockRanges))
				return true
			}
			t = end + 1
		}
	})
	slices.Sort(begins)
	return slices.Compact(begins)
}

// fill writes one range.
func (m *importer) fill(ctx context.Context, begin int64) error {
	lo, hi := m.rangeOf(begin)
	cursors, release, err := m.blocks.cursors(ctx, lo, hi)
	if err != nil {
		return errors.Join(err, release())
	}
	cursors = append(cursors, m.spill.cursors(begin)...)
	before := m.gate.read
	filled, err := m.store.Fill(ctx, lo, hi, func(add func(labels.Labels, []ooo.Layer) error) error {
		return walk(cursors, func(ls labels.Labels, layers []ooo.Layer) error {
			err := add(ls, layers)
			m.o.Progress.add(int(m.gate.read - before))
			before = m.gate.read
			return err
		})
	})
	if err := errors.Join(err, release()); err != nil {
		return fmt.Errorf("fill from %s: %w", clock(lo), wayOut(err))
	}
	m.out.Samples += filled.Samples
	m.out.Same += filled.Same
	m.out.Other += filled.Other
	if filled.Block != "" {
		m.out.Blocks++
		m.o.Store.Logger.Info("filled", "block", filled.Block, "from", clock(lo), "samples", filled.Samples, "same", filled.Same)
	}
	return nil
}

// summary returns what became of everything so far.
func (m *importer) summary() Imported {
	out, g := m.out, m.gate
	out.Outside, out.TooOld, out.TooNew, out.Bad = g.outside, g.tooOld, g.tooNew, g.bad
	if n := out.Samples + out.Same + out.Other; n < g.read {
		out.Repeated = g.read - n
	}
	return out
}
