package chunkenc

// AppendInts and ReadInts give benchmarks the integer coder on its own.
func AppendInts(dst []byte, x []int64) []byte { return new(intEncoder).append(dst, x) }

// ReadInts appends the n integers of a column to dst.
func ReadInts(dst []int64, data []byte, n int) ([]int64, error) {
	dst, _, err := testReader.read(dst, data, 0, n, EncDelta)
	return dst, err
}

var testReader intReader

// XORRoom gives the capacity that AppendXOR needs to append n samples to head bytes.
func XORRoom(head, n int) int { return head + 2 + xorSampleBytes*n + xorOver }
