package block

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/prometheus/prometheus/tsdb"

	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
)

// The names in a block's directory.
const (
	infoName       = "rwsink.json"
	metaName       = "meta.json"
	indexName      = "index"
	chunksName     = "chunks"
	tombstonesName = "tombstones"
)

// TmpSuffix ends the name of a block that is being written.
const TmpSuffix = vfs.TmpSuffix

// infoKind is what rwsink.json is. The index of a block of version 2 is packed; that
// of version 1 is Prometheus's as it stands.
var infoKind = jsonfile.Kind{Magic: "rwsink-block", Oldest: 1, Newest: 2, Indent: "\t"}

// rescuedHint stands in meta.json among the hints of compaction where the block is what
// was sound in a damaged one.
const rescuedHint = "rescued"

// ClassFilled is the class of what import and healing filled in.
const ClassFilled = 0

// Generation ranks sources of one timestamp: the higher class, then the higher
// LSN, came later.
type Generation struct {
	Class uint8  `json:"class"` // 0 filled, 1 written
	LSN   uint64 `json:"lsn"`
}

// Less says whether g came before o.
func (g Generation) Less(o Generation) bool {
	if g.Class != o.Class {
		return g.Class < o.Class
	}
	return g.LSN < o.LSN
}

// LogRange says that the block holds whatever the frames after From, up to and
// including To, held of [MinT, MaxT] (Unix milliseconds, both included).
type LogRange struct {
	MinT int64  `json:"minTime"`
	MaxT int64  `json:"maxTime"`
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Info is rwsink.json.
type Info struct {
	jsonfile.Head
	Generation Generation `json:"generation"`
	Deletes    uint64     `json:"deletes,omitempty"` // no delete up to this frame means the block, where that is above the generation's LSN
	Logs       []LogRange `json:"logs"`
	Encodings  []string   `json:"encodings"`
	Files      []FileInfo `json:"files"`
	Parents    []string   `json:"parents,omitempty"` // the blocks that it was merged of, and takes the place of
	MetaCRC    uint32     `json:"metaCrc32c"`        // of meta.json as it stands
	jsonfile.Sum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FileInfo is a file of the block, its name relative to the block's directory.
type FileInfo struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// damaged says what of a block's file is not as it should be; offset is 0 where
// there is no place. An err that is a *vfs.CorruptError says so already. What the operating system refuses for want of files,
// memory or rights says nothing of the block and is returned as it is.
func damaged(path string, offset int64, err error) error {
	var no syscall.Errno
	if errors.As(err, &no) && !slices.Contains(damageErrnos, no) {
		return fmt.Errorf("%s: %w", path, err)
	}
	if known, ok := err.(*vfs.CorruptError); ok {
		return known
	}
	return &vfs.CorruptError{Path: path, Offset: offset, Err: err}
}

// damageErrnos are the errors of the operating system that mean damage: a file
// is missing, is something else, or its medium does not give it back.
var damageErrnos = []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.EIO}

// decodeInfo reads rwsink.json; an error, *jsonfile.NewerError among them, says
// why nothing in it is to be trusted.
func decodeInfo(path string) (Info, error) {
	var info Info
	err := jsonfile.Read(path, infoKind, &info)
	if err != nil && !errors.As(err, new(*jsonfile.NewerError)) {
		err = damaged(path, 0, err)
	}
	return info, err
}

// readInfo reads rwsink.json and checks it against the files that are there.
func readInfo(dir string) (Info, error) {
	info, err := decodeInfo(filepath.Join(dir, infoName))
	if err != nil {
		return info, err
	}
	for _, f := range info.Files {
		name := filepath.Join(dir, f.Name)
		st, err := os.Stat(name)
		if err != nil {
			return info, damaged(name, 0, err)
		}
		if st.Size() != f.Size {
			return info, damaged(name, 0, fmt.Errorf("%d bytes, want %d", st.Size(), f.Size))
		}
	}
	return info, nil
}

// readMeta reads meta.json, whose checksum is crc.
func readMeta(dir string, crc uint32) (tsdb.BlockMeta, error) {
	var meta tsdb.BlockMeta
	path := filepath.Join(dir, metaName)
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	if err != nil {
		return meta, damaged(path, 0, err)
	}
	if sum := crc32.Checksum(data, castagnoli); sum != crc {
		return meta, damaged(path, 0, fmt.Errorf("checksum %08x, want %08x", sum, crc))
	}
	if meta.Version != 1 || meta.MinTime > meta.MaxTime || meta.ULID.String() != filepath.Base(dir) {
		return meta, damaged(path, 0, fmt.Errorf("version %d, range [%d, %d), ULID %s: not the meta of this block",
			meta.Version, meta.MinTime, meta.MaxTime, meta.ULID))
	}
	return meta, nil
}
