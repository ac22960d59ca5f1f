package query

import (
	"errors"
	"net/http"
	"time"
)

const (
	// pieceBytes is how much is handed to the connection at once.
	pieceBytes = 64 << 10
	// pieceTimeout is how long a client may take for one piece: a slow reader
	// holds a slot and a view, and one that has stopped must not hold them for ever.
	pieceTimeout = 2 * time.Minute
	// flushEvery bounds how long what is ready may wait for more.
	flushEvery = time.Second
)

// wireError is a failure to reach the client.
type wireError struct{ err error }

func (e *wireError) Error() string { return "write reply: " + e.err.Error() }
func (e *wireError) Unwrap() error { return e.err }

// wire carries the body of a reply to its client in pieces. Until the first one
// is handed over the reply can still become another.
type wire struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	buf     []byte // waits to be sent, capacity pieceBytes
	sent    int64  // bytes handed to the connection
	started bool   // a piece was handed over, perhaps in vain
	flushed time.Time
}

// reset makes o ready for another reply.
func (o *wire) reset(w http.ResponseWriter) {
	if o.buf == nil {
		o.buf = make([]byte, 0, pieceBytes)
	}
	*o = wire{w: w, rc: http.NewResponseController(w), buf: o.buf[:0], flushed: time.Now()}
}

// write takes the bytes of p. The error is a *wireError.
func (o *wire) write(p []byte) error {
	for len(p) > 0 {
		if len(o.buf) == cap(o.buf) {
			if err := o.send(); err != nil {
				return err
			}
		}
		n := min(len(p), cap(o.buf)-len(o.buf))
		o.buf = append(o.buf, p[:n]...)
		p = p[n:]
	}
	return nil
}

// send hands over what is buffered.
func (o *wire) send() error {
	if len(o.buf) == 0 {
		return nil
	}
	_ = o.rc.SetWriteDeadline(time.Now().Add(pieceTimeout)) // the server resets it
	o.started = true
	n, err := o.w.Write(o.buf)
	o.sent += int64(n)
	o.buf = o.buf[:0]
	if err != nil {
		return &wireError{err}
	}
	return nil
}

// breathe sends and flushes what is ready if nothing went out for flushEvery.
func (o *wire) breathe() error {
	if time.Since(o.flushed) < flushEvery {
		return nil
	}
	return o.flush()
}

// flush sends what is buffered and has the server put it on the network.
func (o *wire) flush() error {
	if err := o.send(); err != nil {
		return err
	}
	o.started = true
	o.flushed = time.Now()
	if err := o.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return &wireError{err}
	}
	return nil
}
