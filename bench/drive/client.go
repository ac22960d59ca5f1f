package drive

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rwsink/rwsink/bench/load"
)

const (
	dialTimeout   = 10 * time.Second
	answerTimeout = 5 * time.Minute // a server that is silent for longer is gone
	refusalBytes  = 400             // of an answer's text that are kept
)

// client sends the bodies of one client over one connection.
type client struct {
	bodies   []load.Body
	hists    bool
	counts   bool   // of 2.0 are checked
	head     []byte // of a request, up to the length
	inFlight int
	every    time.Duration // between two requests at a fixed rate, or 0
	until    time.Duration // after the start, or 0

	dial func(context.Context) (net.Conn, error)
	in   *bufio.Reader

	mu   sync.Mutex // held to replace or abort the connection
	conn net.Conn

	result Result
}

// dialAll connects every client.
func dialAll(ctx context.Context, set *load.Set, o Options) ([]*client, error) {
	u, err := o.Endpoint()
	if err != nil {
		return nil, err
	}
	var clients []*client
	for _, bodies := range set.Clients {
		c := &client{
			bodies: bodies, hists: set.Values == load.Histograms, counts: set.Protocol == 2 && !o.NoCounts,
			head: head(u, set.Protocol), inFlight: max(1, o.InFlight), until: o.Duration,
			dial:   func(ctx context.Context) (net.Conn, error) { return dial(ctx, u) },
			result: Result{Status: map[int]int{}, latencies: make([]time.Duration, 0, len(bodies))},
		}
		if o.Rate > 0 && len(bodies) > 0 {
			perClient := o.Rate / float64(len(set.Clients)) / float64(bodies[0].Samples) // requests per second
			c.every = time.Duration(float64(time.Second) / perClient)
		}
		if err := c.connect(ctx); err != nil {
			for _, c := range clients {
				c.close()
			}
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

// head is a request up to the value of Content-Length.
func head(u *url.URL, protocol int) []byte {
	media, version := "application/x-protobuf", "0.1.0"
	if protocol == 2 {
		media, version = "application/x-protobuf;proto=io.prometheus.write.v2.Request", "2.0.0"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: rwsink-bench\r\n", u.RequestURI(), u.Host)
	if u.User != nil {
		password, _ := u.User.Password()
		fmt.Fprintf(&b, "Authorization: Basic %s\r\n", base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	fmt.Fprintf(&b, "Content-Type: %s\r\nContent-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: %s\r\nContent-Length: ", media, version)
	return []byte(b.String())
}

func dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	d := net.Dialer{Timeout: dialTimeout}
	var conn net.Conn
	var err error
	if u.Scheme == "https" {
		conn, err = (&tls.Dialer{NetDialer: &d, Config: &tls.Config{ServerName: u.Hostname()}}).DialContext(ctx, "tcp", addr)
	} else {
		conn, err = d.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", u.Redacted(), err)
	}
	return conn, nil
}

func (c *client) connect(ctx context.Context) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn, c.in = conn, bufio.NewReaderSize(conn, 4<<10)
	return ctx.Err()
}

// abort ends what waits for the connection.
func (c *client) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetDeadline(time.Unix(1, 0))
}

func (c *client) close() { c.conn.Close() }

// pending is a request that waits for its answer.
type pending struct {
	body *load.Body
	due  time.Time
}

// run sends everything and reads every answer; answered is called with the
// samples taken of each request.
func (c *client) run(ctx context.Context, start time.Time, answered func(samples int)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, c.abort)()
	sent := make(chan pending, c.inFlight)
	slots := make(chan struct{}, c.inFlight)
	go func() {
		defer close(sent)
		if err := c.send(ctx, start, sent, slots); err != nil {
			cancel(err)
		}
	}()
	for p := range sent {
		before := c.result.Samples
		if err := c.receive(ctx, p); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			cancel(err)
			for range sent { // the sender ends at its next slot or write
			}
			return err
		}
		answered(c.result.Samples - before)
		<-slots
	}
	return context.Cause(ctx)
}

// receive reads the answer of p, and connects again when the server closes the
// connection with it. Then the sender waits for the slot of p if it has only one.
func (c *client) receive(ctx context.Context, p pending) error {
	closes, err := c.answer(p)
	if err != nil || !closes {
		return err
	}
	if c.inFlight > 1 {
		return errors.New("the server closes the connection while requests are under way")
	}
	c.conn.Close()
	return c.connect(ctx)
}

// send writes the requests, each when a slot is free and it is due.
func (c *client) send(ctx context.Context, start time.Time, sent chan<- pending, slots chan<- struct{}) error {
	head := make([]byte, 0, len(c.head)+16)
	for i := range c.bodies {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		due := time.Now()
		if c.every > 0 {
			due = start.Add(time.Duration(i) * c.every)
			if err := sleepUntil(ctx, due); err != nil {
				return err
			}
		}
		if c.until > 0 && time.Since(start) > c.until {
			return nil
		}
		b := &c.bodies[i]
		head = strconv.AppendInt(append(head[:0], c.head...), int64(len(b.Data)), 10)
		head = append(head, "\r\n\r\n"...)
		sent <- pending{b, due}
		_ = c.conn.SetDeadline(time.Now().Add(answerTimeout))
		if ctx.Err() != nil { // its deadline was just lifted
			return context.Cause(ctx)
		}
		bufs := net.Buffers{head, b.Data}
		if _, err := bufs.WriteTo(c.conn); err != nil {
			return fmt.Errorf("send a request: %w", err)
		}
	}
	return nil
}

func sleepUntil(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// post is what ReadResponse needs to know of a request.
var post = &http.Request{Method: http.MethodPost}

// answer reads the answer of p; closes says that the connection ends with it.
func (c *client) answer(p pending) (closes bool, err error) {
	resp, err := http.ReadResponse(c.in, post)
	if err != nil {
		return false, fmt.Errorf("read an answer: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, refusalBytes))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	resp.Body.Close()
	if err != nil {
		return false, fmt.Errorf("read an answer: %w", err)
	}
	r := &c.result
	r.latencies = append(r.latencies, time.Since(p.due))
	r.Requests++
	r.Status[resp.StatusCode]++
	switch {
	case resp.StatusCode/100 != 2:
		if r.Refusal == "" {
			r.Refusal = fmt.Sprintf("answered %s: %s", resp.Status, strings.TrimSpace(string(text)))
		}
		return resp.Close, nil
	case c.counts:
		c.checkCount(resp.Header, p.body.Samples)
	}
	r.Samples += p.body.Samples
	r.Bytes += int64(len(p.body.Data))
	return resp.Close, nil
}

// checkCount compares what a receiver of 2.0 says that it wrote.
func (c *client) checkCount(h http.Header, want int) {
	name := "X-Prometheus-Remote-Write-Samples-Written"
	if c.hists {
		name = "X-Prometheus-Remote-Write-Histograms-Written"
	}
	if got := h.Get(name); got != strconv.Itoa(want) {
		c.result.Miscounts++
		if c.result.Refusal == "" {
			c.result.Refusal = fmt.Sprintf("answered with %s: %q, want %d", name, got, want)
		}
	}
}
