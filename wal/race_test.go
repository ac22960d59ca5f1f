//go:build race

package wal_test

// thin divides the runs of the sweeps: the race detector makes each about six times slower.
const thin = 5
