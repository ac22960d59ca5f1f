package store

import (
	"errors"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// What is sound in a block with damaged chunks is written into a new one:
//
//  1. its series are walked; a chunk that does not read to its last sample is left
//     out, and named in the log with its series and range,
//  2. the rest becomes a block of the same generation, durable under its name. It does
//     not say that it holds anything of the log: so a start reads again what the log
//     still has of what was lost, and the same samples twice are one. It says of which
//     block it is what was sound,
//  3. it takes that block's place on the list, with the deletes that came meanwhile,
//  4. the directory of that block is moved to the quarantine. A start that finds both
//     does this first.
//
// So whenever the process ends there is the damaged block or the new one, and until
// it is there reads go on with the damaged one. Where the disk has no room
// for another it is tried again by the next round. Where the index turns out to be
// damaged, too, there is no telling what is sound, and the block is lost as a whole.

// maxNamedLosses is how many damaged chunks of a block are named in the log.
const maxNamedLosses = 20

// rescue writes what is sound in a block and puts it in its place on the list, from
// which the block is then gone. maintenance is held.
func (s *Store) rescue(b *block.Block) error {
	started := time.Now()
	w, err := s.begin()
	if err != nil {
		return err
	}
	lost, named, err := s.copySound(b, w)
	if errors.As(err, new(*vfs.CorruptError)) {
		s.log.Error("what is sound in a damaged block cannot be told", "block", b.Name(), "err", err)
		s.listing.Lock()
		s.takeOff(b)
		s.listing.Unlock()
		return s.abandon(w, nil)
	}
	if err != nil {
		return s.abandon(w, err)
	}
	info, meta := b.Info(), b.Meta()
	made, err := s.publish(s.ctx, w, block.CommitInfo{
		Generation: info.Generation, Deletes: info.Deletes, Level: meta.Compaction.Level, Sources: meta.Compaction.Sources,
		Parents: append([]string{b.Name()}, info.Parents...), Rescued: true, // of the others one may be there still
	}, []*block.Block{b})
	if err != nil {
		return err
	}
	s.o.Metrics.Store.LostChunks.Add(float64(lost))
	for _, l := range named {
		s.log.Error("a chunk is damaged and lost", "block", b.Name(), "series", l.series.String(),
			"from", time.UnixMilli(l.minT).UTC(), "to", time.UnixMilli(l.maxT).UTC(), "err", l.why)
	}
	if made == nil {
		s.log.Warn("nothing of a damaged block is sound", "block", b.Name(), "lost_chunks", lost, "took", time.Since(started).Round(time.Millisecond))
		return nil
	}
	s.log.Warn("what is sound in a damaged block was written anew", "block", b.Name(), "into", made.Name(), "lost_chunks", lost,
		"samples", made.Meta().Stats.NumSamples, "of", meta.Stats.NumSamples, "took", time.Since(started).Round(time.Millisecond))
	return nil
}

// loss is a chunk that could not be read.
type loss struct {
	series     labels.Labels
	minT, maxT int64
	why        error
}

// copySound writes the chunks that can be read, and returns how many could not, and
// the first of those.
func (s *Store) copySound(b *block.Block, w *block.Writer) (lost int, named []loss, err error) {
	c, err := b.NewCursor(s.ctx)
	if err != nil {
		return 0, nil, err
	}
	c.Sound(func(minT, maxT int64, why error) {
		if lost++; lost <= maxNamedLosses {
			named = append(named, loss{c.Labels(), minT, maxT, why})
		}
	})
	for s.ctx.Err() == nil {
		ok, err := c.Next()
		if err != nil || !ok {
			return lost, named, err
		}
		list, err := c.Chunks()
		if err != nil {
			return lost, named, err
		}
		if err := w.AddSeries(c.Labels(), list); err != nil {
			return lost, named, err
		}
	}
	return lost, named, s.ctx.Err()
}
