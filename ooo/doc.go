// Package ooo keeps the late samples of a series and merges them into its chunks.
package ooo
