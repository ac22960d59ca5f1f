package instant

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Time is in Unix milliseconds; the least and the greatest of all stand for no bound.
type Time int64

// Set takes what a user wrote.
func (t *Time) Set(s string) error {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(seconds) < math.MaxInt64/1000 {
		*t = Time(math.Round(seconds * 1000))
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("%q is neither a time such as 2006-01-02T15:04:05Z nor a number of seconds", s)
	}
	*t = Time(at.UnixMilli())
	return nil
}

// String returns it as RFC 3339, and nothing for no bound.
func (t *Time) String() string {
	if *t == math.MinInt64 || *t == math.MaxInt64 {
		return ""
	}
	return time.UnixMilli(int64(*t)).UTC().Format(time.RFC3339Nano)
}
