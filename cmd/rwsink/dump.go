package main

import (
	"fmt"
	"io"

	"github.com/rwsink/rwsink/wal"
)

// dump prints one of rwsink's files. Its first bytes say which kind it is; today
// there is one, the segment of the log.
func dump(w io.Writer, file string) error {
	if err := wal.Dump(w, file); err != nil {
		return fmt.Errorf("dump %s: %w", file, err)
	}
	return nil
}
