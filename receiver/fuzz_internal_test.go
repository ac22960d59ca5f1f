package receiver

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"unicode/utf8"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
)

// post hands a body to the handler.
func post(handler http.Handler, body []byte, v version) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(body))
	r.Header.Set("Content-Encoding", "snappy")
	if v == version2 {
		r.Header.Set("Content-Type", mediaType+";proto="+msgRequest2)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func serve(handler http.Handler, body []byte, v version) int { return post(handler, body, v).Code }

// checkAnswer posts a message and expects an honest answer: 204 with everything
// counted, or 400 with a text; never more than there was.
func checkAnswer(t *testing.T, handler http.Handler, raw []byte, two bool) {
	t.Helper()
	v, has := version1, [3]int{}
	if two {
		v = version2
	}
	w := post(handler, snappy.Encode(nil, raw), v)
	body := w.Body.String()
	if w.Code != 204 && w.Code != 400 || (w.Code == 204) != (body == "") || !utf8.ValidString(body) {
		t.Fatalf("body %x: got %d %q", raw, w.Code, body)
	}
	if !two {
		return
	}
	if req := new(writev2.Request); req.Unmarshal(raw) == nil {
		for _, ts := range req.Timeseries {
			has[0] += len(ts.Samples)
			has[1] += len(ts.Histograms)
			has[2] += len(ts.Exemplars)
		}
	} else if w.Code == 204 {
		t.Fatalf("body %x is malformed: got 204", raw)
	}
	for i, name := range []string{headerSamples, headerHistograms, headerExemplars} {
		n, err := strconv.Atoi(w.Header().Get(name))
		if err != nil || n < 0 || n > has[i] || w.Code == 204 && n != has[i] {
			t.Fatalf("body %x: got %d with %s %q of %d", raw, w.Code, name, w.Header().Get(name), has[i])
		}
	}
}

func TestAnswersAreHonest(t *testing.T) {
	r := newRand(t, 61)
	handler := New(Options{Head: newHead(t)})
	for range 400 {
		one, two := mustMarshal(randRequest1(r)), mustMarshal(randRequest2(r))
		checkAnswer(t, handler, one, false)
		checkAnswer(t, handler, mutate(r, one), false)
		checkAnswer(t, handler, two, true)
		checkAnswer(t, handler, mutate(r, two), true)
	}
}

func FuzzHandler(f *testing.F) {
	r := newRand(f, 62)
	f.Add(mustMarshal(&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{Labels: []prompb.Label{{Name: "__name__", Value: "m"}}, Samples: []prompb.Sample{{Timestamp: 1}}}}}), false)
	for range 4 {
		f.Add(mustMarshal(randRequest1(r)), false)
		f.Add(mustMarshal(randRequest2(r)), true)
	}
	handler := New(Options{Head: newHead(f)})
	f.Fuzz(func(t *testing.T, raw []byte, two bool) {
		checkAnswer(t, handler, raw, two)
		// The same bytes as a compressed body.
		if code := serve(handler, raw, version1); code != 204 && code != 400 {
			t.Fatalf("compressed body %x: got %d", raw, code)
		}
	})
}
