package main

import (
	"context"
	"fmt"
	"io"

	"github.com/rwsink/rwsink/store"
)

// check verifies a data directory that no process uses, prints what it finds line
// by line and then the summary; faults are an error.
func check(w io.Writer, dir string) error {
	c, err := store.Check(context.Background(), dir, store.CheckOptions{
		Fault: func(err error) { fmt.Fprintln(w, "fault:", err) },
		Note:  func(s string) { fmt.Fprintln(w, "note:", s) },
	})
	if err != nil {
		return fmt.Errorf("check %s: %w", dir, err)
	}
	if _, err := fmt.Fprintln(w, c); err != nil {
		return err
	}
	if c.Faults > 0 {
		return fmt.Errorf("check %s: %d faults", dir, c.Faults)
	}
	return nil
}
