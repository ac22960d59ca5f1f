package receiver_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/receiver"
	"github.com/rwsink/rwsink/wal"
)

func TestMethods(t *testing.T) {
	s := newServer(t, nil)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		req, _ := http.NewRequest(method, s.url, nil)
		r := s.do(req)
		if r.code != http.StatusMethodNotAllowed || r.header.Get("Allow") != "POST" {
			t.Errorf("%s: got %d, Allow %q, want 405 and POST", method, r.code, r.header.Get("Allow"))
		}
	}
}

// TestHeaders sends one good body under many headers.
func TestHeaders(t *testing.T) {
	const v2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	tests := []struct {
		name    string
		headers map[string]string
		two     bool // the body
		code    int
		part    string
	}{
		{"none at all", nil, false, 204, ""},
		{"encoding only", map[string]string{"Content-Encoding": "snappy"}, false, 204, ""},
		{"1.0", map[string]string{"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}, false, 204, ""},
		{"1.0 with a version of 2.0", map[string]string{"Content-Type": "application/x-protobuf", "X-Prometheus-Remote-Write-Version": "2.0.0"}, false, 204, ""},
		{"1.0 with a version of nothing", map[string]string{"X-Prometheus-Remote-Write-Version": "?"}, false, 204, ""},
		{"2.0", map[string]string{"Content-Type": v2, "Content-Encoding": "snappy"}, true, 204, ""},
		{"2.0 with a version of 1.0", map[string]string{"Content-Type": v2, "X-Prometheus-Remote-Write-Version": "0.1.0"}, true, 204, ""},
		{"2.0 with a space", map[string]string{"Content-Type": strings.Replace(v2, ";", "; ", 1)}, true, 204, ""},
		{"2.0 in quotes", map[string]string{"Content-Type": `application/x-protobuf;proto="io.prometheus.write.v2.Request"`}, true, 204, ""},
		{"capital letters", map[string]string{"Content-Type": "Application/X-Protobuf", "Content-Encoding": "Snappy"}, false, 204, ""},
		{"gzip", map[string]string{"Content-Encoding": "gzip"}, false, 415, "only snappy"},
		{"zstd", map[string]string{"Content-Encoding": "zstd"}, false, 415, "only snappy"},
		{"json", map[string]string{"Content-Type": "application/json"}, false, 415, v2},
		{"another protobuf", map[string]string{"Content-Type": "application/vnd.google.protobuf"}, false, 415, v2},
		{"unknown proto", map[string]string{"Content-Type": "application/x-protobuf;proto=x"}, false, 415, v2},
		{"1.0 as 2.0", map[string]string{"Content-Type": v2}, false, 400, "field 1, which only prometheus.WriteRequest has"},
		{"2.0 as 1.0", map[string]string{"Content-Type": "application/x-protobuf"}, true, 400, "field 4, which only io.prometheus.write.v2.Request has"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, nil)
			body := encode(t, request1(series1("m", 0, 1)))
			if test.two {
				body = encode(t, new2().sample("m", 0, 1).request())
			}
			req, _ := http.NewRequest(http.MethodPost, s.url, bytes.NewReader(body))
			for k, v := range test.headers {
				req.Header.Set(k, v)
			}
			want := none
			if ct := test.headers["Content-Type"]; strings.Contains(ct, "write.v2") {
				if want = "1 0 0"; test.code != 204 {
					want = "0 0 0"
				}
			}
			expect(t, s.do(req), test.code, want, test.part)
			if test.code == 204 {
				s.expectContents(`{__name__="m"} 0 1`)
			} else {
				s.expectContents()
			}
		})
	}
}

// TestChecksInOrder sends what is wrong in several ways.
func TestChecksInOrder(t *testing.T) {
	s := newServer(t, nil)
	corrupt := []byte("no snappy")
	send := func(encoding, typ string) response {
		req, _ := http.NewRequest(http.MethodPost, s.url, bytes.NewReader(corrupt))
		req.Header.Set("Content-Encoding", encoding)
		req.Header.Set("Content-Type", typ)
		return s.do(req)
	}
	expect(t, send("snappy", "application/json"), 415, none, "Content-Type")
	expect(t, send("gzip", "application/json"), 415, none, "Content-Encoding")
	expect(t, send("gzip", typeV2), 415, "0 0 0", "Content-Encoding")
	expect(t, send("snappy", typeV2), 400, "0 0 0", "no snappy block")
	expect(t, send("snappy", typeV1), 400, none, "no snappy block")
	req, _ := http.NewRequest(http.MethodPut, s.url, bytes.NewReader(corrupt))
	req.Header.Set("Content-Type", "application/json")
	if r := s.do(req); r.code != 405 {
		t.Errorf("a wrong method with everything else wrong: got %d, want 405", r.code)
	}
}

func TestBodies(t *testing.T) {
	good := encode(t, request1(series1("m", 0, 1)))
	var framed bytes.Buffer
	w := snappy.NewBufferedWriter(&framed)
	_, _ = w.Write(good)
	_ = w.Close()
	raw, _ := snappy.Decode(nil, good)
	tests := []struct {
		name string
		body []byte
		code int
		part string
	}{
		{"good", good, 204, ""},
		{"an empty message", []byte{0}, 204, ""},
		{"nothing", nil, 400, "the body is empty"},
		{"framed", framed.Bytes(), 400, "framing format"},
		{"zstd", []byte("\x28\xb5\x2f\xfd\x00\x00\x00"), 400, "zstd"},
		{"raw protobuf", raw, 400, "no snappy block"},
		{"garbage behind", append(good[:len(good):len(good)], 1), 400, "no snappy block"},
		{"cut", good[:len(good)-1], 400, "no snappy block"},
		{"a malformed message", snappy.Encode(nil, []byte{0x0a, 5, 1}), 400, "malformed protobuf: prometheus.WriteRequest, field 1 (timeseries) at byte 0"},
	}
	s := newServer(t, nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, s.post(typeV1, test.body), test.code, none, test.part)
			if test.body == nil || test.code == 204 && len(test.body) > 1 {
				return
			}
			want := "0 0 0"
			expect(t, s.post(typeV2, test.body), test.code, want)
		})
	}
	s.expectContents(`{__name__="m"} 0 1`)
	req, _ := http.NewRequest(http.MethodPost, s.url+"?get_vm_proto_version=1", nil)
	expect(t, s.do(req), 400, none)
}

func TestSizeLimits(t *testing.T) {
	s := newServer(t, func(_ *head.Options, o *receiver.Options) { o.BodyBytes, o.DecodedBytes = 1000, 5000 })
	pad := func(n int, b byte) []byte { // a body of that many bytes, in an unknown field
		field := append([]byte{0x7a}, binaryLen(n)...)
		for i := range n {
			field = append(field, b*byte(i*i%251))
		}
		return snappy.Encode(nil, field)
	}
	expect(t, s.post(typeV1, pad(4900, 0)), 204, none)
	expect(t, s.post(typeV2, pad(5000, 0)), 400, "0 0 0", "decoded body is too large", "--limits.decoded")
	large := make([]byte, 1001)
	expect(t, s.post(typeV1, large), 400, none, "compressed body is too large: got 1001 bytes, want at most 1000", "--limits.body")
	// Without a length, and far too large.
	req, _ := http.NewRequest(http.MethodPost, s.url, io.MultiReader(bytes.NewReader(large), strings.NewReader(strings.Repeat("x", 1<<20))))
	expect(t, s.do(req), 400, none, "compressed body is too large: got more")
	req, _ = http.NewRequest(http.MethodPost, s.url, io.MultiReader(bytes.NewReader(encode(t, request1(series1("m", 0, 1))))))
	expect(t, s.do(req), 204, none)
	s.expectContents(`{__name__="m"} 0 1`)
}

func binaryLen(n int) []byte {
	var out []byte
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// TestLyingLength speaks HTTP by hand: a length that is too long, from a sender
// that then closes its side, and one that is too short.
func TestLyingLength(t *testing.T) {
	s := newServer(t, nil)
	body := encode(t, request1(series1("m", 0, 1)))
	for _, test := range []struct {
		length int
		want   string
	}{{len(body) + 1, "HTTP/1.1 400"}, {len(body) - 1, "HTTP/1.1 400"}, {len(body), "HTTP/1.1 204"}} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		req := "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " + itoa(test.length) + "\r\n\r\n"
		if _, err := conn.Write(append([]byte(req), body...)); err != nil {
			t.Fatal(err)
		}
		if test.length > len(body) { // of a whole request it would end the wait for an answer
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		got, err := io.ReadAll(conn)
		_ = conn.Close()
		if err != nil || !strings.HasPrefix(string(got), test.want) {
			t.Errorf("length %d for %d bytes: got %q, %v, want %s", test.length, len(body), got, err, test.want)
		}
	}
	s.expectContents(`{__name__="m"} 0 1`)
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// slowBody gives nothing until it is released.
type slowBody struct {
	started chan struct{}
	release chan struct{}
	once    sync.Once
	rest    io.Reader
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.once.Do(func() { close(b.started) })
	<-b.release
	return b.rest.Read(p)
}

func TestInFlightLimit(t *testing.T) {
	s := newServer(t, func(_ *head.Options, o *receiver.Options) { o.InFlight = 2 })
	body := encode(t, request1(series1("slow", 0, 1)))
	release := make(chan struct{})
	var wg sync.WaitGroup
	codes := make([]int, 2)
	for i := range codes {
		slow := &slowBody{started: make(chan struct{}), release: release, rest: bytes.NewReader(body)}
		wg.Go(func() {
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", slow))
			codes[i] = w.Code
		})
		<-slow.started
	}
	r := s.write2(new2().sample("fast", 0, 1).request())
	expect(t, r, 503, "0 0 0", "in flight")
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: got %q, want 1", r.header.Get("Retry-After"))
	}
	if n := s.metric("rwsink_write_requests_in_flight", nil); n != 2 {
		t.Errorf("in flight: got %v, want 2", n)
	}
	close(release)
	wg.Wait()
	if codes[0] != 204 || codes[1] != 204 {
		t.Errorf("the slow ones: got %v, want 204", codes)
	}
	s.expectContents(`{__name__="slow"} 0 1`)
	expect(t, s.write2(new2().sample("fast", 0, 1).request()), 204, "1 0 0")
	if n := s.metric("rwsink_write_requests_total", map[string]string{"version": "2.0", "code": "503"}); n != 1 {
		t.Errorf("requests answered 503: got %v, want 1", n)
	}
}

func TestUnavailable(t *testing.T) {
	s := newServer(t, nil)
	s.head.Close()
	for range 2 {
		r := s.write2(new2().sample("m", 0, 1).request())
		expect(t, r, 503, "0 0 0", "closed")
		if r.header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
	}
	expect(t, s.write1(request1(series1("m", 0, 1))), 503, none)
}

func TestReplaying(t *testing.T) {
	h, err := head.New(head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	receiver.New(receiver.Options{Head: h}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte{0})))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q, want 503 and a time", w.Code, w.Header().Get("Retry-After"))
	}
}

// TestSuspectClock starts again with a clock that is an hour behind what is stored.
func TestSuspectClock(t *testing.T) {
	dir := t.TempDir()
	with := func(t *testing.T, clock time.Time) *server {
		return newServer(t, func(o *head.Options, _ *receiver.Options) {
			log, err := wal.Open(wal.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = log.Close() })
			o.Log, o.Accept.Now = log, func() time.Time { return clock }
		})
	}
	t.Run("before", func(t *testing.T) {
		expect(t, with(t, now).write2(new2().sample("m", 0, 1).request()), 204, "1 0 0")
	})
	t.Run("after", func(t *testing.T) {
		s := with(t, now.Add(-time.Hour))
		r := s.write2(new2().sample("n", -4000_000, 1).sample("m", 1, 1).request())
		expect(t, r, 503, "0 0 0", "clock is suspect")
		if r.header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
		expect(t, s.write2(new2().sample("n", -4000_000, 1).request()), 204, "1 0 0")
		s.expectContents(`{__name__="m"} 0 1`, `{__name__="n"} -4000000 1`)
	})
}

// TestRefusedStatus is the operator's switch for senders that repeat 400 for ever.
func TestRefusedStatus(t *testing.T) {
	s := newServer(t, func(_ *head.Options, o *receiver.Options) { o.RefusedStatus = 204 })
	expect(t, s.write1(request1(series1("m", 0, 1), series1("old", -1000*3600*24*365, 1))), 204, none)
	r := s.write2(new2().sample("n", 0, 1).sample("old", -1000*3600*24*365, 1).request())
	expect(t, r, 204, "1 0 0")
	s.expectContents(`{__name__="m"} 0 1`, `{__name__="n"} 0 1`)
	if n := s.metric("rwsink_write_refused_total", map[string]string{"item": "samples", "reason": head.ReasonTooOld}); n != 2 {
		t.Errorf("refused samples: got %v, want 2", n)
	}
	if n := s.metric("rwsink_write_refused_requests_answered_ok_total", nil); n != 2 {
		t.Errorf("requests forgiven: got %v, want 2", n)
	}
	// What cannot be decoded is no refusal.
	expect(t, s.post(typeV2, snappy.Encode(nil, []byte{0xff})), 400, "0 0 0")
}

func TestConnectionSurvives(t *testing.T) {
	s := newServer(t, nil)
	for range 3 {
		for _, body := range [][]byte{nil, {0xff}, []byte("garbage"), snappy.Encode(nil, []byte{0x0a, 0xff}), make([]byte, 40<<20)} {
			if r := s.post(typeV1, body); r.code != 400 {
				t.Fatalf("%d bytes: got %d", len(body), r.code)
			}
		}
		if r := s.write1(&prompb.WriteRequest{}); r.code != 204 {
			t.Fatalf("after bad ones: got %d", r.code)
		}
	}
}
