package query

import (
	"github.com/rwsink/rwsink/chunkenc"
)

// xorSampleBytes bounds what a float takes in a XOR chunk: 68 bits of time, 77 of
// value, and its share of the chunk's head.
const xorSampleBytes = 20

// serveChunks answers STREAMED_XOR_CHUNKS. errOversize means that a series does
// not fit one frame, nothing was sent, and the client understands SAMPLES.
func (s *session) serveChunks(req *request) error {
	s.mode = &s.h.Metrics.Chunks
	s.frames.out, s.frames.limit, s.frames.rescue = &s.out, s.h.MaxFrameBytes, req.samples
	found := make([][]Series, len(req.queries))
	for i := range req.queries {
		q := &req.queries[i]
		var err error
		if found[i], err = s.find(q); err != nil {
			return err
		}
		if req.samples && !q.labelsOnly {
			if err := s.checkFrames(q, found[i]); err != nil {
				return err
			}
		}
	}
	s.out.w.Header().Set("Content-Type", "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")
	for i, series := range found {
		s.frames.query = int64(i)
		for j := range series {
			if err := s.stream(&req.queries[i], &series[j]); err != nil {
				return err
			}
			if err := s.out.breathe(); err != nil {
				return err
			}
		}
	}
	return s.out.flush()
}

// checkFrames returns errOversize if a series does not fit one frame. Only those
// that look as if they might not are encoded for that, in vain if they do.
func (s *session) checkFrames(q *query, series []Series) error {
	for i := range series {
		samples, bytes := 0, 0
		for _, p := range series[i].Parts {
			n, size := s.rd.Size(p, q.mint, q.maxt)
			samples += n
			bytes += size
		}
		if max(samples*xorSampleBytes, 2*bytes) < s.frames.limit {
			continue
		}
		if _, err := s.fillFrame(q, &series[i]); err != nil {
			return err
		}
	}
	return nil
}

// stream writes the frame of one series, or none if it has no samples.
func (s *session) stream(q *query, of *Series) error {
	var n int
	var err error
	if q.labelsOnly {
		s.frames.begin(of.Labels)
		n, err = s.exists(of, q)
	} else {
		n, err = s.fillFrame(q, of)
	}
	if err != nil || n == 0 {
		return err
	}
	if err := s.frames.write(); err != nil {
		return err
	}
	s.series++
	if !q.labelsOnly {
		s.samples += int64(n)
	}
	if s.frames.frames > 1 {
		s.h.Metrics.Split.Inc()
		s.h.Logger.Warn("Series too long for one frame was split: Prometheus takes its parts for several series",
			"series", of.Labels.String(), "frames", s.frames.frames, "samples", n)
	}
	return nil
}

// fillFrame puts the chunks of one series into the frame under way and returns
// its number of samples.
func (s *session) fillFrame(q *query, of *Series) (n int, err error) {
	s.frames.begin(of.Labels)
	s.chunks.begin(&s.frames)
	err = s.read(of, q.mint, q.maxt, func(run *chunkenc.Samples) error {
		n += run.Len()
		if err := s.chunks.add(run); err != nil {
			return err
		}
		return s.ctx.Err()
	})
	if err != nil {
		return n, err
	}
	return n, s.chunks.end()
}
