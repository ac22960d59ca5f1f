package head

import "github.com/prometheus/prometheus/model/labels"

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
	group    uint64     // the last group with samples of it, noted under a narrow window only
}

// Labels returns the series' own labels.
func (s *Series) Labels() labels.Labels { return s.labels }
