package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/rwsink/rwsink/internal/jsonfile"
	"github.com/rwsink/rwsink/store/block"
)

// CanDump says whether a file that begins so is deletes.json or removed.json.
func CanDump(head []byte) bool { return isKind(head, rememberedKind) || isKind(head, removalsKind) }

func isKind(head []byte, k jsonfile.Kind) bool {
	return bytes.HasPrefix(head, fmt.Appendf(nil, `{"magic":%q,`, k.Magic))
}

// Dump prints deletes.json or removed.json. What it says is printed as far as it is JSON,
// also where the error is that it is damaged, or of a newer version.
func Dump(w io.Writer, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if isKind(data, removalsKind) {
		var r removals
		err = jsonfile.Decode(path, data, removalsKind, &r)
		r.dump(&out)
	} else {
		var r remembered
		err = jsonfile.Decode(path, data, rememberedKind, &r)
		r.dump(&out)
	}
	_, failed := out.WriteTo(w)
	return errors.Join(err, failed)
}

func (r *remembered) dump(w io.Writer) {
	fmt.Fprintf(w, "deletes.json, version %d\n", r.Version)
	fmt.Fprintf(w, "blocks have tombstones of every delete through frame %d\n", r.Through)
	if r.Evicted > 0 {
		fmt.Fprintf(w, "deletes through frame %d are not all here\n", r.Evicted)
	}
	for _, d := range r.Deletes {
		var ms []string
		for _, m := range d.Matchers {
			ms = append(ms, fmt.Sprintf("%s%s%q", m.Name, m.Type, m.Value))
		}
		fmt.Fprintf(w, "delete of frame %d: from %s to %s, {%s}\n", d.LSN, block.When(d.MinT), block.When(d.MaxT), strings.Join(ms, ", "))
	}
	fmt.Fprintf(w, "crc32c %08x\n", r.CRC)
}

func (r *removals) dump(w io.Writer) {
	fmt.Fprintf(w, "removed.json, version %d\n", r.Version)
	if r.KeepFrom > math.MinInt64 {
		fmt.Fprintf(w, "samples from before %s are not taken\n", block.When(r.KeepFrom))
	}
	for _, l := range r.Logs {
		fmt.Fprintf(w, "removed, of the log: from %s to %s, frames %d to %d\n", block.When(l.MinT), block.When(l.MaxT), l.From+1, l.To)
	}
	for _, name := range r.Blocks {
		fmt.Fprintf(w, "removed block that may still be there: %s\n", name)
	}
	fmt.Fprintf(w, "crc32c %08x\n", r.CRC)
}
