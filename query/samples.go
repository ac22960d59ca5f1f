package query

import (
	"encoding/binary"
	"fmt"
	"net/http"

	"github.com/rwsink/rwsink/chunkenc"
)

// spoolBytes is the largest reply, before compression, that is kept from the
// first pass. A longer one is encoded twice.
const spoolBytes = 1 << 20

// result is what the first pass found of one query.
type result struct {
	series []Series
	size   int64 // bytes of its QueryResult
}

// serveSamples answers SAMPLES:
//
//  1. Encode each series for its size, checking the sample limit; keep the bytes
//     while they are few.
//  2. Write the block's length and, of each query, the length of its result and
//     its series: as kept, or encoded again. The view is the same, so are the bytes.
func (s *session) serveSamples(req *request) error {
	s.mode = &s.h.Metrics.Samples
	results, err := s.measure(req)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, r := range results {
		total += 1 + int64(uvarintLen(uint64(r.size))) + r.size
	}
	if total > maxSnappyBytes {
		return &refusal{http.StatusBadRequest, "too_large", fmt.Sprintf("remote read: the reply has %d bytes, "+
			"more than the %d of one snappy block; ask for less or accept STREAMED_XOR_CHUNKS", total, int64(maxSnappyBytes))}
	}
	s.out.w.Header().Set("Content-Type", "application/x-protobuf")
	s.out.w.Header().Set("Content-Encoding", "snappy")
	if err := s.blocks.start(&s.out, total); err != nil {
		return err
	}
	written, spool := int64(0), s.spool
	for i, r := range results {
		head, err := s.field(tagResult, uint64(r.size))
		if err != nil {
			return err
		}
		n := r.size
		if total <= spoolBytes {
			err = s.blocks.write(spool[:n])
			spool = spool[n:]
		} else {
			n, err = s.writeResult(&req.queries[i], r.series)
		}
		if err != nil {
			return err
		}
		written += int64(head) + n
	}
	if written != total {
		return fmt.Errorf("BUG: reply of %d bytes was measured as %d", written, total)
	}
	if err := s.blocks.seal(); err != nil {
		return err
	}
	return s.out.send()
}

// measure is the first pass.
func (s *session) measure(req *request) ([]result, error) {
	results := make([]result, len(req.queries))
	s.spool = s.spool[:0]
	total := int64(0)
	for i := range req.queries {
		q, r := &req.queries[i], &results[i]
		var err error
		if r.series, err = s.find(q); err != nil {
			return nil, err
		}
		left := s.h.SampleLimit
		kept := r.series[:0]
		for _, of := range r.series {
			n, err := s.timeseries(&of, q, left)
			if err != nil {
				return nil, err
			}
			if n == 0 && !q.labelsOnly {
				continue
			}
			kept = append(kept, of)
			left -= n
			s.samples += int64(n)
			start := len(s.spool)
			s.spool = binary.AppendUvarint(append(s.spool, tagTimeseries), uint64(len(s.body)))
			size := int64(len(s.spool) - start + len(s.body))
			r.size += size
			if total += size; total > spoolBytes {
				s.spool = s.spool[:0]
				continue
			}
			s.spool = append(s.spool, s.body...)
		}
		r.series = kept
		s.series += int64(len(kept))
	}
	return results, nil
}

// writeResult writes the series of a query in the second pass and returns how many bytes they take.
func (s *session) writeResult(q *query, series []Series) (written int64, err error) {
	for i := range series {
		if _, err := s.timeseries(&series[i], q, s.h.SampleLimit); err != nil {
			return written, err
		}
		head, err := s.field(tagTimeseries, uint64(len(s.body)))
		if err != nil {
			return written, err
		}
		if err := s.blocks.write(s.body); err != nil {
			return written, err
		}
		written += int64(head + len(s.body))
		if err := s.out.breathe(); err != nil {
			return written, err
		}
	}
	return written, nil
}

// field writes tag and length of an embedded message and returns their size.
func (s *session) field(tag byte, size uint64) (int, error) {
	var head [16]byte
	b := binary.AppendUvarint(append(head[:0], tag), size)
	return len(b), s.blocks.write(b)
}

// timeseries puts the TimeSeries message of one series into s.body and returns
// its number of samples, which is a refusal when more than left.
func (s *session) timeseries(of *Series, q *query, left int) (n int, err error) {
	s.body = appendLabels(s.body[:0], of.Labels)
	if q.labelsOnly {
		return 0, nil
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
