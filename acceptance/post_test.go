package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/golang/snappy"
)

// writtenHeaders are those that a 2.0 answer carries, in the order of answer.written.
var writtenHeaders = [3]string{
	"X-Prometheus-Remote-Write-Samples-Written",
	"X-Prometheus-Remote-Write-Histograms-Written",
	"X-Prometheus-Remote-Write-Exemplars-Written",
}

// answer is what came back from a request.
type answer struct {
	status  int
	body    string
	header  http.Header
	written [3]int // samples, histograms, exemplars; -1 where the header is not there
}

func (a answer) String() string {
	return fmt.Sprintf("status %d, written %v, body %q", a.status, a.written, tail(a.body, 2000))
}

// request is a write request as it goes over the wire. A header with an empty
// value is not sent; Content-Type and Content-Encoding are sent as usual unless named.
type request struct {
	method string // POST
	path   string // /api/v1/write
	body   []byte
	v      version // for the usual headers and for what the answer must carry
	header map[string]string
}

// packed is the usual request of a version with a body given as protobuf.
func packed(v version, protobuf []byte) request {
	return request{v: v, body: snappy.Encode(nil, protobuf)}
}

// with returns r with a header set.
func (r request) with(name, value string) request {
	h := map[string]string{name: value}
	for k, v := range r.header {
		if _, ok := h[k]; !ok {
			h[k] = v
		}
	}
	r.header = h
	return r
}

// post sends the entries as one usual request.
func (s *server) post(t testing.TB, v version, entries ...entry) answer {
	t.Helper()
	return s.send(t, packed(v, encode(v, entries...)))
}

// send sends a request and checks what holds for every answer.
func (s *server) send(t testing.TB, r request) answer {
	t.Helper()
	a, err := s.try(s.client, r)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	r.check(t, a)
	return a
}

// try sends a request and returns the answer unchecked, or why there is none.
func (s *server) try(c *http.Client, r request) (answer, error) {
	req, err := r.build(s.url)
	if err != nil {
		return answer{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, body: string(b), header: resp.Header}
	for i, name := range writtenHeaders {
		a.written[i] = -1
		if v := resp.Header.Get(name); v != "" {
			if a.written[i], err = strconv.Atoi(v); err != nil {
				return answer{}, fmt.Errorf("header %s: %w", name, err)
			}
		}
	}
	return a, nil
}

func (r request) build(url string) (*http.Request, error) {
	method, path := r.method, r.path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/api/v1/write"
	}
	req, err := http.NewRequest(method, url+path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "rwsink-acceptance")
	if r.v != 0 {
		req.Header.Set("Content-Type", r.v.contentType())
		req.Header.Set("Content-Encoding", "snappy")
		req.Header.Set("X-Prometheus-Remote-Write-Version", map[version]string{v1: "0.1.0", v2: "2.0.0"}[r.v])
	}
	for k, v := range r.header {
		if req.Header.Del(k); v != "" {
			req.Header.Set(k, v)
		}
	}
	return req, nil
}

// check checks what holds for the answer to any write request.
func (r request) check(t testing.TB, a answer) {
	t.Helper()
	switch a.status {
	case http.StatusNoContent:
		if a.body != "" {
			t.Errorf("204 with a body: %v", a)
		}
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		if strings.TrimSpace(a.body) == "" {
			t.Errorf("an error without words: %v", a)
		}
	case http.StatusServiceUnavailable:
		if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n < 1 {
			t.Errorf("503 with Retry-After %q, want whole seconds: %v", a.header.Get("Retry-After"), a)
		}
		if a.written[0] > 0 || a.written[1] > 0 || a.written[2] > 0 {
			t.Errorf("503 claims that something was written: %v", a)
		}
	default:
		t.Errorf("a status that senders handle badly: %v", a)
	}
	if !utf8.ValidString(a.body) {
		t.Errorf("the body is not valid UTF-8: %q", a.body)
	}
	for i, n := range a.written {
		if r.v == v1 && n != -1 {
			t.Errorf("an answer to 1.0 carries %s", writtenHeaders[i])
		}
		if r.v == v2 && n < 0 && (a.status == http.StatusNoContent || a.status == http.StatusBadRequest) {
			t.Errorf("an answer to 2.0 lacks %s: %v", writtenHeaders[i], a)
		}
	}
}

// wrote expects the answer to carry these counts, if it is to a 2.0 request.
func (a answer) wrote(t testing.TB, v version, samples, hists, exemplars int) answer {
	t.Helper()
	if v == v2 && a.written != [3]int{samples, hists, exemplars} {
		t.Errorf("written %v, want %v: %v", a.written, [3]int{samples, hists, exemplars}, a)
	}
	return a
}

// is expects a status.
func (a answer) is(t testing.TB, status int) answer {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d: %v", a.status, status, a)
	}
	return a
}

// names expects the body to hold all of the words.
func (a answer) names(t testing.TB, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(a.body, w) {
			t.Errorf("the body does not name %q: %q", w, a.body)
		}
	}
}

// store sends the entries, expects all of them stored and notes them in m.
func (s *server) store(t testing.TB, m *model, v version, entries ...entry) {
	t.Helper()
	a := s.post(t, v, entries...)
	a.is(t, http.StatusNoContent)
	var n [3]int
	for _, e := range entries {
		n[0] += len(e.samples)
		n[1] += len(e.hists)
		n[2] += len(e.exemplars)
	}
	a.wrote(t, v, n[0], n[1], n[2])
	if a.status == http.StatusNoContent {
		m.write(entries...)
	}
}

// probes numbers the samples that survives writes.
var probes atomic.Int64

// survives sends a request over a connection of its own and expects that the next
// request, a good one, goes over the same connection. It notes that one in m.
func (s *server) survives(t testing.TB, m *model, r request) answer {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: s.client.Timeout}
	a, err := s.try(c, r)
	if err != nil {
		t.Fatalf("the connection broke: %v", err)
	}
	r.check(t, a)
	probe := series("probe").at(nowMs()-probes.Add(1), 1)
	req, err := packed(v1, encode(v1, probe)).build(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var reused bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused },
	}))
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("the next request: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("the next request: %d %s", resp.StatusCode, b)
	}
	m.write(probe)
	if len(r.body) < 128<<10 && !reused {
		t.Errorf("the connection was closed after: %v", a)
	}
	return a
}
