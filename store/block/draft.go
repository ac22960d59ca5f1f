package block

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/rwsink/rwsink/internal/vfs"
)

// draft is the directory of a block until it is finished, and what meta.json will say.
type draft struct {
	fs          vfs.FS
	parent, tmp string
	id          ulid.ULID
	stats       tsdb.BlockStats
	minT, maxT  int64
}

// begin makes the directory.
func (d *draft) begin(fs vfs.FS, parent string) error {
	id, err := ulid.New(ulid.Timestamp(time.Now()), rand.Reader)
	if err != nil {
		return err
	}
	*d = draft{fs: fs, parent: parent, tmp: filepath.Join(parent, id.String()+TmpSuffix), id: id, minT: math.MaxInt64, maxT: math.MinInt64}
	if err := fs.MkdirAll(d.tmp); err != nil {
		return fmt.Errorf("begin a block: %w", err)
	}
	return nil
}

// count counts a series of so many chunks.
func (d *draft) count(chunks int, minT, maxT int64) {
	d.minT, d.maxT = min(d.minT, minT), max(d.maxT, maxT)
	d.stats.NumChunks += uint64(chunks)
	d.stats.NumSeries++
}

// Samples returns how many samples were added.
func (d *draft) Samples() uint64 { return d.stats.NumSamples }

// writeMeta writes meta.json and returns the checksum of its bytes.
func (d *draft) writeMeta(ci CommitInfo) (crc uint32, err error) {
	end := d.maxT
	if end < math.MaxInt64 {
		end++ // Prometheus's end is not included
	}
	meta := tsdb.BlockMeta{
		ULID: d.id, MinTime: d.minT, MaxTime: end, Version: 1, Stats: d.stats,
		Compaction: tsdb.BlockMetaCompaction{Level: ci.Level, Sources: append([]ulid.ULID{d.id}, ci.Sources...)},
	}
	if len(ci.Sources) > 0 {
		meta.Compaction.Sources = ci.Sources
	}
	if ci.Rescued {
		meta.Compaction.Hints = []string{rescuedHint}
	}
	data, err := json.MarshalIndent(meta, "", "\t")
	if err != nil {
		return 0, err
	}
	data = append(data, '\n')
	return crc32.Checksum(data, castagnoli), writeFile(filepath.Join(d.tmp, metaName), data)
}

// Dir returns the directory that the block has once it is committed.
func (d *draft) Dir() string { return filepath.Join(d.parent, d.id.String()) }

// commit has the files of the block written, durably, and publishes it. It is
// aborted after an error, and where it has no samples: then dir is "". After an error
// dir is not "" where it could not be aborted: the block may be there, or a part of it.
func (d *draft) commit(write, abort func() error) (dir string, err error) {
	if d.stats.NumSamples > 0 {
		if err = write(); err == nil {
			err = d.publish()
		}
		if err == nil {
			return d.Dir(), nil
		}
		err = fmt.Errorf("write block %s: %w", d.id, err)
	}
	if failed := abort(); failed != nil {
		return d.Dir(), errors.Join(err, failed)
	}
	return "", err
}

// remove removes the directory under either name.
func (d *draft) remove() error {
	if _, err := os.Lstat(d.Dir()); err == nil {
		if err := d.fs.Rename(d.Dir(), d.tmp); err != nil {
			return err
		}
	}
	return RemoveDir(d.fs, d.tmp)
}

// publish makes the finished directory durable under its name, which it may have after an error.
func (d *draft) publish() error {
	for _, name := range []string{filepath.Join(d.tmp, chunksName), d.tmp} {
		if err := d.fs.SyncDir(name); err != nil {
			return err
		}
	}
	if err := d.fs.Rename(d.tmp, d.Dir()); err != nil {
		return err
	}
	return d.fs.SyncDir(d.parent)
}

// writeFile writes a file, durably.
func writeFile(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// RemoveUnfinished removes what List has found unfinished.
func RemoveUnfinished(fs vfs.FS, path string) error {
	if st, err := os.Lstat(path); err == nil && !st.IsDir() {
		return fs.Remove(path)
	}
	return RemoveDir(fs, path)
}

// RemoveDir removes a directory and what is in it; one that is gone is no error.
func RemoveDir(fs vfs.FS, dir string) error {
	names, err := fs.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if st, err := os.Lstat(path); err == nil && st.IsDir() {
			if err := RemoveDir(fs, path); err != nil {
				return err
			}
			continue
		}
		if err := fs.Remove(path); err != nil {
			return err
		}
	}
	return fs.Remove(dir)
}
