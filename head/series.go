package head

import "github.com/prometheus/prometheus/model/labels"

// Series is a series of the head: to others an opaque handle. It is one cache
// line: the committer touches it for every sample.
type Series struct {
	labels labels.Labels // immutable
	ref    uint64        // its number in the log; never given to another label set
	hash   uint32        // of the labels

	// Owned by the identity table, under its mutex.
	aliases uint8 // how many wire forms of it are in the table
	gone    bool  // collected: whoever still has it must resolve it again; the committer reads it too

	// Owned by the committer; readers hold Head.mu.
	seen       bool   // it has a sample
	idle       bool   // the last collection found it without samples, and none came since
	containers int32  // how many containers hold samples of it
	group      uint32 // the last group with samples of it, noted under a narrow window only; wraps
	loggedIn   uint32 // tells the segment that last took its record; 0 is none
	live       *part  // its part of the newest near container that has one; those of frozen ones are taken out soon
	newest     int64  // the newest timestamp applied, when seen
}

// Labels returns the series' own labels.
func (s *Series) Labels() labels.Labels { return s.labels }

// Dropped says that relabelling drops what is written under this handle; s may be nil.
func (s *Series) Dropped() bool { return s == droppedSeries }

// partAt returns the part that a sample of time t goes to, or nil.
func (s *Series) partAt(t int64) *part {
	p := s.live
	for p != nil && (!p.box.contains(t) || p.box.frozen) {
		p = p.older
	}
	return p
}

// link adds a part to those of open near containers.
func (s *Series) link(p *part) {
	at := &s.live
	for *at != nil && (*at).box.lo > p.box.lo {
		at = &(*at).older
	}
	p.older, *at = *at, p
}

// unlink takes out a part.
func (s *Series) unlink(p *part) {
	for at := &s.live; *at != nil; at = &(*at).older {
		if *at == p {
			*at, p.older = p.older, nil
			return
		}
	}
}
