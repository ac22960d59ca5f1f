//go:build !race

package wal_test

// thin divides the runs of the sweeps.
const thin = 1
