package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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
	err := dumpFile(w, name)
	var ofSystem *os.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ofSystem) && ofSystem.Path == name:
		err = ofSystem.Err
	case strings.HasPrefix(err.Error(), name+":"), strings.HasPrefix(err.Error(), name+" "): // it says itself where
		return fmt.Errorf("dump %w", err)
	}
	return fmt.Errorf("dump %s: %w", name, err)
}

func dumpFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return errors.New("is a directory, want a file: rwsink check looks through a data directory")
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
		return errors.New("neither a segment of the log, nor a file of a block, nor a chunk")
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxChunkFile))
	if err != nil {
		return err
	}
	return chunkenc.Dump(w, append(data, rest...))
}
