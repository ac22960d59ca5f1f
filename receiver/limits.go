package receiver

// Defaults of the flags.
const (
	defaultBodyBytes    = 32 << 20 // --limits.body: bytes of a compressed body
	defaultDecodedBytes = 32 << 20 // --limits.decoded: bytes of a decoded one
	defaultInFlight     = 256      // --limits.in-flight: requests; a sender with 50 shards has 50
)

// Bounds on the decode work of one request. A body within the byte limits can
// still name millions of things of two bytes each; real senders stay below a
// hundredth of these. Beyond them the whole request is refused.
const (
	maxEntries    = 1 << 20 // series entries
	maxSymbols    = 1 << 20 // entries of the symbol table (2.0)
	maxSamples    = 1 << 21 // float samples
	maxHistograms = 1 << 18
	maxExemplars  = 1 << 18
	maxMetadata   = 1 << 18
)

// Bounds on one item. Beyond them the item is refused, not the request.
const (
	maxEntryLabels   = 4096    // labels of a series entry; the head's own limit is lower
	maxExemplarRunes = 128     // runes in the names and values of an exemplar (OpenMetrics)
	maxBuckets       = 1 << 16 // spans, buckets or bounds of one side of a histogram
)

// Bounds on pooled memory.
const (
	smallBody    = 4 << 10 // bytes that are taken for any body
	readAhead    = 1 << 20 // bytes of a body allocated on the word of its Content-Length alone
	maxPooled    = 4 << 20 // bytes of a buffer that goes back to the pool
	maxPooledLen = 1 << 16 // elements of a column that goes back to the pool
)
