package main

import (
	"fmt"
	"io"
	"os"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// maxChunkFile bounds what is read of a file that begins like a chunk: far more
// than a chunk of chunkenc.MaxSamples takes.
const maxChunkFile = 64 << 20

// longestHead is more than any kind of file is told by.
const longestHead = 64

// dump prints one of rwsink's files. Its first bytes say which kind it is: a chunk
// begins with its encoding, other files with theirs; a segment of the log
// is known by its name, too, so that one with a damaged beginning is printed.
func dump(w io.Writer, name string) error {
	if err := dumpFile(w, name); err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	return nil
}

// dumpFile is dump; its errors name the file.
func dumpFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return fmt.Errorf("%s is a directory, want a file: rwsink check looks through a data directory", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, longestHead))
	if err != nil {
		return err
	}
	if store.CanDump(data) {
		return store.Dump(w, name)
	}
	if block.CanDump(data) {
		return block.Dump(w, name)
	}
	if wal.CanDump(name, data) {
		return wal.Dump(w, name)
	}
	if len(data) == 0 || chunkenc.Encoding(data[0]) < chunkenc.EncTime || chunkenc.Encoding(data[0]) > chunkenc.EncFloatHistogram {
		return fmt.Errorf("%s: neither a segment of the log, nor a file of a block, nor a chunk", name)
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxChunkFile))
	if err != nil {
		return err
	}
	if err := chunkenc.Dump(w, append(data, rest...)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
