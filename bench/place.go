package bench

import (
	"context"
	"time"

	"github.com/rwsink/rwsink/bench/load"
)

// Where a load lies in time is part of what it costs. rwsink keeps ranges of 2 hours,
// which 15 s between samples cut into halves: over the end of a half every series has
// its chunk sealed, a sixth of all work; over the end of a range it gets a new part. A
// range that has been over for an hour is no longer one for scrapes, but of a backfill.
// So the loads of the tables end beside the middle of a range, an odd hour of UTC,
// whatever the hour is:
//
//	range            |-----------------|-----------------|        |
//	load                       |===========|
//	                                   middle  end       over     an hour later: a backfill
//
// A load is good until its range has been over for an hour. From goodFor before that
// the next one is taken, which ends less than the ten minutes ahead of the clock that
// receivers take: nothing is waited for. A load that grows old while it is measured is
// made again, later by whole ranges.

// place is where a load ends.
type place uint8

const (
	across place = iota // a fifth of its length behind the middle of a range, 5 minutes at most
	upTo                // at the middle
)

// past is how far behind the middle a load ends.
func (p place) past(s *load.Spec) time.Duration {
	if p == upTo {
		return 0
	}
	return min(s.Length()/5, 5*time.Minute)
}

// goodFor is for how long a load must be good when a turn begins: one turn, and the
// round that was begun in it.
const goodFor = 4 * time.Minute

// shift says how much later a load must be to be good at now, by whole ranges.
func shift(s *load.Spec, now time.Time) (later time.Duration) {
	for now.Add(goodFor).After(s.Cold().Add(later)) {
		later += load.Far
	}
	return later
}

// sets prepares loads that end at the same time, each beside the middle of a range as p says.
func (e *env) sets(ctx context.Context, p place, specs ...load.Spec) ([]*load.Set, error) {
	now := time.Now().UnixMilli()
	var out []*load.Set
	for i := range specs {
		s := &specs[i]
		s.EndAt(now, p.past(s))
		if i == 0 {
			now += shift(s, time.Now()).Milliseconds()
			s.EndAt(now, p.past(s))
		}
		e.logf("preparing remote write %d.0, %d series x %d samples, %g %% late", s.Protocol, s.Series, s.Samples, 100*s.Late)
		set, err := load.Prepare(ctx, *s)
		if err != nil {
			closeSets(out)
			return nil, err
		}
		out = append(out, set)
	}
	return out, nil
}

func closeSets(sets []*load.Set) {
	for _, s := range sets {
		s.Close()
	}
}

// turn waits for the turn of trials; their loads are good then.
func (e *env) turn(ctx context.Context, trials ...trial) (unlock func(), err error) {
	for {
		if unlock, err = e.lock(ctx); err != nil {
			return nil, err
		}
		old := oldest(trials)
		if old == nil {
			return unlock, nil
		}
		later := shift(&old.Spec, time.Now())
		if later == 0 {
			return unlock, nil
		}
		unlock()
		if err := e.renew(ctx, later, trials); err != nil {
			return nil, err
		}
	}
}

// oldest is the set whose time is over first, or nil.
func oldest(trials []trial) (out *load.Set) {
	for _, t := range trials {
		for _, s := range t.sets {
			if out == nil || s.Cold().Before(out.Cold()) {
				out = s
			}
		}
	}
	return out
}

// renew prepares all loads of trials again, later by so much.
func (e *env) renew(ctx context.Context, later time.Duration, trials []trial) error {
	e.logf("preparing the loads again, %v later: theirs is long over", later)
	done := map[*load.Set]bool{}
	for _, t := range trials {
		for _, s := range t.sets {
			if done[s] {
				continue
			}
			spec := s.Spec
			spec.Start += later.Milliseconds()
			s.Close()
			set, err := load.Prepare(ctx, spec)
			if err != nil {
				return err
			}
			*s, done[s] = *set, true
		}
	}
	return nil
}
