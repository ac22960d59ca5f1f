//go:build race

package receiver

// raceEnabled: the race detector makes pools forget, so that memory is taken
// where it otherwise is not.
const raceEnabled = true
