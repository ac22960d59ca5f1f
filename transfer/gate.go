package transfer

import (
	"fmt"
	"math"
	"time"

	"github.com/rwsink/rwsink/head"
)

// limits are those of labels.
var limits = head.Options{}.WithDefaults().Limits

// gate decides what is let in, and counts and names what is not.
type gate struct {
	oldest, newest int64 // what retention and the clock let in
	from, to       int64 // what was asked for
	say            func(string)

	read    uint64 // samples let in
	outside uint64 // not asked for
	tooOld  uint64
	tooNew  uint64
	bad     uint64 // rows, series and files that make no sense
}

// place is where something stands: a file and its line, or, with line 0, a file
// or block as a whole.
type place struct {
	name string
	line int
}

func (p place) String() string {
	if p.line == 0 {
		return p.name
	}
	return fmt.Sprintf("%s:%d", p.name, p.line)
}

// maxRefusals is how many refusals are named, one by one.
const maxRefusals = 100

// refuse counts and names what is bad at a place.
func (g *gate) refuse(at place, why string) {
	g.bad++
	switch {
	case g.bad < maxRefusals:
		g.say(at.String() + ": " + clip(why))
	case g.bad == maxRefusals:
		g.say(at.String() + ": " + clip(why) + " (what else is refused is only counted)")
	}
}

// takes says whether a sample of time t is let in.
func (g *gate) takes(t int64) bool {
	return t >= max(g.oldest, g.from) && t <= min(g.newest, g.to)
}

// turnAway counts a sample whose time is not taken, and names the first of each reason.
func (g *gate) turnAway(at place, t int64, series func() string) {
	name := func(n uint64, why string) {
		if n == 1 {
			g.say(fmt.Sprintf("%s: series %s: %s; others like it are only counted", at, clip(series()), why))
		}
	}
	switch {
	case t < g.from || t > g.to:
		g.outside++
	case t < g.oldest:
		g.tooOld++
		name(g.tooOld, fmt.Sprintf("timestamp %d (%s) is older than --storage.retention.time keeps (%s)", t, clock(t), clock(g.oldest)))
	case t > g.newest:
		g.tooNew++
		name(g.tooNew, fmt.Sprintf("timestamp %d (%s) is further in the future than --limits.max-future lets in (%s)", t, clock(t), clock(g.newest)))
	}
}

// inOrder is nil when a range of Unix milliseconds, both ends included, is one.
func inOrder(from, to int64) error {
	if from > to {
		return fmt.Errorf("--from, %s, is after --to, %s", clock(from), clock(to))
	}
	return nil
}

// clock formats a time for a message.
func clock(t int64) string {
	if t == math.MinInt64 || t == math.MaxInt64 {
		return "any"
	}
	return time.UnixMilli(t).UTC().Format(time.RFC3339)
}
