// Package metrics is where the names of rwsink's metrics stand, one file a
// package that counts. Metrics watch and never decide.
package metrics
