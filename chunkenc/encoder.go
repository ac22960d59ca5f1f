package chunkenc

// Encoder seals batches. It holds scratch memory and serves one goroutine.
type Encoder struct {
	// Float is the encoding of float chunks: EncDelta (also when 0) or EncRaw.
	Float Encoding

	buf  []byte     // a chunk under construction
	alt  []byte     // another form of a column
	x    []int64    // decimals or bits of the values
	ulps []int64    // what the decimals are off
	exc  []int      // positions of values that are no decimals
	ints intEncoder // packs columns
	hist histScratch
}

// Seal appends to dst the chunks that hold s, in order of time: one chunk for
// floats of at most MaxSamples, more where a histogram forces a cut (counter
// reset, layout change, stale marker; where Prometheus cuts) or s is longer.
// s must not be empty and must be strictly increasing in time; s is not kept.
func (e *Encoder) Seal(dst []Chunk, s *Samples) []Chunk { return e.SealShared(dst, s, nil) }

// SealShared is Seal for samples whose timestamps, all of them, are those of
// times: the chunk names the column instead of holding it. It does so for
// floats in one chunk only; otherwise, and when times is nil, it is Seal.
func (e *Encoder) SealShared(dst []Chunk, s *Samples, times *TimeColumn) []Chunk {
	if s.Len() == 0 {
		panic("BUG: chunkenc: sealing an empty batch")
	}
	if s.Kind != KindFloat {
		return e.sealHistograms(dst, s)
	}
	if s.Len() > MaxSamples {
		times = nil
	}
	for i := 0; i < s.Len(); i += MaxSamples {
		part := s.Slice(i, min(i+MaxSamples, s.Len()))
		e.buf = e.AppendFloats(e.buf[:0], &part, times != nil)
		c := chunkOf(&part, Encoding(e.buf[0]), e.buf)
		c.Times = times
		dst = append(dst, c)
	}
	return dst
}

// Times makes a column of t, which must hold 1 to MaxSamples timestamps, for
// SealShared. Equal timestamps give equal bytes.
func (e *Encoder) Times(t []int64) *TimeColumn {
	e.buf = e.AppendTimes(e.buf[:0], t)
	return &TimeColumn{Data: append(make([]byte, 0, len(e.buf)), e.buf...)}
}

// AppendTimes appends the bytes of a time column (see Times) to dst.
func (e *Encoder) AppendTimes(dst []byte, t []int64) []byte {
	return e.ints.appendTimes(appendHeader(dst, EncTime, 0, len(t)), t)
}

// AppendFloats appends to dst the bytes of one chunk of floats: 1 to MaxSamples
// samples. With shared the time column is left out, its reference is 0.
func (e *Encoder) AppendFloats(dst []byte, s *Samples, shared bool) []byte {
	enc := e.Float
	if enc == 0 {
		enc = EncDelta
	}
	var flags byte
	if shared {
		flags |= flagShared
	}
	if anyStart(s.ST) {
		flags |= flagStart
	}
	at := len(dst) + 1
	dst = appendHeader(dst, enc, flags, s.Len())
	if enc == EncRaw {
		if !shared {
			dst = appendPlain(dst, s.T)
		}
		if flags&flagStart != 0 {
			dst = appendPlain(dst, s.ST)
		}
		dst[at] |= schemePlain << schemeShift
		return appendPlainFloats(dst, s.V)
	}
	if !shared {
		dst = e.ints.appendTimes(dst, s.T)
	}
	if flags&flagStart != 0 {
		dst = e.ints.append(dst, s.ST)
	}
	dst, scheme := e.appendValues(dst, s.V)
	dst[at] |= scheme << schemeShift
	return dst
}

// chunkOf makes a chunk of the samples whose bytes are data, which it copies.
func chunkOf(s *Samples, enc Encoding, data []byte) Chunk {
	return Chunk{
		MinT: s.T[0],
		MaxT: s.T[s.Len()-1],
		N:    uint16(s.Len()),
		Enc:  enc,
		Data: append(make([]byte, 0, len(data)), data...),
	}
}

func anyStart(st []int64) bool {
	for _, t := range st {
		if t != 0 {
			return true
		}
	}
	return false
}
