package ooo

import (
	"cmp"
	"slices"

	"github.com/rwsink/rwsink/chunkenc"
)

// Layer is one source of a series' samples: a range of time and what reads it.
type Layer struct {
	Lo, Hi int64  // both ends included, Unix milliseconds
	Last   uint64 // its generation's LSN, for whoever puts layers in order; MaxUint64 when later samples may come
	// Read calls emit with the samples in [lo, hi] in order of time, no
	// timestamp twice; a run is borrowed until emit returns.
	Read func(lo, hi int64, emit func(*chunkenc.Samples) error) error
}

// Stack merges layers by the rule for equal timestamps. It holds scratch
// memory and serves one goroutine.
type Stack struct {
	merger Merger
	late   Buffer
	base   []*chunkenc.Samples
	free   []*chunkenc.Samples
	cuts   []int64
	active []*Layer
}

// Read calls emit with what the layers, oldest generation first, hold together
// in [lo, hi]: runs of one kind in order of time, no timestamp twice, borrowed
// until emit returns. Where one layer covers the time alone it is handed
// through; where several do they are merged in windows of step milliseconds, so
// that memory is bounded by what a window holds, or in maxWindows longer ones.
func (s *Stack) Read(layers []Layer, lo, hi, step int64, emit func(*chunkenc.Samples) error) error {
	// The covering layers change only where one begins or has ended.
	s.cuts = append(s.cuts[:0], lo)
	for i := range layers {
		if from := layers[i].Lo; from > lo && from <= hi {
			s.cuts = append(s.cuts, from)
		}
		if end := layers[i].Hi; end >= lo && end < hi {
			s.cuts = append(s.cuts, end+1)
		}
	}
	slices.SortFunc(s.cuts, cmp.Compare[int64])
	s.cuts = slices.Compact(s.cuts)
	for i, from := range s.cuts {
		to := hi
		if i+1 < len(s.cuts) {
			to = s.cuts[i+1] - 1
		}
		if err := s.stretch(layers, from, to, step, emit); err != nil {
			return err
		}
	}
	return nil
}

// maxWindows bounds the windows of a stretch: old ranges with few samples may span years.
const maxWindows = 1024

// stretch reads [lo, hi], within which no layer begins or ends.
func (s *Stack) stretch(layers []Layer, lo, hi, step int64, emit func(*chunkenc.Samples) error) error {
	s.active = s.active[:0]
	for i := range layers {
		if layers[i].Lo <= lo && layers[i].Hi >= hi {
			s.active = append(s.active, &layers[i])
		}
	}
	switch len(s.active) {
	case 0:
		return nil
	case 1:
		return s.active[0].Read(lo, hi, emit)
	}
	step = max(step, int64(uint64(hi-lo)/maxWindows))
	for from := lo; ; {
		to := hi
		if hi-from >= step || hi-from < 0 {
			to = from + step - 1
		}
		if err := s.window(from, to, emit); err != nil || to == hi {
			return err
		}
		from = to + 1
	}
}

// window merges the active layers in [lo, hi].
func (s *Stack) window(lo, hi int64, emit func(*chunkenc.Samples) error) error {
	s.free = append(s.free, s.base...)
	s.base = s.base[:0]
	s.late.Reset()
	err := s.active[0].Read(lo, hi, func(run *chunkenc.Samples) error {
		s.keep(run)
		return nil
	})
	if len(s.active) > 2 && plain(s.base) {
		// Where the rest has to be sorted anyway, it costs less to sort this with
		// it, as what came first, than to merge the two.
		for _, run := range s.base {
			s.late.Run(run)
		}
		s.free, s.base = append(s.free, s.base...), s.base[:0]
	}
	for _, l := range s.active[1:] {
		if err != nil {
			return err
		}
		err = l.Read(lo, hi, func(run *chunkenc.Samples) error {
			s.late.Run(run)
			return nil
		})
	}
	if err != nil {
		return err
	}
	runs := s.base
	if s.late.Len() > 0 {
		runs, _ = s.merger.Merge(s.base, &s.late)
	}
	for _, run := range runs {
		if err := emit(run); err != nil {
			return err
		}
	}
	return nil
}

// keep copies a borrowed run into the base.
func (s *Stack) keep(run *chunkenc.Samples) {
	dst := &chunkenc.Samples{}
	if n := len(s.free); n > 0 {
		dst, s.free = s.free[n-1], s.free[:n-1]
	}
	dst.Reset(run.Kind)
	dst.Append(run)
	s.base = append(s.base, dst)
}
