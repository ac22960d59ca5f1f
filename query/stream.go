package query

import (
	"github.com/rwsink/rwsink/chunkenc"
)

// serveChunks answers STREAMED_XOR_CHUNKS. errOversize means that a series does
// not fit one frame, nothing was sent, and the client understands SAMPLES.
func (s *session) serveChunks(req *request) error {
	s.mode = &s.h.Metrics.Chunks
	s.out.w.Header().Set("Content-Type", "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")
	s.frames.out, s.frames.limit, s.frames.rescue = &s.out, s.h.MaxFrameBytes, req.samples
	for i := range req.queries {
		q := &req.queries[i]
		series, err := s.find(q)
		if err != nil {
			return err
		}
		s.frames.query = int64(i)
		for j := range series {
			if err := s.stream(q, &series[j]); err != nil {
				return err
			}
			if err := s.out.breathe(); err != nil {
				return err
			}
		}
	}
	return s.out.flush()
}

// stream writes the frame of one series, or none if it has no samples.
func (s *session) stream(q *query, of *Series) error {
	s.frames.begin(of.Labels)
	if q.labelsOnly {
		n, err := s.exists(of, q)
		if err != nil || n == 0 {
			return err
		}
		s.series++
		return s.frames.write()
	}
	n := 0
	s.chunks.begin(&s.frames)
	err := s.read(of, q.mint, q.maxt, func(run *chunkenc.Samples) error {
		n += run.Len()
		if err := s.chunks.add(run); err != nil {
			return err
		}
		return s.ctx.Err()
	})
	if err != nil || n == 0 {
		return err
	}
	if err := s.chunks.end(); err != nil {
		return err
	}
	if err := s.frames.write(); err != nil {
		return err
	}
	s.series++
	s.samples += int64(n)
	if s.frames.frames > 1 {
		s.h.Metrics.Split.Inc()
		s.h.Logger.Warn("Series too long for one frame was split: Prometheus takes its parts for several series",
			"series", of.Labels.String(), "frames", s.frames.frames, "samples", n)
	}
	return nil
}
