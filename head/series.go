package head

import "github.com/prometheus/prometheus/model/labels"

// Series is a series of the head: to others an opaque handle.
type Series struct {
	labels labels.Labels // immutable
	ref    uint64        // its number in the log; never given to another label set

	// Owned by the identity table, under its mutex.
	next *Series  // another series whose labels hash alike
	keys []Key    // its wire forms in the table
	also []uint64 // other references that the log knew it by
	idle bool     // the last collection found it without samples

	// Owned by the committer; readers hold Head.mu.
	live       *part      // its part of liveIn
	liveIn     *Container // the newest near container that it has a part of
	newest     int64      // the newest timestamp applied, when seen
	seen       bool       // it has a sample
	containers int32      // how many containers hold samples of it
	gone       bool       // collected: whoever still has it must resolve it again
	loggedIn   uint64     // the segment that last took its record; 0 is none
	group      uint64     // the last group with samples of it, noted under a narrow window only
}

// Labels returns the series' own labels.
func (s *Series) Labels() labels.Labels { return s.labels }

// refs returns every reference that the series is known by.
func (s *Series) refs() []uint64 { return append(s.also[:len(s.also):len(s.also)], s.ref) }
