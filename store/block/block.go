package block

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/fileutil"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/vfs"
)

// Block is an open block. Immutable but for its references, the first fault found,
// and what is deleted of it.
type Block struct {
	dir    string
	info   Info
	meta   tsdb.BlockMeta
	index  *index.Reader
	mapped io.Closer // what index reads
	chunks *chunks.Reader
	size   int64
	refs   atomic.Int64 // 1 for the store, 1 for each reader
	fault  atomic.Pointer[vfs.CorruptError]
	stones atomic.Pointer[stones]

	noticed func() // called once there is a fault
	unsaved bool   // not all of stones is on disk; of whoever erases
	lost    error  // why what is deleted is not known
}

// Open opens the block in dir; what it unpacks of the index it keeps in pages. The
// error is a *vfs.CorruptError where the block is damaged, a *jsonfile.NewerError where it
// is of a newer version. Damaged tombstones alone are no error: see LostTombstones.
func Open(dir string, pages *Pages) (_ *Block, err error) {
	defer caught(debug.SetPanicOnFault(true), func(fault error) { err = damaged(dir, 0, fault) })
	info, err := readInfo(dir)
	if err != nil {
		return nil, err
	}
	meta, err := readMeta(dir, info.MetaCRC)
	if err != nil {
		return nil, err
	}
	b := &Block{dir: dir, info: info, meta: meta}
	if err := b.openTombstones(); err != nil {
		return nil, err
	}
	if b.index, b.mapped, err = openIndex(filepath.Join(dir, indexName), pages); err != nil {
		return nil, err
	}
	chunksPath := filepath.Join(dir, chunksName)
	if b.chunks, err = chunks.NewDirReader(chunksPath, entryPool{}); err != nil {
		return nil, errors.Join(damaged(chunksPath, 0, err), b.mapped.Close())
	}
	for _, f := range info.Files {
		b.size += f.Size
	}
	b.refs.Store(1)
	return b, nil
}

// openIndex maps an index, packed or, of a block of version 1, plain.
func openIndex(path string, pages *Pages) (_ *index.Reader, mapped io.Closer, err error) {
	f, err := fileutil.OpenMmapFile(path)
	if err != nil {
		return nil, nil, damaged(path, 0, err)
	}
	ok := false
	defer func() {
		if !ok { // also when a page or the mapping is damaged, which is a panic
			_ = f.Close()
		}
	}()
	var b index.ByteSlice = byteSlice(f.Bytes())
	if isPacked(f.Bytes()) {
		if b, err = openPacked(path, f.Bytes(), pages); err != nil {
			return nil, nil, err
		}
	}
	r, err := index.NewReader(b, index.DecodePostingsRaw)
	if err != nil {
		return nil, nil, damaged(path, 0, err)
	}
	ok = true
	return r, f, nil
}

// Dir returns the block's directory.
func (b *Block) Dir() string { return b.dir }

// Name returns the block's ULID.
func (b *Block) Name() string { return filepath.Base(b.dir) }

// Info returns rwsink.json.
func (b *Block) Info() Info { return b.info }

// Rank is the LSN by which the block stands among layers of one time; what was
// filled in ranks below all that was written.
func (b *Block) Rank() uint64 {
	if b.info.Generation.Class == ClassFilled {
		return 0
	}
	return b.info.Generation.LSN
}

// After returns the newest frame of a delete that the block's samples may have
// come after, which then means none of them: what is filled in may come after a
// delete, and be merged with what was written before it.
func (b *Block) After() uint64 { return max(b.info.Generation.LSN, b.info.Deletes) }

// Meta returns meta.json.
func (b *Block) Meta() tsdb.BlockMeta { return b.meta }

// Rescued returns the name of the damaged block of which this is what was sound, "" when
// it is of none.
func (b *Block) Rescued() string {
	if len(b.info.Parents) == 0 || !slices.Contains(b.meta.Compaction.Hints, rescuedHint) {
		return ""
	}
	return b.info.Parents[0]
}

// Range returns the first and last timestamp, Unix milliseconds.
func (b *Block) Range() (minT, maxT int64) {
	if b.meta.MaxTime == math.MaxInt64 {
		return b.meta.MinTime, b.meta.MaxTime
	}
	return b.meta.MinTime, b.meta.MaxTime - 1
}

// Size returns the bytes of the files.
func (b *Block) Size() int64 { return b.size }

// Fault returns what a reader found damaged, or nil.
func (b *Block) Fault() *vfs.CorruptError { return b.fault.Load() }

// OnFault sets what is called, by whoever reads, when damage is noticed first.
// To be set before anybody reads.
func (b *Block) OnFault(f func()) { b.noticed = f }

// Acquire takes a reference; false when the block is closed already.
func (b *Block) Acquire() bool {
	for {
		n := b.refs.Load()
		if n == 0 {
			return false
		}
		if b.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back; the last one closes the files.
func (b *Block) Release() {
	if b.refs.Add(-1) == 0 {
		_ = b.mapped.Close()
		_ = b.chunks.Close()
	}
}

// Series is a series of a block.
type Series struct {
	Labels labels.Labels
	Ref    storage.SeriesRef
}

// Select returns the series that match all matchers and are not wholly deleted,
// in no order. A matcher on a label that a series does not have sees an empty value.
func (b *Block) Select(ctx context.Context, ms ...*labels.Matcher) (out []Series, err error) {
	defer caught(debug.SetPanicOnFault(true), func(fault error) { out, err = nil, b.Corrupt(indexName, fault) })
	p, err := tsdb.PostingsForMatchers(ctx, b.index, ms...)
	if err != nil {
		return nil, b.Corrupt(indexName, err)
	}
	var builder labels.ScratchBuilder
	var metas []chunks.Meta
	deleted := *b.stones.Load()
	for p.Next() {
		if len(out)%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		erased, of := deleted[p.At()], (*[]chunks.Meta)(nil)
		if len(erased) > 0 {
			of = &metas
		}
		if err := b.index.Series(p.At(), &builder, of); err != nil {
			return nil, b.Corrupt(indexName, err)
		}
		if of != nil && whole(metas, erased) {
			continue
		}
		out = append(out, Series{builder.Labels(), p.At()})
	}
	if err := p.Err(); err != nil {
		return nil, b.Corrupt(indexName, err)
	}
	return out, nil
}

// caught turns a pageFault, and a fault of mapped memory in the function that defers it, into an
// error: the file has become shorter, or its medium does not give it back. was
// is what debug.SetPanicOnFault returned. Any other panic goes on.
func caught(was bool, report func(error)) {
	debug.SetPanicOnFault(was)
	r := recover()
	if r == nil {
		return
	}
	switch fault := r.(type) {
	case pageFault:
		report(fault.err)
	case interface{ Addr() uintptr }:
		report(fmt.Errorf("the mapped file cannot be read at address %#x: it has become shorter, or its medium fails", fault.Addr()))
	default:
		panic(r)
	}
}

// Corrupt keeps and returns what is wrong with a file of the block (its name in
// the directory), unless err tells of something else: a cancelled read.
func (b *Block) Corrupt(name string, err error) error {
	return b.keep(damaged(filepath.Join(b.dir, name), 0, err))
}

func (b *Block) keep(err error) error {
	var fault *vfs.CorruptError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return errors.Unwrap(err)
	case errors.As(err, &fault):
		if b.fault.CompareAndSwap(nil, fault) && b.noticed != nil {
			b.noticed()
		}
	}
	return err
}

// ChunksAlone says that what was found damaged is among the chunks: the index is not
// known to be, nor what is deleted.
func (b *Block) ChunksAlone() bool {
	fault := b.fault.Load()
	if fault == nil || b.lost != nil {
		return false
	}
	rel, err := filepath.Rel(filepath.Join(b.dir, chunksName), fault.Path)
	return err == nil && !strings.HasPrefix(rel, "..")
}

// Reader reads the samples of a block's series. It holds scratch memory and
// serves one goroutine, which must hold a reference to the block.
type Reader struct {
	block   *Block
	lost    func(minT, maxT int64, why error) // told of damaged chunks, which are left out; nil: they are errors
	copies  bool                              // the data of chunks is copied
	copied  []byte                            // the copies; a Cursor lets go of them
	list    []chunkenc.Chunk
	builder labels.ScratchBuilder
	metas   []chunks.Meta
	dec     chunkenc.Decoder
	enc     chunkenc.Encoder // of what deletes leave of a chunk
	samples chunkenc.Samples
	columns map[uint64]*chunkenc.TimeColumn
}

// maxColumns bounds the time columns that a reader keeps at hand.
const maxColumns = 64

// NewReader returns a reader of the block. It leaves out damaged chunks where they are
// known to be all that is damaged: whoever met the first one has failed.
func (b *Block) NewReader() *Reader {
	r := &Reader{block: b}
	if b.ChunksAlone() {
		r.lost = func(int64, int64, error) {}
	}
	return r
}

// Chunks returns the chunks of a series that overlap [lo, hi], without what is
// deleted of them; they are valid until the next call, their data as long as the block is held.
func (r *Reader) Chunks(ref storage.SeriesRef, lo, hi int64) (out []chunkenc.Chunk, err error) {
	name := indexName
	defer caught(debug.SetPanicOnFault(true), func(fault error) { out, err = nil, r.block.Corrupt(name, fault) })
	if err := r.readSeries(ref); err != nil {
		return nil, err
	}
	name = chunksName
	return r.open(ref, lo, hi)
}

// readSeries reads what the index has of a series, into r.builder and r.metas.
func (r *Reader) readSeries(ref storage.SeriesRef) error {
	r.metas = r.metas[:0]
	if err := r.block.index.Series(ref, &r.builder, &r.metas); err != nil {
		return r.block.Corrupt(indexName, err)
	}
	return nil
}

// open opens those chunks of r.metas, of the series ref, that overlap [lo, hi].
func (r *Reader) open(ref storage.SeriesRef, lo, hi int64) (out []chunkenc.Chunk, err error) {
	out = r.list[:0]
	defer func() { r.list = out[:0] }()
	deleted := (*r.block.stones.Load())[ref]
	for _, m := range r.metas {
		if !m.OverlapsClosedInterval(lo, hi) {
			continue
		}
		erased := overlapping(deleted, m)
		if (tombstones.Interval{Mint: m.MinTime, Maxt: m.MaxTime}).IsSubrange(erased) {
			continue
		}
		if r.lost == nil {
			out, err = r.openOne(out, m, erased)
		} else {
			out, err = r.openSound(out, m, erased)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// openOne appends a chunk to dst, without what is erased of it.
func (r *Reader) openOne(dst []chunkenc.Chunk, m chunks.Meta, erased tombstones.Intervals) ([]chunkenc.Chunk, error) {
	c, err := r.chunk(m)
	switch {
	case err != nil:
		return dst, err
	case len(erased) == 0:
		return append(dst, c), nil
	}
	return r.without(dst, &c, erased)
}

// chunk opens one chunk and the time column that it names.
func (r *Reader) chunk(m chunks.Meta) (chunkenc.Chunk, error) {
	data, err := r.entry(m.Ref)
	if err != nil {
		return chunkenc.Chunk{}, err
	}
	if r.copies {
		from := len(r.copied)
		r.copied = append(r.copied, data...)
		data = r.copied[from:len(r.copied):len(r.copied)]
	}
	c, err := chunkenc.Open(data)
	if err != nil {
		return c, r.fault(m.Ref, err)
	}
	c.MinT, c.MaxT = m.MinTime, m.MaxTime
	if ref, ok := chunkenc.TimeRef(data); ok {
		if c.Times, err = r.column(ref); err != nil {
			return c, err
		}
	}
	return c, nil
}

// column returns the shared time column at ref.
func (r *Reader) column(ref uint64) (*chunkenc.TimeColumn, error) {
	if col := r.columns[ref]; col != nil {
		return col, nil
	}
	data, err := r.entry(chunks.ChunkRef(ref))
	if err != nil {
		return nil, err
	}
	if r.columns == nil || len(r.columns) >= maxColumns {
		r.columns = map[uint64]*chunkenc.TimeColumn{}
	}
	if r.copies {
		data = slices.Clone(data) // other series have it, too
	}
	col := &chunkenc.TimeColumn{Data: data}
	r.columns[ref] = col
	return col, nil
}

// entry returns the bytes of a segment's entry, its checksum verified.
func (r *Reader) entry(ref chunks.ChunkRef) ([]byte, error) {
	c, _, err := r.block.chunks.ChunkOrIterable(chunks.Meta{Ref: ref})
	if err != nil {
		return nil, r.fault(ref, err)
	}
	return c.Bytes(), nil
}

// fault names the place of a chunk that is not as it should be.
func (r *Reader) fault(ref chunks.ChunkRef, err error) error {
	segment, offset := chunks.BlockChunkRef(ref).Unpack()
	name := filepath.Join(r.block.dir, chunksName, fmt.Sprintf("%06d", segment+1))
	return r.block.keep(damaged(name, int64(offset), err))
}

// Read calls emit with the samples of a series in [lo, hi] in order of time.
// A run is borrowed until emit returns; histogram objects are the caller's.
func (r *Reader) Read(ref storage.SeriesRef, lo, hi int64, emit func(*chunkenc.Samples) error) error {
	list, err := r.Chunks(ref, lo, hi)
	if err != nil {
		return err
	}
	for i := range list {
		if err := r.decode(&list[i], lo, hi); err != nil {
			return err
		}
		if r.samples.Len() == 0 {
			continue
		}
		if err := emit(&r.samples); err != nil {
			return err
		}
	}
	return nil
}

// decode decodes a chunk into r.samples.
func (r *Reader) decode(c *chunkenc.Chunk, lo, hi int64) (err error) {
	defer caught(debug.SetPanicOnFault(true), func(fault error) { err = r.block.Corrupt(chunksName, fault) })
	r.samples.Reset(c.Kind())
	if err := r.dec.DecodeRange(&r.samples, c, lo, hi); err != nil {
		return r.block.Corrupt(chunksName, err)
	}
	return nil
}

// entryPool hands out entries as they stand in the segments.
type entryPool struct{}

// Get is part of Prometheus's chunk pool.
func (entryPool) Get(e promenc.Encoding, b []byte) (promenc.Chunk, error) {
	return entry{enc: chunkenc.Encoding(e), data: b}, nil
}

// Put is part of Prometheus's chunk pool.
func (entryPool) Put(promenc.Chunk) error { return nil }

// List returns the directories in parent that are blocks by name, sorted, and
// what a process left unfinished: directories, and in a block the file that was to
// take the place of tombstones.
func List(parent string) (blocks, unfinished []string, err error) {
	names, err := os.ReadDir(parent)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range names {
		dir := filepath.Join(parent, d.Name())
		switch {
		case !d.IsDir():
		case strings.HasSuffix(d.Name(), TmpSuffix):
			unfinished = append(unfinished, dir)
		case len(d.Name()) == ulidLen:
			blocks = append(blocks, dir)
			tmp := filepath.Join(dir, tombstonesName+TmpSuffix)
			if _, err := os.Lstat(tmp); err == nil {
				unfinished = append(unfinished, tmp)
			}
		}
	}
	return blocks, unfinished, nil
}

// ulidLen is the length of a ULID as text.
const ulidLen = 26
