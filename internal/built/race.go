//go:build race

package built

// Race says whether the race detector watches this test. It makes pools forget, so that
// memory is taken where it otherwise is not, and everything about ten times as slow.
const Race = true
