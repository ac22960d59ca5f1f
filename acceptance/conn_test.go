package acceptance

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// dial opens a connection to the server with a deadline that no test should meet.
func (s *server) dial(t testing.TB) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// head returns the first lines of a write request of a version.
func head(v version, more string) string {
	return fmt.Sprintf("POST /api/v1/write HTTP/1.1\r\nHost: rwsink\r\nContent-Type: %s\r\nContent-Encoding: snappy\r\n%s\r\n", v.contentType(), more)
}

// reply reads one answer from a connection.
func reply(t testing.TB, c net.Conn) (status int, body string, err error) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// A sender may be slow, close its side, or send its body in pieces: what is whole is
// stored, what is not is not.
func TestOddConnections(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		body := func(name string) (entry, []byte) {
			e := series("conn", "v", v.String(), "n", name).at(n, 1)
			return e, packed(v, encode(v, e)).body
		}
		var pending sync.WaitGroup
		defer pending.Wait()
		try := func(name string, whole bool, send func(c *net.TCPConn, b []byte)) {
			e, b := body(name)
			if whole {
				m.write(e)
			}
			pending.Go(func() {
				c := s.dial(t)
				defer c.Close()
				send(c, b)
				status, text, err := reply(t, c)
				switch {
				case whole && (err != nil || status != http.StatusNoContent):
					t.Errorf("%s: status %d %q, %v", name, status, text, err)
				case !whole && err == nil && status != http.StatusBadRequest && status != http.StatusRequestTimeout:
					t.Errorf("%s: status %d %q", name, status, text)
				}
			})
		}
		length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
		try("byte by byte", true, func(c *net.TCPConn, b []byte) {
			for _, x := range append([]byte(head(v, length(len(b)))), b...) {
				c.Write([]byte{x})
				time.Sleep(2 * time.Millisecond)
			}
		})
		try("half closed", true, func(c *net.TCPConn, b []byte) {
			fmt.Fprintf(c, "%s%s", head(v, length(len(b))), b)
			c.CloseWrite()
		})
		try("pieces", true, func(c *net.TCPConn, b []byte) {
			fmt.Fprint(c, head(v, "Transfer-Encoding: chunked\r\n"))
			for _, x := range b {
				fmt.Fprintf(c, "1\r\n%s\r\n", []byte{x})
			}
			fmt.Fprint(c, "0\r\n\r\n")
		})
		try("continue", true, func(c *net.TCPConn, b []byte) {
			fmt.Fprint(c, head(v, length(len(b))+"Expect: 100-continue\r\n"))
			r := bufio.NewReader(io.LimitReader(c, int64(len("HTTP/1.1 100 Continue\r\n\r\n"))))
			if line, _ := r.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 100") {
				t.Errorf("no 100: %q", line)
			}
			r.ReadString('\n')
			c.Write(b)
		})
		try("cut body", false, func(c *net.TCPConn, b []byte) {
			fmt.Fprintf(c, "%s%s", head(v, length(len(b)+1)), b)
			c.CloseWrite()
		})
		try("cut piece", false, func(c *net.TCPConn, b []byte) {
			fmt.Fprintf(c, "%s%x\r\n%s", head(v, "Transfer-Encoding: chunked\r\n"), len(b)+1, b)
			c.CloseWrite()
		})
		try("no last piece", false, func(c *net.TCPConn, b []byte) {
			fmt.Fprintf(c, "%s%x\r\n%s\r\n", head(v, "Transfer-Encoding: chunked\r\n"), len(b), b)
			c.CloseWrite()
		})
		try("only a head", false, func(c *net.TCPConn, b []byte) {
			fmt.Fprint(c, head(v, length(len(b))))
			c.CloseWrite()
		})
		try("bad piece", false, func(c *net.TCPConn, b []byte) {
			fmt.Fprintf(c, "%sZZ\r\n%s\r\n", head(v, "Transfer-Encoding: chunked\r\n"), b)
		})
	})
	s.readBack(t, m)
}

// A sender that breaks off leaves nothing half: all of its request is there or none.
func TestSendersThatBreakOff(t *testing.T) {
	t.Parallel()
	s := start(t)
	n := nowMs() - hour
	const width = 50
	entries := func(i int) (out []entry) {
		for k := range width {
			out = append(out, series("broken_off", "k", fmt.Sprint(k)).at(n+int64(i), float64(i)))
		}
		return out
	}
	for i := range 40 {
		b := packed(v1, encode(v1, entries(i)...)).body
		c := s.dial(t)
		part := len(b) * i / 39 // the last ones are whole
		fmt.Fprint(c, head(v1, fmt.Sprintf("Content-Length: %d\r\n", len(b))))
		c.Write(b[:part])
		if i%2 == 0 {
			if err := c.SetLinger(0); err != nil { // reset
				t.Fatal(err)
			}
		}
		c.Close()
	}
	s.restart(t)
	for _, mode := range modes {
		count := map[int64]int{}
		for _, rs := range s.readAll(t, mode) {
			for _, p := range rs.points {
				count[p.t-n]++
			}
		}
		for i, c := range count {
			if c != width {
				t.Errorf("%v: %d of the %d samples of request %d", mode, c, width, i)
			}
			if i < 39 {
				t.Errorf("%v: request %d was cut and is there", mode, i)
			}
		}
	}
}

// Requests on one connection, sent before the answers are read, are each answered in their order.
func TestPipelinedRequests(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	c := s.dial(t)
	defer c.Close()
	var out bytes.Buffer
	for i := range 40 {
		e := series("pipelined").at(n+int64(i), float64(i))
		b := packed(v2, encode(v2, e)).body
		if i%4 == 3 {
			b = []byte("nonsense")
		} else {
			m.write(e)
		}
		fmt.Fprintf(&out, "%s%s", head(v2, fmt.Sprintf("Content-Length: %d\r\n", len(b))), b)
	}
	go c.Write(out.Bytes())
	r := bufio.NewReader(c)
	for i := range 40 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if want := map[bool]int{true: http.StatusBadRequest, false: http.StatusNoContent}[i%4 == 3]; resp.StatusCode != want {
			t.Errorf("answer %d: status %d, want %d", i, resp.StatusCode, want)
		}
	}
	s.readBack(t, m)
}

// Over the limit of requests in flight the answer is 503 at once, with nothing stored;
// reads are answered, and room is made when the slow ones go.
func TestSlowSendersDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--limits.in-flight=4"), newModel()
	n := nowMs() - hour
	e := series("slow").at(n, 1)
	s.store(t, m, v1, e)
	body := packed(v1, encode(v1, e)).body
	var slow []*net.TCPConn
	for range 40 {
		c := s.dial(t)
		defer c.Close()
		fmt.Fprintf(c, "%s%s", head(v1, fmt.Sprintf("Content-Length: %d\r\n", len(body))), body[:len(body)-1])
		slow = append(slow, c)
	}
	time.Sleep(100 * time.Millisecond)
	busy := 0
	for i := range int64(20) {
		v := version(1 + i%2)
		e := series("fast").at(n+i, float64(i))
		switch a := s.post(t, v, e); a.status {
		case http.StatusNoContent:
			m.write(e)
		case http.StatusServiceUnavailable:
			busy++
		default:
			t.Errorf("%v", a)
		}
	}
	t.Logf("%d of 20 requests were told to come later", busy)
	s.holds(t, m, "while slow senders hold on")
	for i, c := range slow {
		if i%2 == 0 {
			c.Close()
			continue
		}
		c.Write(body[len(body)-1:])
		if status, text, err := reply(t, c); err != nil || status != http.StatusNoContent && status != http.StatusServiceUnavailable {
			t.Errorf("a slow one: status %d %q, %v", status, text, err)
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		a := s.post(t, v1, series("again").at(n, 1))
		if a.status == http.StatusNoContent {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still busy: %v", a)
		}
		time.Sleep(20 * time.Millisecond)
	}
	m.write(series("again").at(n, 1))
	s.readBack(t, m)
}

// A burst over the limit is answered with 204 or 503, and the two are told apart by what is there.
func TestBurstIsKeptOrRefused(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--limits.in-flight=2"), newModel()
	n := nowMs() - hour
	var mu sync.Mutex
	var wg sync.WaitGroup
	kept, refused := 0, 0
	for w := range 32 {
		wg.Go(func() {
			for i := range scaled(10, 3) {
				var entries []entry
				for k := range 200 {
					entries = append(entries, series("burst", "w", fmt.Sprint(w), "k", fmt.Sprint(k)).at(n+int64(i), float64(i)))
				}
				a := s.post(t, version(1+i%2), entries...)
				mu.Lock()
				switch a.status {
				case http.StatusNoContent:
					kept++
					m.write(entries...)
				case http.StatusServiceUnavailable:
					refused++
				default:
					t.Errorf("%v", a)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if t.Logf("%d kept, %d refused", kept, refused); kept == 0 {
		t.Error("nothing was kept")
	}
	s.readBack(t, m)
}
