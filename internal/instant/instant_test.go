package instant

import (
	"math"
	"testing"
)

func TestSet(t *testing.T) {
	for s, want := range map[string]Time{
		"0": 0, "1.0004": 1000, "1.0006": 1001, "-2.5": -2500, "1e3": 1_000_000,
		"1970-01-01T00:00:01Z": 1000, "1970-01-01T01:00:00.5+01:00": 500, "1969-12-31T23:59:59Z": -1000,
	} {
		var got Time
		if err := got.Set(s); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", s, got, err, want)
		}
		var again Time
		if err := again.Set(got.String()); err != nil || again != got {
			t.Errorf("%s: written as %s it is %d, %v", s, got.String(), again, err)
		}
	}
	for _, s := range []string{"", "soon", "NaN", "Inf", "-Inf", "1e300", "148966367200000000.372", "2006-01-02"} {
		got := Time(7)
		if err := got.Set(s); err == nil || got != 7 {
			t.Errorf("%q is taken, as %d", s, got)
		}
	}
}

func TestNoBound(t *testing.T) {
	for _, at := range []Time{math.MinInt64, math.MaxInt64} {
		if got := at.String(); got != "" {
			t.Errorf("%d: %q", int64(at), got)
		}
	}
}
