package chunkenc

import "encoding/binary"

// Share splits the time column off a delta chunk that holds its own. It
// appends to column the bytes of the column on its own (EncTime), and to chunk
// those of c with a reference (0, see SetTimeRef) in its place. ok is false,
// and nothing is appended, when c has no column of its own to share.
func (d *Decoder) Share(column, chunk []byte, c *Chunk) (col, shared []byte, ok bool, err error) {
	h, err := readHeader(c.Data)
	if err != nil || h.enc != EncDelta || h.shared() {
		return column, chunk, false, err
	}
	var end int
	if d.ints, end, err = d.readInts(d.ints[:0], c.Data, h.size, &h); err != nil {
		return column, chunk, false, err
	}
	col = append(appendHeader(column, EncTime, 0, h.n), c.Data[h.size:end]...)
	shared = append(chunk, byte(h.enc), h.flags|flagShared, 0, 0, 0, 0, 0, 0, 0, 0)
	shared = binary.AppendUvarint(shared, uint64(h.n))
	return col, append(shared, c.Data[end:]...), true, nil
}
