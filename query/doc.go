// Package query serves remote read.
package query
