// Package receiver is the HTTP handler of remote write 1.0 and 2.0.
package receiver
