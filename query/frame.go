package query

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/prometheus/prometheus/model/labels"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameSlack is what a message takes beside the fields of its series: two tags,
// the series' length, the index of the query.
const frameSlack = 2 + 5 + 10

// errOversize says that a series does not fit one frame while its reply can
// still become another.
var errOversize = errors.New("series does not fit one frame")

// framer writes the frames of a STREAMED_XOR_CHUNKS reply:
//
//	length of message <uvarint> | crc32c of message <4b big-endian> | message
//
// A message is a ChunkedReadResponse with exactly one series. A series goes into
// one frame, because Prometheus as a client takes two frames for two series;
// one that is longer than limit is cut into several when there is no other way.
type framer struct {
	out    *wire
	limit  int   // most bytes of a message
	query  int64 // index of the query
	rescue bool  // report errOversize instead of cutting, as long as nothing was sent

	lead   []byte // length, sum and head of the frame under way
	body   []byte // the fields of the ChunkedSeries: labels, then chunks
	labels int    // bytes of labels in body
	chunks int    // chunks in body
	frames int    // frames written of this series
}

// begin starts a series.
func (f *framer) begin(ls labels.Labels) {
	f.body = appendLabels(f.body[:0], ls)
	f.labels, f.chunks, f.frames = len(f.body), 0, 0
}

// chunk adds a chunk. typ is its number in Prometheus's protocol; data is copied.
func (f *framer) chunk(minT, maxT int64, typ byte, data []byte) error {
	size := chunkSize(minT, maxT, len(data))
	size += 1 + uvarintLen(uint64(size))
	if f.chunks > 0 && len(f.body)+size+frameSlack > f.limit {
		if f.rescue && !f.out.started {
			return errOversize
		}
		if err := f.write(); err != nil {
			return err
		}
		f.body, f.chunks = f.body[:f.labels], 0
	}
	f.body = appendChunk(f.body, minT, maxT, typ, data)
	f.chunks++
	return nil
}

// write writes a frame with what is in body, and so finishes a series.
func (f *framer) write() error {
	series := len(f.body)
	if f.query != 0 {
		f.body = binary.AppendUvarint(append(f.body, tagQueryIndex), uint64(f.query))
	}
	message := 1 + uvarintLen(uint64(series)) + len(f.body)
	f.lead = binary.AppendUvarint(f.lead[:0], uint64(message))
	sum := len(f.lead)
	f.lead = append(f.lead, 0, 0, 0, 0, tagChunkedSeries)
	f.lead = binary.AppendUvarint(f.lead, uint64(series))
	crc := crc32.Update(0, castagnoli, f.lead[sum+4:])
	crc = crc32.Update(crc, castagnoli, f.body)
	binary.BigEndian.PutUint32(f.lead[sum:], crc)
	f.frames++
	if err := f.out.write(f.lead); err != nil {
		return err
	}
	err := f.out.write(f.body)
	f.body = f.body[:series]
	return err
}
