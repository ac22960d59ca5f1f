package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// histogramQuantile asks the server's /metrics for a classic histogram without
// labels of its own and returns the quantile q, interpolated within its bucket.
func (s *server) histogramQuantile(ctx context.Context, name string, q float64) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url("/metrics"), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var bounds, counts []float64
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name+`_bucket{le="`)
		if !ok {
			continue
		}
		le, count, _ := strings.Cut(rest, `"} `)
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		n, err := strconv.ParseFloat(count, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		bounds, counts = append(bounds, bound), append(counts, n)
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if len(counts) < 2 || counts[len(counts)-1] == 0 {
		return 0, fmt.Errorf("%s has no histogram %s with something in it", s.name, name)
	}
	return interpolate(bounds, counts, q), nil
}

// interpolate returns a quantile of cumulative counts by upper bound, the last of
// which is +Inf.
func interpolate(bounds, counts []float64, q float64) float64 {
	rank := q * counts[len(counts)-1]
	low, below := 0.0, 0.0
	for i, n := range counts[:len(counts)-1] {
		if n >= rank {
			return low + (bounds[i]-low)*(rank-below)/(n-below)
		}
		low, below = bounds[i], n
	}
	return low
}
