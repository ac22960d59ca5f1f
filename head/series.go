package head

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
)

// Series is a series of the head: to others an opaque handle.
type Series struct {
	labels labels.Labels // immutable
	ref    uint64        // its number in the log; never given to another label set

	// Owned by the identity table, under its mutex.
	next *Series // another series whose labels hash alike
	keys []Key   // its wire forms in the table

	// Owned by the committer; readers hold Head.mu.
	live     *part      // its part of liveIn
	liveIn   *container // the newest container that it has a part of
	newest   int64      // the newest timestamp applied, when seen
	seen     bool       // it has a sample
	loggedIn uint64     // the segment that last took its record; 0 is none

	// Owned by the committer, and only while it judges under a narrow window.
	group   uint64 // the group that pending speaks of
	pending int64  // the newest timestamp when the group so far is applied
}

// Labels returns the series' own labels.
func (s *Series) Labels() labels.Labels { return s.labels }

// pendingNewest returns the newest timestamp that the series will have once
// the batches of the group judged so far are applied; math.MinInt64 and false
// when it has none.
func (s *Series) pendingNewest(group uint64) (int64, bool) {
	if s.group == group {
		return s.pending, true
	}
	if s.seen {
		return s.newest, true
	}
	return math.MinInt64, false
}
