package block

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/fileutil"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/jsonfile"
)

// How a block is checked:
//
//  1. rwsink.json and meta.json, and that the files are those it lists, of their sizes.
//     A file that is not is named once and not looked into.
//  2. The index: its pages, if it has some; header, table of contents, symbols, the table of postings, every
//     series (checksum, order, its chunks ascending and disjoint), every list of
//     postings against the series, and that nothing else is in the file.
//  3. Every chunk that the index refers to: checksum, header, its time column,
//     every sample, bounds and count.
//  4. What is between them in the segments: nothing, or, where the index could not
//     be read to its end, entries with the right checksum.
//  5. With everything read: the statistics of meta.json and the encodings of rwsink.json.

// Checked is what Check went through.
type Checked struct {
	Series, Chunks, Columns int // Columns are shared time columns
	Samples                 uint64
	Bytes                   int64 // of the files
	Info                    Info
	MinT, MaxT              int64 // of meta.json, both included
}

// Check verifies a block and changes nothing; nobody may write to it meanwhile.
// It calls fault for each fault: a *vfs.CorruptError, a *jsonfile.NewerError, with which it
// ends, or what the operating system refused, with the path. The error is ctx's.
func Check(ctx context.Context, dir string, fault func(error)) (Checked, error) {
	c := &checker{
		dir: dir, fault: fault, columns: map[uint64]*chunkenc.TimeColumn{}, encodings: map[string]bool{},
		minT: math.MaxInt64, maxT: math.MinInt64,
	}
	defer c.close()
	err := c.check(ctx)
	return c.Checked, err
}

func (c *checker) check(ctx context.Context) error {
	defer caught(debug.SetPanicOnFault(true), func(fault error) { c.fault(damaged(c.dir, 0, fault)) })
	if !c.checkInfo() {
		return nil
	}
	c.checkMeta()
	c.checkTombstones()
	c.openSegments()
	if err := c.checkIndex(ctx); err != nil {
		return err
	}
	c.checkGaps()
	c.checkTotals()
	return nil
}

var errMissing = errors.New("the file is missing")

type checker struct {
	Checked
	dir        string
	fault      func(error)
	meta       *tsdb.BlockMeta // nil when it cannot be read
	skip       map[string]bool // files that were named already
	segments   []*checkedSegment
	columns    map[uint64]*chunkenc.TimeColumn // by reference; nil where it is damaged
	encodings  map[string]bool
	minT, maxT int64
	partial    bool // something could not be read: totals say nothing
	dec        chunkenc.Decoder
	samples    chunkenc.Samples
	mapped     []*fileutil.MmapFile
	stones     stones
}

func (c *checker) path(name string) string { return filepath.Join(c.dir, name) }

func (c *checker) damage(path string, offset int64, format string, args ...any) {
	c.fault(damaged(path, offset, fmt.Errorf(format, args...)))
}

func (c *checker) close() {
	for _, f := range c.mapped {
		_ = f.Close()
	}
}

// open maps a file; nil when it was named already, or is named now. An empty
// file cannot be mapped.
func (c *checker) open(name string) []byte {
	if c.skip[name] {
		c.partial = true
		return nil
	}
	f, err := fileutil.OpenMmapFile(c.path(name))
	if err != nil {
		c.damage(c.path(name), 0, "%w", err)
		c.partial = true
		return nil
	}
	c.mapped = append(c.mapped, f)
	return f.Bytes()
}

// checkInfo checks rwsink.json and the files there are; false when the rest
// cannot be understood.
func (c *checker) checkInfo() bool {
	path := c.path(infoName)
	var err error
	if c.Info, err = decodeInfo(path); errors.Is(err, fs.ErrNotExist) {
		err = damaged(path, 0, errMissing)
	}
	var newer *jsonfile.NewerError
	switch {
	case errors.As(err, &newer):
		c.fault(err)
		return false
	case err != nil:
		c.fault(err)
		c.partial, c.Info = true, Info{} // nothing it says is sure
	default:
		c.checkGeneration(path)
	}
	c.checkFiles(path)
	return true
}

func (c *checker) checkGeneration(path string) {
	g := c.Info.Generation
	if g.Class > 1 {
		c.damage(path, 0, "generation: unknown class %d", g.Class)
	}
	for i, r := range c.Info.Logs {
		if r.MinT > r.MaxT || r.From > r.To || g.Class == 1 && r.To > g.LSN {
			c.damage(path, 0, "log range %d: times %d to %d, frames %d to %d, in a block of generation %d", i, r.MinT, r.MaxT, r.From, r.To, g.LSN)
		}
	}
}

// checkFiles compares the files that rwsink.json lists with those there are.
func (c *checker) checkFiles(path string) {
	c.skip = map[string]bool{}
	want := map[string]int64{}
	for _, f := range c.Info.Files {
		want[f.Name] = f.Size
	}
	err := filepath.WalkDir(c.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(c.dir, p)
		if err != nil {
			return err
		}
		c.Bytes += st.Size()
		size, listed := want[name]
		delete(want, name)
		switch {
		case name == infoName || name == tombstonesName || name == tombstonesName+TmpSuffix || len(c.Info.Files) == 0:
		case !listed:
			c.damage(p, 0, "%s does not list this file", infoName)
			c.skip[name] = true
		case st.Size() != size:
			c.damage(p, min(size, st.Size()), "%d bytes, want %d", st.Size(), size)
			c.skip[name] = true
		}
		return nil
	})
	if err != nil {
		c.damage(c.dir, 0, "%w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		c.damage(c.path(name), 0, "%w", errMissing)
		c.skip[name] = true
	}
	if len(c.Info.Files) == 0 && !c.partial {
		c.damage(path, 0, "no files are listed")
	}
}

func (c *checker) checkMeta() {
	if c.skip[metaName] {
		return
	}
	meta, err := readMeta(c.dir, c.metaChecksum())
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // rwsink.json, which would have named it, is damaged
			err = damaged(c.path(metaName), 0, errMissing)
		}
		c.fault(err)
		return
	}
	c.meta = &meta
	c.Checked.MinT, c.Checked.MaxT = (&Block{meta: meta}).Range()
	if meta.Compaction.Level < 1 || len(meta.Compaction.Sources) == 0 {
		c.damage(c.path(metaName), 0, "compaction level %d with %d sources", meta.Compaction.Level, len(meta.Compaction.Sources))
	}
}

// metaChecksum returns what the checksum of meta.json should be: what it is,
// where rwsink.json does not tell.
func (c *checker) metaChecksum() uint32 {
	if c.Info.Magic != "" {
		return c.Info.MetaCRC
	}
	data, _ := os.ReadFile(c.path(metaName)) // who reads it next sees the error
	return crc32.Checksum(data, castagnoli)
}

func (c *checker) checkTombstones() {
	var err error
	if c.stones, err = readTombstones(c.dir); err != nil {
		c.fault(err)
	}
}

// checkTotals compares what was found with what the block says of itself.
func (c *checker) checkTotals() {
	if c.partial {
		return
	}
	if found := slices.Sorted(maps.Keys(c.encodings)); !slices.Equal(found, c.Info.Encodings) {
		c.damage(c.path(infoName), 0, "encodings %q, but the chunks have %q", c.Info.Encodings, found)
	}
	if c.meta == nil {
		return
	}
	path, s := c.path(metaName), c.meta.Stats
	for _, n := range []struct {
		what      string
		got, want uint64
	}{
		{"series", s.NumSeries, uint64(c.Series)},
		{"chunks", s.NumChunks, uint64(c.Chunks)},
		{"samples", s.NumSamples, c.Samples},
	} {
		if n.got != n.want {
			c.damage(path, 0, "%d %s by its statistics, but there are %d", n.got, n.what, n.want)
		}
	}
	if c.Samples > 0 && (c.Checked.MinT != c.minT || c.Checked.MaxT != c.maxT) {
		c.damage(path, 0, "times %d to %d, but the samples reach from %d to %d", c.Checked.MinT, c.Checked.MaxT, c.minT, c.maxT)
	}
}

// checkedSeries is a series of the index.
type checkedSeries struct {
	ref    uint64
	labels labels.Labels
}

// byteSlice is a file's bytes as Prometheus's index package takes them.
type byteSlice []byte

func (b byteSlice) Len() int                    { return len(b) }
func (b byteSlice) Range(start, end int) []byte { return b[start:end] }
