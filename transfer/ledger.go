package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/rwsink/rwsink/internal/instant"
	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/internal/vfs"
)

// A ledger stands beside the output of an export and says which ranges are
// finished: lines of JSON, the first about the export as a whole, then one when a
// range begins and one when its output is durable. So an export that was broken
// off goes on where it was, and a repeated one writes again only what has changed
// in the directory since.

// ledgerName is the ledger's name inside a directory of blocks; beside a file it
// stands behind the file's name and a dot.
const ledgerName = "rwsink-export.json"

// The first line, by itself, has the form of a small file.
var ledgerKind = jsonfile.Kind{Magic: "rwsink-export", Oldest: 1, Newest: 3, Unsummed: 1}

// unsummedEntries is the newest version whose entries have no checksum, but for those
// that were added since.
const unsummedEntries = 2

// ledgerHead is the first line: what was asked for.
type ledgerHead struct {
	jsonfile.Head
	Source   string   `json:"source"` // store.Identity
	Format   Format   `json:"format"`
	From     int64    `json:"from"`
	To       int64    `json:"to"`
	Matchers []string `json:"matchers"`
	RangeMs  int64    `json:"rangeMs"`
	jsonfile.Sum
}

// String names what was asked for, in the words of the flags.
func (h ledgerHead) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "--format=%s --block-duration=%v", h.Format, time.Duration(h.RangeMs)*time.Millisecond)
	from, to := instant.Time(h.From), instant.Time(h.To)
	if from != math.MinInt64 {
		fmt.Fprintf(&b, " --from=%s", &from)
	}
	if to != math.MaxInt64 {
		fmt.Fprintf(&b, " --to=%s", &to)
	}
	for _, m := range h.Matchers { // as a list of Go is printed
		m = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(m, "["), "]"), `" `, `",`)
		fmt.Fprintf(&b, " --match='{%s}'", m)
	}
	return b.String()
}

// ledgerEntry is what is known of a range.
type ledgerEntry struct {
	Begin   int64  `json:"begin"`
	Done    bool   `json:"done"`
	Stamp   string `json:"stamp,omitempty"` // store.Stamp before it was read
	Block   string `json:"block,omitempty"` // its name; none when there was nothing
	Samples uint64 `json:"samples,omitempty"`
	Start   int64  `json:"start,omitempty"` // in the file, in bytes
	End     int64  `json:"end,omitempty"`
	jsonfile.Sum
}

// ledger is an open ledger.
type ledger struct {
	file    *os.File
	entries map[int64]ledgerEntry // by begin, the last of each
}

// beginLedger makes the ledger of an output that is not there yet.
func beginLedger(path string, head ledgerHead) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	l := &ledger{file: f, entries: map[int64]ledgerEntry{}}
	if err := l.begin(head); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// findLedger opens the ledger of an output; it is nil when there is none. One of another
// export is an error, and so is a file that is no ledger; either is left as it is.
func findLedger(path string, head ledgerHead) (l *ledger, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l = &ledger{file: f, entries: map[int64]ledgerEntry{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(data, '\n') + 1 // a line that was broken off says nothing
	if whole > 0 {
		err = l.read(path, data[:whole], head)
	} else if begin := `{"magic":"` + ledgerKind.Magic; !bytes.HasPrefix(data, []byte(begin)) && !strings.HasPrefix(begin, string(data)) {
		err = fmt.Errorf("%s: not the ledger of an export", path)
	}
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(int64(whole)); err != nil {
		return nil, err
	}
	if _, err := f.Seek(int64(whole), io.SeekStart); err != nil {
		return nil, err
	}
	if whole == 0 {
		return l, l.begin(head)
	}
	return l, nil
}

// begin writes the first line of an empty ledger.
func (l *ledger) begin(head ledgerHead) error {
	line, err := jsonfile.Encode(ledgerKind, &head)
	if err == nil {
		err = l.append(line)
	}
	if err != nil {
		return err
	}
	return vfs.OS{}.SyncDir(filepath.Dir(l.file.Name()))
}

func (l *ledger) read(path string, data []byte, want ledgerHead) error {
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	var got ledgerHead
	if err := jsonfile.Decode(path, first, ledgerKind, &got); err != nil {
		return err
	}
	version := got.Version
	got.Head, got.Sum = want.Head, want.Sum
	if got.Source != want.Source {
		return fmt.Errorf("%s: the output is of another data directory: of that whose ID is %s, and not %s: choose another output", path, got.Source, want.Source)
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: the output is of another export: of %s, and not of %s: choose another output", path, got, want)
	}
	n := 0
	for line := range bytes.Lines(rest) {
		n++
		e, err := readEntry(line, version)
		if err != nil {
			return fmt.Errorf("%s: entry %d: %w: choose another output", path, n, err)
		}
		l.entries[e.Begin] = e
	}
	return nil
}

// readEntry reads an entry of a ledger of a version.
func readEntry(line []byte, version int) (e ledgerEntry, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return e, err
	}
	if version <= unsummedEntries && e.CRC == 0 {
		return e, nil
	}
	return e, jsonfile.CheckSum(line)
}

// note writes an entry, durably.
func (l *ledger) note(e ledgerEntry) error {
	l.entries[e.Begin] = e
	line, err := jsonfile.Line(&e)
	if err != nil {
		return err
	}
	return l.append(line)
}

func (l *ledger) append(line []byte) error {
	if _, err := l.file.Write(line); err != nil {
		return fmt.Errorf("%s: %w", l.file.Name(), err)
	}
	return l.file.Sync()
}

func (l *ledger) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
