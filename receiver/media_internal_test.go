package receiver

import (
	"net/http"
	"strings"
	"testing"
)

func TestContentTypes(t *testing.T) {
	const two = "io.prometheus.write.v2.Request"
	tests := []struct {
		values []string
		want   version
	}{
		{nil, version1},
		{[]string{""}, version1},
		{[]string{" "}, version1},
		{[]string{"application/x-protobuf"}, version1},
		{[]string{"Application/X-Protobuf"}, version1},
		{[]string{" application/x-protobuf "}, version1},
		{[]string{"application/x-protobuf;"}, version1},
		{[]string{"application/x-protobuf; charset=utf-8"}, version1},
		{[]string{"application/x-protobuf;proto=prometheus.WriteRequest"}, version1},
		{[]string{"application/x-protobuf;proto=" + two}, version2},
		{[]string{"application/x-protobuf; proto=" + two}, version2},
		{[]string{"application/x-protobuf ; proto=" + two}, version2},
		{[]string{"application/x-protobuf;\tproto=" + two}, version2},
		{[]string{"application/x-protobuf; proto=\"" + two + "\""}, version2},
		{[]string{"APPLICATION/X-PROTOBUF; PROTO=" + two}, version2},
		{[]string{"application/x-protobuf; charset=utf-8; proto=" + two}, version2},
		{[]string{"application/x-protobuf;proto=" + strings.ToUpper(two)}, versionNone},
		{[]string{"application/x-protobuf;proto=" + two + ";proto=prometheus.WriteRequest"}, versionNone},
		{[]string{"application/x-protobuf;proto=io.prometheus.write.v3.Request"}, versionNone},
		{[]string{"application/x-protobuf;proto="}, versionNone},
		{[]string{"application/x-protobuf;proto"}, versionNone},
		{[]string{"application/x-protobuf;charset"}, versionNone},
		{[]string{"application/vnd.google.protobuf"}, versionNone},
		{[]string{"application/json"}, versionNone},
		{[]string{"text/plain; charset=utf-8"}, versionNone},
		{[]string{"x-protobuf"}, versionNone},
		{[]string{"/"}, versionNone},
		{[]string{"application/x-protobuf", "application/x-protobuf;proto=" + two}, versionNone},
	}
	for _, test := range tests {
		got, err := contentVersion(test.values)
		if got != test.want || (err != nil) != (test.want == versionNone) {
			t.Errorf("%q: got version %v, %v, want %v", test.values, got, err, test.want)
		}
		if err != nil && (status(err, 400) != 415 || !strings.Contains(err.Error(), mediaType+";proto="+two)) {
			t.Errorf("%q: got status %d and %q, want 415 and what is accepted", test.values, status(err, 400), err)
		}
	}
}

func TestContentEncodings(t *testing.T) {
	for _, good := range [][]string{nil, {""}, {"snappy"}, {"Snappy"}, {"SNAPPY"}, {" snappy "}} {
		if err := checkEncoding(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range [][]string{{"gzip"}, {"deflate"}, {"zstd"}, {"identity"}, {"x-snappy-framed"}, {"snappy, snappy"}, {"snappy", "gzip"}, {"snapp"}} {
		if err := checkEncoding(bad); err == nil || status(err, 400) != 415 || !strings.Contains(err.Error(), "only snappy") {
			t.Errorf("%q: got %v, want 415", bad, err)
		}
	}
}

// TestEncodingIsJudgedFirst also expects the version to be known for the headers
// of the answer.
func TestEncodingIsJudgedFirst(t *testing.T) {
	h := http.Header{"Content-Encoding": {"zstd"}, "Content-Type": {"application/json"}}
	if v, err := negotiate(h); v != versionNone || err == nil || !strings.Contains(err.Error(), "zstd") {
		t.Errorf("got %v, %v", v, err)
	}
	h.Set("Content-Type", "application/x-protobuf;proto="+msgRequest2)
	if v, err := negotiate(h); v != version2 || err == nil || !strings.Contains(err.Error(), "zstd") {
		t.Errorf("got %v, %v", v, err)
	}
}
