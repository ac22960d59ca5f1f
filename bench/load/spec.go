package load

import (
	"fmt"
	"time"
)

// Spec says what is sent. The zero value is no load; see Canonical.
type Spec struct {
	Protocol int           // of remote write: 1 or 2
	Series   int           // at any one time
	Samples  int           // a series
	Start    int64         // time of the first scrape, Unix milliseconds
	Interval time.Duration // between the samples of a series, at least 4 ms
	Labels   float64       // labels a series beside __name__, on average; at least 2
	Values   Values
	Churn    float64 // share of the series that end on the way and are followed by new ones

	Late      float64       // share of the samples that arrive after a newer one of their series
	LateBound time.Duration // how long after its time a late sample arrives, at most; uniform
	LateFar   float64       // share of the late samples that arrive more than Far after their time
	Scrapes   bool          // whole scrapes are late, each by one delay, and not samples one by one
	Control   bool          // series come as they would with Late, but each with its samples in order of time

	Request int // samples a request
	Entry   int // samples a series entry, at most
	Clients int
	Seed    uint64
}

// Far is the usual range of a block.
const Far = 2 * time.Hour

// Bounds of a Spec: indexes are held in 32 bits.
const (
	maxSeries  = 1 << 28
	maxSamples = 1 << 28
)

// Canonical is the load that the figures of the field are measured with: one
// sample an entry as Prometheus sends, 15 s, 2,000 samples a request, 4 clients.
// The last sample lies shortly before end, Unix milliseconds.
func Canonical(protocol, series, samples int, end int64) Spec {
	s := Spec{
		Protocol: protocol, Series: series, Samples: samples, Interval: 15 * time.Second,
		Labels: 10.4, Request: 2000, Entry: 1, Clients: 4, Seed: 1,
	}
	s.Start = s.startBefore(end)
	return s
}

// startBefore returns the start of a load that ends before end.
func (s *Spec) startBefore(end int64) int64 { return end - int64(s.Samples)*s.Interval.Milliseconds() }

// Length is from the first scrape to where the next would be.
func (s *Spec) Length() time.Duration { return time.Duration(s.Samples) * s.Interval }

// End is the time before which the last sample lies.
func (s *Spec) End() time.Time { return time.UnixMilli(s.Start).Add(s.Length()) }

// EndAt moves the load to the last place before now, Unix milliseconds, where it ends
// past behind the middle of a range of Far: so it lies across the same borders of
// ranges, and of equal parts of them, at every hour.
func (s *Spec) EndAt(now int64, past time.Duration) {
	after := (Far/2 + past).Milliseconds()
	s.Start = s.startBefore(rangeStart(now-after) + after)
}

// Cold is when the range in which the load ends has been over for half its length:
// from then on what is sent of it is of a time long past.
func (s *Spec) Cold() time.Time {
	return time.UnixMilli(rangeStart(s.End().UnixMilli() - 1)).Add(Far + Far/2)
}

// rangeStart is where the range of Far begins that t, Unix milliseconds, lies in.
func rangeStart(t int64) int64 {
	into := t % Far.Milliseconds()
	if into < 0 {
		into += Far.Milliseconds()
	}
	return t - into
}

// Validate names what is wrong with s.
func (s *Spec) Validate() error {
	share := func(what string, v float64) error {
		if v >= 0 && v <= 1 {
			return nil
		}
		return fmt.Errorf("%s %g %%, want 0 to 100", what, 100*v)
	}
	for _, err := range []error{share("late", s.Late), share("late by far", s.LateFar), share("churn", s.Churn)} {
		if err != nil {
			return err
		}
	}
	switch {
	case s.Protocol != 1 && s.Protocol != 2:
		return fmt.Errorf("protocol %d, want 1 or 2", s.Protocol)
	case s.Series < 1 || s.Series > maxSeries:
		return fmt.Errorf("%d series, want 1 to %d", s.Series, maxSeries)
	case s.Samples < 1 || s.Samples > maxSamples:
		return fmt.Errorf("%d samples a series, want 1 to %d", s.Samples, maxSamples)
	case s.Interval < 4*time.Millisecond:
		return fmt.Errorf("interval %v, want at least 4ms", s.Interval)
	case !(s.Labels >= minLabels && s.Labels <= maxLabels):
		return fmt.Errorf("%g labels a series, want %d to %d", s.Labels, minLabels, maxLabels)
	case s.Values >= numValues:
		return fmt.Errorf("unknown model of values %d", s.Values)
	case s.Late > 0 && s.LateBound < s.Interval:
		return fmt.Errorf("late by at most %v, want at least the interval, %v", s.LateBound, s.Interval)
	case s.Late > 0 && s.LateFar > 0 && s.LateBound <= Far:
		return fmt.Errorf("%g %% are to be late by more than %v, and the bound is %v", 100*s.LateFar, Far, s.LateBound)
	case s.Request < 1 || s.Entry < 1:
		return fmt.Errorf("%d samples a request and %d an entry, want at least 1", s.Request, s.Entry)
	case s.Clients < 1 || s.Clients > s.Series:
		return fmt.Errorf("%d clients, want 1 to the number of series, %d", s.Clients, s.Series)
	}
	return nil
}

// Total is the number of samples.
func (s *Spec) Total() int { return s.Series * s.Samples }

// jitterShare of the scrapes are up to maxJitter late, as Prometheus's are.
const (
	jitterShare = 0.05
	maxJitter   = 3 // ms
)

// Time is the timestamp of sample k of series i, Unix milliseconds: that of the
// scrape of its target, increasing with k.
func (s *Spec) Time(i, k int) int64 {
	interval := s.Interval.Milliseconds()
	target := uint64(i / targetSeries)
	offset := int64(mix(s.Seed, target, saltOffset) % uint64(max(1, interval-maxJitter)))
	h := mix(s.Seed^saltJitter, target, uint64(k))
	if unit(h) < jitterShare {
		offset += 1 + int64(h%maxJitter)
	}
	return s.Start + int64(k)*interval + offset
}

// Salts keep the draws apart that share their arguments.
const (
	saltOffset = 0x6f66667365740000 + iota
	saltJitter
	saltLabels
	saltChurn
	saltOrder
	saltDelay
	saltShape
	saltRate
)

// mix hashes three numbers to one (the finalizer of splitmix64, once each).
func mix(a, b, c uint64) uint64 {
	h := scramble(a + 0x9e3779b97f4a7c15)
	h = scramble(h ^ b*0xbf58476d1ce4e5b9)
	return scramble(h ^ c*0x94d049bb133111eb + 0x9e3779b97f4a7c15)
}

func scramble(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// unit maps a hash to [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }
