package store

import (
	"time"

	"github.com/rwsink/rwsink/store/block"
	"github.com/rwsink/rwsink/wal"
)

// A block with damaged chunks is set aside as it is, and what is sound in it is
// written into a new one:
//
//  1. the directory is moved to the quarantine; the process has it mapped still,
//  2. the deletes that came since it was taken off the list are applied to it,
//  3. its series are walked; a chunk that does not read to its last sample is left
//     out, and named in the log with its series and range,
//  4. the rest becomes a block of the same generation. It does not say that it
//     holds anything of the log: so a start reads again what the log still has of
//     what was lost, and the same samples twice are one.
//
// Where another file is damaged, or it is not known what is deleted, there is no
// telling what is sound, and the block is lost as a whole, as it is when the disk
// has no room for another or the process ends meanwhile: it stays in quarantine.

// maxNamedLosses is how many damaged chunks of a block are named in the log.
const maxNamedLosses = 20

// rescue writes what is sound in a block that was set aside. maintenance is held.
func (s *Store) rescue(b faultyBlock) error {
	started := time.Now()
	w, err := s.begin()
	if err != nil {
		return err
	}
	s.deletes.mu.Lock()
	err = s.eraseRemembered(b.Block, max(b.knows, wal.LSN(b.After())))
	s.deletes.mu.Unlock()
	if err != nil {
		return s.abandon(w, err)
	}
	lost, err := s.copySound(b.Block, w)
	if err != nil {
		return s.abandon(w, err)
	}
	info, meta := b.Info(), b.Meta()
	made, err := s.publish(s.ctx, w, block.CommitInfo{
		Generation: info.Generation, Deletes: info.Deletes, Level: meta.Compaction.Level, Sources: meta.Compaction.Sources,
		Parents: info.Parents, // of which one may be there still
	}, nil)
	if err != nil {
		return err
	}
	s.o.Metrics.Store.LostChunks.Add(float64(lost))
	if made == nil {
		s.log.Warn("nothing of a damaged block is sound", "block", b.Name(), "lost_chunks", lost, "took", time.Since(started).Round(time.Millisecond))
		return nil
	}
	s.log.Warn("what is sound in a damaged block was written anew", "block", b.Name(), "into", made.Name(), "lost_chunks", lost,
		"samples", made.Meta().Stats.NumSamples, "of", meta.Stats.NumSamples, "took", time.Since(started).Round(time.Millisecond))
	return nil
}

// copySound writes the chunks that can be read, and returns how many could not.
func (s *Store) copySound(b *block.Block, w *block.Writer) (lost int, err error) {
	c, err := b.NewCursor(s.ctx)
	if err != nil {
		return 0, err
	}
	for s.ctx.Err() == nil {
		ok, err := c.Next()
		if err != nil || !ok {
			return lost, err
		}
		list, err := c.Sound(func(minT, maxT int64, why error) {
			if lost++; lost <= maxNamedLosses {
				s.log.Error("a chunk is damaged and lost", "block", b.Name(), "series", c.Labels().String(),
					"from", time.UnixMilli(minT).UTC(), "to", time.UnixMilli(maxT).UTC(), "err", why)
			}
		})
		if err != nil {
			return lost, err
		}
		if err := w.AddSeries(c.Labels(), list); err != nil {
			return lost, err
		}
	}
	return lost, s.ctx.Err()
}
