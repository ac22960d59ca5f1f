package query

import (
	"encoding/binary"
	"fmt"
	"net/http"

	"github.com/rwsink/rwsink/chunkenc"
)

// result is the QueryResult of one query.
type result struct {
	size int64 // bytes of the message
	end  int64 // where it ends in the compressed bytes
}

// serveSamples answers SAMPLES. Lengths stand before what they count, a limit
// may be passed by the last sample, and the store may grow meanwhile; so
//
//  1. encode and compress each series, checking the sample limit,
//  2. then send the block's length and, before the compressed bytes of each
//     query, the length of its result.
func (s *session) serveSamples(req *request) error {
	s.mode = &s.h.Metrics.Samples
	defer s.comp.reset()
	results := make([]result, len(req.queries))
	total := int64(0)
	for i := range req.queries {
		size, err := s.queryResult(&req.queries[i])
		if err != nil {
			return err
		}
		results[i] = result{size, s.comp.seal()}
		total += 1 + int64(uvarintLen(uint64(size))) + size
	}
	if total > maxSnappyBytes {
		return &refusal{http.StatusBadRequest, "too_large", fmt.Sprintf("remote read: the reply has %d bytes, "+
			"more than the %d of one snappy block; ask for less or accept STREAMED_XOR_CHUNKS", total, int64(maxSnappyBytes))}
	}
	s.out.w.Header().Set("Content-Type", "application/x-protobuf")
	s.out.w.Header().Set("Content-Encoding", "snappy")
	if err := s.out.write(appendBlockHead(nil, total)); err != nil {
		return err
	}
	at := int64(0)
	for _, r := range results {
		var head [16]byte
		h := binary.AppendUvarint(append(head[:0], tagResult), uint64(r.size))
		if err := s.out.write(appendLiteral(nil, h)); err != nil {
			return err
		}
		if err := s.comp.send(&s.out, at, r.end); err != nil {
			return err
		}
		at = r.end
	}
	return s.out.send()
}

// queryResult compresses the QueryResult of q and returns its decoded size.
func (s *session) queryResult(q *query) (size int64, err error) {
	series, err := s.find(q)
	if err != nil {
		return 0, err
	}
	left := s.h.SampleLimit
	var head [16]byte
	for i := range series {
		n, err := s.timeseries(&series[i], q, left)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		if !q.labelsOnly {
			left -= n
			s.samples += int64(n)
		}
		s.series++
		h := binary.AppendUvarint(append(head[:0], tagTimeseries), uint64(len(s.body)))
		s.comp.write(h)
		s.comp.write(s.body)
		size += int64(len(h) + len(s.body))
	}
	return size, nil
}

// timeseries puts the TimeSeries message of one series into s.body and returns
// its number of samples, or 1 if there are any and labels alone are wanted. More
// than left is a refusal.
func (s *session) timeseries(of *Series, q *query, left int) (n int, err error) {
	s.body = appendLabels(s.body[:0], of.Labels)
	if q.labelsOnly {
		return s.exists(of, q)
	}
	s.hists = s.hists[:0]
	err = s.read(of, q.mint, q.maxt, func(run *chunkenc.Samples) error {
		if n += run.Len(); n > left {
			return &refusal{http.StatusBadRequest, "sample_limit",
				fmt.Sprintf("remote read: exceeded sample limit (%d)", s.h.SampleLimit)}
		}
		if run.Kind == chunkenc.KindFloat {
			s.body = appendSamples(s.body, run)
		} else {
			s.hists = s.hist.append(s.hists, run)
		}
		return s.ctx.Err()
	})
	s.body = append(s.body, s.hists...)
	return n, err
}
