package query

import (
	"context"
	"errors"
	"net/http"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/store"
)

// keepBytes is the most scratch memory of each kind that a session keeps for the next request.
const keepBytes = 1 << 20

// session answers one request on one view. It is pooled for its scratch memory.
type session struct {
	ctx  context.Context
	h    *handler
	view *store.View
	rd   *store.Reader
	out  wire
	mode *metrics.ReadMode

	samples, series int64 // sent

	// Scratch of SAMPLES.
	body  []byte
	hists []byte
	hist  histEncoder
	comp  compressor

	// Scratch of STREAMED_XOR_CHUNKS.
	frames framer
	chunks chunker
}

// open starts the session of a request.
func (s *session) open(ctx context.Context, h *handler, w http.ResponseWriter) {
	s.ctx, s.h = ctx, h
	s.out.reset(w)
	s.view = h.Store.View()
	s.rd = s.view.NewReader()
	s.mode = &h.Metrics.Samples
	s.samples, s.series = 0, 0
}

// close counts what was sent and lets go of everything but the scratch memory.
func (s *session) close() {
	if s.out.started {
		s.mode.Samples.Add(float64(s.samples))
		s.mode.Series.Add(float64(s.series))
		s.mode.Bytes.Add(float64(s.out.sent))
	}
	s.view.Close()
	h := s.h
	s.ctx, s.h, s.view, s.rd, s.mode = nil, nil, nil, nil, nil
	s.out = wire{buf: s.out.buf[:0]}
	s.frames = framer{lead: s.frames.lead, body: s.frames.body}
	s.chunks.begin(nil)
	for _, b := range []*[]byte{&s.body, &s.hists, &s.hist.scratch, &s.frames.body} {
		if cap(*b) > keepBytes {
			*b = nil
		}
	}
	h.sessions.Put(s)
}

// serve writes the reply.
func (s *session) serve(req *request) error {
	if !req.chunks {
		return s.serveSamples(req)
	}
	err := s.serveChunks(req)
	if errors.Is(err, errOversize) {
		s.out.reset(s.out.w)
		s.samples, s.series = 0, 0
		return s.serveSamples(req)
	}
	return err
}

// find returns the series that q asks for.
func (s *session) find(q *query) ([]Series, error) {
	if q.mint > q.maxt || len(q.matchers) == 0 {
		return nil, nil
	}
	selector, rest, err := s.h.external.Selector(q.matchers)
	if err != nil {
		return nil, err
	}
	in, err := s.view.Select(s.ctx, q.mint, q.maxt, selector...)
	if err != nil {
		return nil, err
	}
	return s.h.external.Apply(in, rest), nil
}

// read calls emit with the runs of one series in [mint, maxt], which are borrowed
// until emit returns. Series of several parts are merged in memory.
func (s *session) read(of *Series, mint, maxt int64, emit func(*chunkenc.Samples) error) error {
	if len(of.Parts) == 1 {
		return s.rd.Read(of.Parts[0], mint, maxt, emit)
	}
	var merged runs
	for _, p := range of.Parts {
		var part runs
		err := s.rd.Read(p, mint, maxt, func(run *chunkenc.Samples) error {
			part.add(run)
			return s.ctx.Err()
		})
		if err != nil {
			return err
		}
		merged = mergeRuns(merged, part)
	}
	for i := range merged {
		if err := emit(&merged[i]); err != nil {
			return err
		}
	}
	return nil
}

// errFound ends a read at its first sample.
var errFound = errors.New("found")

// exists returns 1 if of has samples in the range of q, else 0.
func (s *session) exists(of *Series, q *query) (int, error) {
	for _, p := range of.Parts {
		err := s.rd.Read(p, q.mint, q.maxt, func(*chunkenc.Samples) error { return errFound })
		if errors.Is(err, errFound) {
			return 1, s.ctx.Err()
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, s.ctx.Err()
}
