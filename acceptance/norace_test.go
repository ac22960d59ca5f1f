//go:build !race

package acceptance

// raceEnabled says whether the tests, and so the program under test, run with the race detector.
const raceEnabled = false
