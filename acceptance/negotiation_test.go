package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// answers sends a request that holds e and expects a status; it notes e where that is 204.
func (s *server) answers(t *testing.T, m *model, r request, status int, e entry) answer {
	t.Helper()
	a := s.survives(t, m, r)
	a.is(t, status)
	if a.status == http.StatusNoContent && status == http.StatusNoContent {
		m.write(e)
	}
	return a
}

// The media type is read as HTTP means it: case, spaces, quotes and other parameters
// do not matter, what is unknown is 415, and nothing is a version 1.0.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	const proto2 = "io.prometheus.write.v2.Request"
	for i, tc := range []struct {
		contentType string
		v           version // 0: 415
	}{
		{"", v1}, {"application/x-protobuf", v1}, {"application/x-protobuf;proto=prometheus.WriteRequest", v1}, {"application/x-protobuf; proto=prometheus.WriteRequest", v1},
		{"Application/X-Protobuf", v1}, {"APPLICATION/X-PROTOBUF", v1}, {"application/x-protobuf; charset=utf-8", v1}, {"application/x-protobuf;charset=utf-8", v1},
		{`application/x-protobuf;proto="prometheus.WriteRequest"`, v1}, {" application/x-protobuf ", v1}, {"application/x-protobuf ; proto=prometheus.WriteRequest", v1},
		{"application/x-protobuf;proto=" + proto2, v2}, {"application/x-protobuf; proto=" + proto2, v2}, {"application/x-protobuf;  proto=" + proto2, v2},
		{`application/x-protobuf;proto="` + proto2 + `"`, v2}, {"Application/X-Protobuf;Proto=" + proto2, v2}, {"application/x-protobuf;proto=" + proto2 + ";charset=utf-8", v2},
		{"application/x-protobuf;charset=utf-8; proto=" + proto2, v2}, {"application/x-protobuf;\tproto=" + proto2, v2},
		{"application/x-protobuf;proto=unknown.Message", 0}, {"application/x-protobuf;proto=", 0}, {"application/x-protobuf;proto", 0}, {"application/json", 0}, {"text/plain; charset=utf-8", 0},
		{"application/x-www-form-urlencoded", 0}, {"application/x-protobuf2", 0}, {"x-protobuf", 0}, {"/", 0}, {";", 0}, {"application/", 0}, {"\"", 0}, {"application/x-protobuf, application/json", 0},
		{"application/x-protobuf;proto=" + proto2 + ";proto=prometheus.WriteRequest", 0}, {"application/x-protobuf;proto=\"", 0},
	} {
		t.Run(tc.contentType, func(t *testing.T) {
			e := series("type", "i", fmt.Sprint(i)).at(n, float64(i))
			v, status := tc.v, http.StatusNoContent
			if v == 0 {
				v, status = v2, http.StatusUnsupportedMediaType
			}
			r := packed(v, encode(v, e)).with("Content-Type", tc.contentType)
			a := s.answers(t, m, r, status, e)
			if tc.v == v1 && a.written != [3]int{-1, -1, -1} {
				t.Errorf("1.0 was answered with %v", a.written)
			}
			if status == http.StatusUnsupportedMediaType {
				a.names(t, "application/x-protobuf")
				// The type is checked before the body is looked at.
				bad := r
				bad.body = []byte("no snappy at all")
				s.survives(t, m, bad).is(t, http.StatusUnsupportedMediaType)
			}
			if tc.v == v2 {
				a.wrote(t, v2, 1, 0, 0)
			}
		})
	}
	// What senders of metrics long ago used: taken as 1.0 or refused as unknown.
	e := series("type", "i", "vnd").at(n, 1)
	a := s.survives(t, m, packed(v1, encode(v1, e)).with("Content-Type", "application/vnd.google.protobuf"))
	if a.status == http.StatusNoContent {
		m.write(e)
	} else {
		a.is(t, http.StatusUnsupportedMediaType)
	}
	s.readBack(t, m)
}

// The version header is no more than a hint, and other headers mean nothing.
func TestHeadersThatMeanNothing(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	both(t, func(t *testing.T, v version) {
		i := int64(0)
		for name, values := range map[string][]string{
			"X-Prometheus-Remote-Write-Version": {"", "0.1.0", "0.1.2", "2.0.0", "1.0.0", "9", "nonsense", strings.Repeat("9", 1000)},
			"User-Agent":                        {"", "Prometheus/", "vmagent", "é"},
			"Retry-Attempt":                     {"1", "-1", "x"},
			"X-Scope-OrgID":                     {"tenant"},
			"Accept-Encoding":                   {"gzip", "zstd", "identity;q=0"},
			"Accept":                            {"text/html"},
			"Expect":                            {"100-continue"},
			"Authorization":                     {"Bearer x"},
		} {
			for _, value := range values {
				i++
				e := series("header", "v", v.String()).at(n+i, float64(i))
				a := s.answers(t, m, packed(v, encode(v, e)).with(name, value), http.StatusNoContent, e)
				a.wrote(t, v, 1, 0, 0)
			}
		}
	})
	s.readBack(t, m)
}

// The encoding is snappy's block format, named in any case or not at all; another
// one is 415, and a body that is not what it says is 400.
func TestContentEncodings(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T, v version) {
		e := series("encoding", "v", v.String()).at(n, 1)
		raw := encode(v, e)
		block := snappy.Encode(nil, raw)
		zst := enc.EncodeAll(raw, nil)
		var framed, zipped strings.Builder
		fw := snappy.NewBufferedWriter(&framed)
		gw := gzip.NewWriter(&zipped)
		for _, w := range []interface {
			Write([]byte) (int, error)
			Close() error
		}{fw, gw} {
			if _, err := w.Write(raw); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, tc := range []struct {
			name, encoding string
			body           []byte
			status         int
		}{
			{"snappy", "snappy", block, 204}, {"none named", "", block, 204}, {"Snappy", "Snappy", block, 204}, {"SNAPPY", "SNAPPY", block, 204}, {"spaces", " snappy ", block, 204},
			{"zstd", "zstd", zst, 415}, {"gzip", "gzip", []byte(zipped.String()), 415}, {"deflate", "deflate", block, 415}, {"identity", "identity", raw, 415}, {"br", "br", block, 415},
			{"two", "snappy, gzip", block, 415}, {"unknown", "snappyx", block, 415}, {"x-snappy-framed", "x-snappy-framed", []byte(framed.String()), 415},
			{"zstd named snappy", "snappy", zst, 400}, {"gzip named snappy", "snappy", []byte(zipped.String()), 400}, {"framed", "snappy", []byte(framed.String()), 400},
			{"raw", "snappy", raw, 400}, {"raw, none named", "", raw, 400}, {"nothing", "snappy", nil, 400}, {"nothing, none named", "", nil, 400},
			{"garbage behind", "snappy", append(block[:len(block):len(block)], "garbage"...), 400}, {"one byte behind", "snappy", append(block[:len(block):len(block)], 0), 400},
			{"cut by one", "snappy", block[:len(block)-1], 400}, {"only the length", "snappy", block[:1], 400}, {"twice", "snappy", append(block[:len(block):len(block)], block...), 400},
			{"length 0 and more", "snappy", append([]byte{0}, block...), 400}, {"empty message", "snappy", []byte{0}, 204},
		} {
			t.Run(tc.name, func(t *testing.T) {
				r := request{v: v, body: tc.body}.with("Content-Encoding", tc.encoding)
				note := e
				if tc.name == "empty message" {
					note = entry{}
				}
				a := s.answers(t, m, r, tc.status, note)
				if tc.status != http.StatusNoContent || tc.name == "empty message" {
					if tc.status != http.StatusUnsupportedMediaType {
						a.wrote(t, v, 0, 0, 0)
					}
				}
				if tc.status == http.StatusUnsupportedMediaType && (a.written[0] > 0 || a.written[1] > 0 || a.written[2] > 0) {
					t.Errorf("415 claims %v", a.written)
				}
			})
		}
		// A forwarder's probe and its like.
		for _, path := range []string{"/api/v1/write?get_vm_proto_version=1", "/api/v1/write?extra_label=a%3Db"} {
			r := packed(v, raw)
			r.path = path
			s.answers(t, m, r, http.StatusNoContent, e)
			r.body = nil
			if a := s.survives(t, m, r); a.body == "1" {
				t.Error("the probe was told that another protocol is spoken")
			}
		}
		for _, method := range []string{"GET", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS"} {
			r := packed(v, raw)
			r.method = method
			a, err := s.try(s.client, r)
			if err != nil {
				t.Fatal(err)
			}
			if a.status != http.StatusMethodNotAllowed && !(method == "OPTIONS" && a.status < 300) {
				t.Errorf("%s: %v", method, a)
			}
		}
	})
	s.readBack(t, m)
}

// A body of the other version is refused: it would decode to nothing.
func TestBodiesOfTheOtherVersion(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	e := series("other_version", "a", "b").at(n, 1).hist(n+1, intHistogram(1)).exemplar(n, 1, "trace_id", "x")
	e.meta = &meta{typ: 1, help: "words"}
	for name, tc := range map[string]struct {
		v    version
		body []byte
	}{
		"1.0 as 2.0":             {v2, encode(v1, e)},
		"2.0 as 1.0":             {v1, encode(v2, e)},
		"metadata only as 2.0":   {v2, wireBytes(3, wireVarint(1, 1), wireString(2, "m"))},
		"source field as 2.0":    {v2, wireVarint(2, 1)},
		"symbols only as 1.0":    {v1, wireSymbols("", "a")},
		"1.0 then 2.0, as 1.0":   {v1, cat(encode(v1, e), encode(v2, e))},
		"1.0 then 2.0, as 2.0":   {v2, cat(encode(v1, e), encode(v2, e))},
		"2.0 then 1.0, as 1.0":   {v1, cat(encode(v2, e), encode(v1, e))},
		"2.0 then 1.0, as 2.0":   {v2, cat(encode(v2, e), encode(v1, e))},
		"empty series as 2.0":    {v2, wireBytes(1)},
		"empty symbol as 1.0":    {v1, wireString(4, "")},
		"empty series 5, as 1.0": {v1, wireBytes(5)},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.survives(t, m, packed(tc.v, tc.body))
			a.is(t, http.StatusBadRequest).wrote(t, tc.v, 0, 0, 0)
		})
	}
	s.readBack(t, m)
	// The same request in its own version is fine, and in both it says the same.
	s.store(t, m, v1, e)
	s.store(t, m, v2, e)
	s.readBack(t, m)
}

// Requests put one behind the other in one body are one request in 1.0.
func TestConcatenatedRequests(t *testing.T) {
	t.Parallel()
	s, m := start(t), newModel()
	n := nowMs() - hour
	var body []byte
	for i := range int64(20) {
		e := series("joined", "i", fmt.Sprint(i%3)).at(n+i, float64(i))
		e.meta = &meta{typ: 1, help: "words"}
		body = append(body, encode(v1, e)...)
		m.write(e)
	}
	s.send(t, packed(v1, body)).is(t, http.StatusNoContent)
	// 2.0: the tables are joined too, so the second request names what stands in the first.
	body = cat(wireSymbols("", "__name__", "first"), wireBytes(5, wireRefs(1, 2), wireSample(n, 1)), wireSymbols("second"), wireBytes(5, wireRefs(1, 3), wireSample(n, 2)))
	s.send(t, packed(v2, body)).is(t, http.StatusNoContent).wrote(t, v2, 2, 0, 0)
	m.write(series("first").at(n, 1), series("second").at(n, 2))
	s.readBack(t, m)
}
