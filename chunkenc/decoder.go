package chunkenc

import "slices"

// Decoder opens chunks. It holds scratch memory and serves one goroutine.
type Decoder struct {
	r     intReader
	ints  []int64     // decimals, ULPs or bits of values
	vals  []float64   // values of runs
	own   []int64     // timestamps of a chunk that is cut to a range
	last  *TimeColumn // the shared column opened last
	lastT []int64     // its timestamps
	hist  histDecoder
}

// Decode appends the samples of c to s, whose kind must be c's (s may be
// reset to it when empty). Histograms are fresh objects that the caller owns,
// but their custom bounds are shared and must not be written to. On error s
// is as it was. The error is a *CorruptError with the byte offset in c.Data.
//
// The hint of a decoded histogram is gauge or counter reset where the sender
// said so, else unknown: what "no reset" a chunk could imply need no longer be
// true once late samples stand between, or deletes took some away.
//
// A shared column is decoded once while the chunks that follow name it too.
// That the timestamps increase is not checked.
func (d *Decoder) Decode(s *Samples, c *Chunk) error {
	h, err := readHeader(c.Data)
	if err != nil {
		return err
	}
	if h.enc == EncTime {
		return corrupt(h.enc, 0, "a time column is no chunk")
	}
	if s.Len() == 0 {
		s.Reset(c.Kind())
	}
	if h.enc != c.Enc || s.Kind != c.Kind() {
		return corrupt(h.enc, 0, "want encoding %v in a batch of kind %d", c.Enc, s.Kind)
	}
	n, nst := s.Len(), len(s.ST)
	if isFloat(h.enc) {
		err = d.floats(s, c, &h)
	} else {
		err = d.histograms(s, c, &h)
	}
	if err != nil {
		s.truncate(n, nst)
	}
	return err
}

// DecodeRange is Decode of the samples of c in [mint, maxt], both ends included.
// Of floats it reads no further than it must, so that damage behind that, which
// Decode reports, may go unnoticed.
func (d *Decoder) DecodeRange(s *Samples, c *Chunk, mint, maxt int64) error {
	h, err := readHeader(c.Data)
	if err != nil {
		return err
	}
	n := s.Len()
	if !isFloat(h.enc) || h.enc != c.Enc || n > 0 && s.Kind != KindFloat {
		if err := d.Decode(s, c); err != nil {
			return err
		}
		s.cutRange(n, mint, maxt)
		return nil
	}
	if n == 0 {
		s.Reset(KindFloat)
	}
	nst := len(s.ST)
	if err := d.floatRange(s, c, &h, mint, maxt); err != nil {
		s.truncate(n, nst)
		return err
	}
	return nil
}

// floatRange appends the samples of a float chunk in [mint, maxt].
func (d *Decoder) floatRange(s *Samples, c *Chunk, h *header, mint, maxt int64) error {
	t, at, err := d.times(c, h)
	if err != nil {
		return err
	}
	lo, hi := inRange(t, mint, maxt)
	before := s.Len()
	s.T = append(s.T, t[lo:hi]...)
	if h.start() {
		if d.ints, at, err = d.readInts(d.ints[:0], c.Data, at, h); err != nil {
			return err
		}
		s.ST = append(s.ST, make([]int64, before-len(s.ST))...)
		s.ST = append(s.ST, d.ints[lo:hi]...)
	} else if len(s.ST) > 0 {
		s.ST = append(s.ST, make([]int64, hi-lo)...)
	}
	if lo == hi {
		return nil
	}
	if s.V, _, err = d.readValues(s.V, c.Data, at, h.n, hi, h); err == nil {
		s.V = cutColumn(s.V, before, before+lo, before+hi)
	}
	return err
}

// times returns the timestamps of a float chunk, which the decoder keeps, and the
// offset of what follows them.
func (d *Decoder) times(c *Chunk, h *header) ([]int64, int, error) {
	if !h.shared() {
		var at int
		var err error
		d.own, at, err = d.readInts(d.own[:0], c.Data, h.size, h)
		return d.own, at, err
	}
	if c.Times == nil {
		return nil, h.size, corrupt(h.enc, refOffset, "the shared time column is missing")
	}
	t, err := d.shared(c.Times)
	if err == nil && len(t) != h.n {
		err = corrupt(h.enc, h.size, "%d samples, but %d in the shared time column", h.n, len(t))
	}
	return t, h.size, err
}

// inRange gives the part [lo, hi) of t that lies in [mint, maxt].
func inRange(t []int64, mint, maxt int64) (lo, hi int) {
	lo, _ = slices.BinarySearch(t, mint)
	hi, found := slices.BinarySearch(t, maxt)
	if found {
		hi++
	}
	return lo, max(lo, hi)
}

// cutRange removes the samples from n on that are not in [mint, maxt].
func (s *Samples) cutRange(n int, mint, maxt int64) {
	lo, hi := inRange(s.T[n:], mint, maxt)
	lo, hi = n+lo, n+hi
	s.T = cutColumn(s.T, n, lo, hi)
	if len(s.ST) > 0 {
		s.ST = cutColumn(s.ST, n, lo, hi)
	}
	switch s.Kind {
	case KindFloat:
		s.V = cutColumn(s.V, n, lo, hi)
	case KindHistogram:
		s.H = cutColumn(s.H, n, lo, hi)
	case KindFloatHistogram:
		s.FH = cutColumn(s.FH, n, lo, hi)
	}
}

// cutColumn keeps x[:n] and x[lo:hi].
func cutColumn[E any](x []E, n, lo, hi int) []E {
	end := n + copy(x[n:], x[lo:hi])
	clear(x[end:])
	return x[:end]
}

// Times appends the timestamps of a shared column to dst.
func (d *Decoder) Times(dst []int64, col *TimeColumn) ([]int64, error) {
	h, err := readHeader(col.Data)
	if err != nil {
		return dst, err
	}
	if h.enc != EncTime {
		return dst, corrupt(h.enc, 0, "want a time column")
	}
	out, size, err := d.r.read(dst, col.Data, h.size, h.n, h.enc)
	if err == nil && size != len(col.Data) {
		err = corrupt(h.enc, size, "%d bytes follow the column", len(col.Data)-size)
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// shared returns the decoded timestamps of col, which the decoder keeps.
func (d *Decoder) shared(col *TimeColumn) ([]int64, error) {
	if d.last == col {
		return d.lastT, nil
	}
	d.last = nil
	times, err := d.Times(d.lastT[:0], col)
	if err != nil {
		return nil, err
	}
	d.lastT, d.last = times, col
	return times, nil
}

// floats appends the samples of a float chunk. Offsets are into c.Data.
func (d *Decoder) floats(s *Samples, c *Chunk, h *header) (err error) {
	at := h.size
	if h.shared() {
		t, _, err := d.times(c, h)
		if err != nil {
			return err
		}
		s.T = append(s.T, t...)
	} else if s.T, at, err = d.readInts(s.T, c.Data, at, h); err != nil {
		return err
	}
	if at, err = d.readStart(s, c.Data, at, h); err != nil {
		return err
	}
	if s.V, at, err = d.readValues(s.V, c.Data, at, h.n, h.n, h); err != nil {
		return err
	}
	if at != len(c.Data) {
		return corrupt(h.enc, at, "%d bytes follow the values", len(c.Data)-at)
	}
	return nil
}

// readStart appends the start column, or zeros when s has one and the chunk
// has not. Called when s.T holds, or will hold, the chunk's timestamps after
// the len(s.ST) that have a start already.
func (d *Decoder) readStart(s *Samples, data []byte, at int, h *header) (int, error) {
	before := s.Len()
	if isFloat(h.enc) {
		before -= h.n
	}
	switch {
	case h.start():
		s.ST = append(s.ST, make([]int64, before-len(s.ST))...)
		var err error
		s.ST, at, err = d.readInts(s.ST, data, at, h)
		return at, err
	case len(s.ST) > 0:
		s.ST = append(s.ST, make([]int64, h.n)...)
	}
	return at, nil
}

// truncate cuts s back to n samples, nst of which have a start.
func (s *Samples) truncate(n, nst int) {
	s.T, s.ST = s.T[:n], s.ST[:min(nst, len(s.ST))]
	s.V = s.V[:min(n, len(s.V))]
	s.H = slices.Delete(s.H, min(n, len(s.H)), len(s.H))
	s.FH = slices.Delete(s.FH, min(n, len(s.FH)), len(s.FH))
}

// readInts reads a column of times or starts in the chunk's encoding.
func (d *Decoder) readInts(dst []int64, data []byte, at int, h *header) ([]int64, int, error) {
	if h.enc == EncRaw {
		return readPlainInts(dst, data, at, h.n, h.enc)
	}
	return d.r.read(dst, data, at, h.n, h.enc)
}
