// Package store owns the data directory and gives views of what is in it.
package store
