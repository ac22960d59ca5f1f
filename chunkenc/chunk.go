package chunkenc

// Encoding is the first byte of a chunk. rwsink's own start at 0xE0, clear of
// every number that Prometheus uses.
type Encoding uint8

// The encodings.
const (
	EncTime           Encoding = 0xE0 // a time column on its own, shared by many chunks
	EncDelta          Encoding = 0xE1 // floats, each column in the cheapest scheme
	EncRaw            Encoding = 0xE2 // floats, uncompressed: the yardstick
	EncHistogram      Encoding = 0xE3 // integer histograms: start column, then Prometheus's chunk
	EncFloatHistogram Encoding = 0xE4 // float histograms, likewise
)

// TimeColumn is a time column that several chunks share. Immutable.
type TimeColumn struct {
	Data []byte // EncTime entry: see docs/format/chunk.md
}

// Chunk is a sealed, immutable run of samples of one kind.
type Chunk struct {
	MinT, MaxT int64       // first and last timestamp, Unix milliseconds
	N          uint16      // number of samples, at least 1
	Enc        Encoding    //
	Data       []byte      // the chunk's bytes, encoding byte included
	Times      *TimeColumn // the shared time column; nil when it stands inside Data
}

// Kind returns what the chunk's values are.
func (c *Chunk) Kind() Kind {
	switch c.Enc {
	case EncHistogram:
		return KindHistogram
	case EncFloatHistogram:
		return KindFloatHistogram
	default:
		return KindFloat
	}
}

// Encoder seals batches. It holds scratch memory and serves one goroutine.
type Encoder struct {
	// Float is the encoding of float chunks: EncDelta or EncRaw.
	Float Encoding
}

// Seal appends to dst the chunks that hold s, in order of time: one chunk for
// floats of at most MaxSamples, more where a histogram forces a cut (counter
// reset, layout change, stale marker; where Prometheus cuts) or s is longer.
// s must not be empty and must be strictly increasing in time; s is not kept.
func (e *Encoder) Seal(dst []Chunk, s *Samples) []Chunk { panic("BUG: not built") }

// Decoder opens chunks. It holds scratch memory and serves one goroutine.
type Decoder struct{}

// Decode appends the samples of c to s, whose kind must be c's (s may be
// reset to it when empty). Histograms are fresh objects that the caller owns.
// The error names the byte offset in c.Data.
func (d *Decoder) Decode(s *Samples, c *Chunk) error { panic("BUG: not built") }

// AppendXOR appends to dst a Prometheus XOR chunk (encoding number 1) of the
// float samples, byte-identical to what Prometheus's own appender writes.
// At most MaxSamples; Prometheus itself cuts at 120. Start timestamps are not carried.
func AppendXOR(dst []byte, t []int64, v []float64) []byte { panic("BUG: not built") }
