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
		s.frames.query = int64(i)
		series, err := s.find(&req.queries[i])
		if err != nil {
			return err
		}
		for j := range series {
			if err := s.stream(&req.queries[i], &series[j]); err != nil {
				return err
			}
		}
	}
	return s.out.flush()
}

// stream writes the frame of one series.
func (s *session) stream(q *query, of *Series) error {
	s.frames.begin(of.Labels)
	s.chunks.begin(&s.frames)
	n := 0
	if !q.labelsOnly {
		err := s.read(of, q.mint, q.maxt, func(run *chunkenc.Samples) error {
			n += run.Len()
			if err := s.chunks.add(run); err != nil {
				return err
			}
			return s.ctx.Err()
		})
		if err != nil {
			return err
		}
		if err := s.chunks.end(); err != nil {
			return err
		}
	}
	frames, err := s.frames.end(q.labelsOnly)
	if err != nil {
		return err
	}
	if frames > 0 {
		s.series++
		s.samples += int64(n)
	}
	if frames > 1 {
		s.h.Metrics.Split.Inc()
		s.h.Logger.Warn("Series too long for one frame was split: Prometheus takes its parts for several series",
			"series", of.Labels.String(), "frames", frames, "samples", n)
	}
	return s.out.breathe()
}
