package query

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

func body(t testing.TB, req *prompb.ReadRequest) []byte {
	t.Helper()
	raw, err := req.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return snappy.Encode(nil, raw)
}

func TestNegotiation(t *testing.T) {
	const S, X = prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS
	for _, tc := range []struct {
		accepted        []prompb.ReadRequest_ResponseType
		chunks, samples bool
		bad             bool
	}{
		{nil, false, true, false},
		{[]prompb.ReadRequest_ResponseType{S}, false, true, false},
		{[]prompb.ReadRequest_ResponseType{X}, true, false, false},
		{[]prompb.ReadRequest_ResponseType{X, S}, true, true, false},
		{[]prompb.ReadRequest_ResponseType{S, X}, false, true, false},
		{[]prompb.ReadRequest_ResponseType{99, X}, true, false, false},
		{[]prompb.ReadRequest_ResponseType{99, S, X}, false, true, false},
		{[]prompb.ReadRequest_ResponseType{99}, false, false, true},
		{[]prompb.ReadRequest_ResponseType{2, -1}, false, false, true},
	} {
		req, err := decodeRequest(body(t, &prompb.ReadRequest{AcceptedResponseTypes: tc.accepted}))
		if (err != nil) != tc.bad {
			t.Errorf("%v: %v", tc.accepted, err)
			continue
		}
		if err == nil && (req.chunks != tc.chunks || req.samples != tc.samples) {
			t.Errorf("%v: chunks %v, samples %v", tc.accepted, req.chunks, req.samples)
		}
	}
}

func TestAcceptedTypesNeedNotBePacked(t *testing.T) {
	for _, raw := range [][]byte{{0x10, 1, 0x10, 0}, {0x12, 2, 1, 0}} {
		req, err := decodeRequest(snappy.Encode(nil, raw))
		if err != nil || !req.chunks || !req.samples {
			t.Errorf("%x: %+v, %v", raw, req, err)
		}
	}
}

func TestDecodeRequest(t *testing.T) {
	req, err := decodeRequest(body(t, &prompb.ReadRequest{Queries: []*prompb.Query{
		{StartTimestampMs: -5, EndTimestampMs: 1 << 60, Matchers: []*prompb.LabelMatcher{
			{Type: prompb.LabelMatcher_EQ, Name: "a", Value: "1"},
			{Type: prompb.LabelMatcher_NEQ, Name: "b", Value: "2"},
			{Type: prompb.LabelMatcher_RE, Name: "c", Value: "3|4"},
			{Type: prompb.LabelMatcher_NRE, Name: "d", Value: ""},
		}},
		{Hints: &prompb.ReadHints{Func: "series"}},
		{Hints: &prompb.ReadHints{Func: "rate"}},
	}}))
	if err != nil {
		t.Fatal(err)
	}
	q := req.queries[0]
	if len(req.queries) != 3 || q.mint != -5 || q.maxt != 1<<60 || len(q.matchers) != 4 {
		t.Fatalf("got %+v", req)
	}
	for i, want := range []string{`a="1"`, `b!="2"`, `c=~"3|4"`, `d!~""`} {
		if got := q.matchers[i].String(); got != want {
			t.Errorf("matcher %d is %s, want %s", i, got, want)
		}
	}
	if q.labelsOnly || !req.queries[1].labelsOnly || req.queries[2].labelsOnly {
		t.Error("the hint func=series, and no other, asks for labels only")
	}
}

func TestBadRequests(t *testing.T) {
	matcher := func(m *prompb.LabelMatcher, n int) []byte {
		q := &prompb.Query{}
		for range n {
			q.Matchers = append(q.Matchers, m)
		}
		return body(t, &prompb.ReadRequest{Queries: []*prompb.Query{q}})
	}
	for name, tc := range map[string]struct {
		body []byte
		want string // in the text
	}{
		"empty":             {nil, "no snappy block"},
		"no snappy":         {[]byte("hello, world, this is text"), "no snappy block"},
		"cut":               {snappy.Encode(nil, make([]byte, 1000))[:5], "no snappy block"},
		"says it is large":  {[]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, "more than 4194304"},
		"is large":          {snappy.Encode(nil, make([]byte, maxDecodedBytes+1)), "more than 4194304"},
		"no protobuf":       {snappy.Encode(nil, []byte{0xff, 0xff}), "decode request"},
		"field cut":         {snappy.Encode(nil, []byte{0x0a, 0x05, 0x08}), "decode request"},
		"query cut inside":  {snappy.Encode(nil, []byte{0x0a, 0x02, 0x1a, 0x05}), "decode request"},
		"wrong wire type":   {snappy.Encode(nil, []byte{0x08, 0x01}), "decode request"},
		"group":             {snappy.Encode(nil, []byte{0x0b}), "decode request"},
		"many queries":      {snappy.Encode(nil, []byte(strings.Repeat("\x0a\x00", maxQueries+1))), "1025 queries"},
		"many matchers":     {matcher(&prompb.LabelMatcher{Name: "a", Value: "b"}, maxMatchers+1), "4097 matchers"},
		"no label name":     {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_NEQ}, 1), "no label name"},
		"unknown matcher":   {matcher(&prompb.LabelMatcher{Type: 4, Name: "who"}, 1), `"who" has the unknown type 4`},
		"bad regexp":        {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "who", Value: "a(b"}, 1), `"a(b" for label "who"`},
		"bad negative":      {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_NRE, Name: "who", Value: "*"}, 1), `"*" for label "who"`},
		"no UTF-8 regexp":   {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "\xff", Value: "\xff("}, 1), `"\xff("`},
		"a heavy regexp":    {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "a", Value: "(((a{500}){500}){500})"}, 1), "bad regular expression"},
		"long regexps":      {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "a", Value: strings.Repeat("a", maxRegexBytes/4)}, 5), "more than 524288 bytes"},
		"wide classes":      {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "a", Value: strings.Repeat(`\pL`, 2000)}, 1), "costs too much"},
		"many operators":    {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "a", Value: strings.Repeat("a?", 100_000)}, 1), "costs too much"},
		"repetitions":       {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "a", Value: "(abcdefghij){1000}"}, 100), "costs too much"},
		"long bad regexp":   {matcher(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "a", Value: strings.Repeat("(", 10_000)}, 1), "..."},
		"none is accepted":  {body(t, &prompb.ReadRequest{AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{99}}), "[99]"},
		"many not accepted": {body(t, &prompb.ReadRequest{AcceptedResponseTypes: make99(100_000)}), "response types"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeRequest(tc.body)
			var r *refusal
			if !errors.As(err, &r) {
				t.Fatalf("got %v", err)
			}
			if r.status != http.StatusBadRequest || !strings.Contains(r.text, tc.want) || !utf8.ValidString(r.text) || len(r.text) > 2000 {
				t.Errorf("status %d, %d bytes: %q; want 400 with %q", r.status, len(r.text), r.text, tc.want)
			}
		})
	}
}

// TestLongAlternationsAreFine: dashboards send the values of a variable that way.
func TestLongAlternationsAreFine(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, "|host-%05d\\.example\\.com:9100", i)
	}
	_, err := decodeRequest(body(t, &prompb.ReadRequest{Queries: []*prompb.Query{{Matchers: []*prompb.LabelMatcher{
		{Type: prompb.LabelMatcher_RE, Name: "instance", Value: b.String()[1:]},
	}}}}))
	if err != nil {
		t.Error(err)
	}
}

func make99(n int) []prompb.ReadRequest_ResponseType {
	out := make([]prompb.ReadRequest_ResponseType, n)
	for i := range out {
		out[i] = 99
	}
	return out
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte{})
	f.Add(body(f, &prompb.ReadRequest{Queries: []*prompb.Query{{
		StartTimestampMs: 1, EndTimestampMs: 2, Hints: &prompb.ReadHints{Func: "series"},
		Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_NRE, Name: "a", Value: "b.*|c"}},
	}}, AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{1, 0}}))
	f.Add(snappy.Encode(nil, []byte{0x0a, 0x02, 0x1a, 0x00, 0x12, 0x01, 0x63}))
	external := NewExternal(labels.FromStrings("a", "x", "region", "foo"))
	f.Fuzz(func(t *testing.T, in []byte) {
		req, err := decodeRequest(in)
		if err != nil {
			var r *refusal
			if !errors.As(err, &r) || !utf8.ValidString(r.text) {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, q := range req.queries {
			selector, _, err := external.Selector(q.matchers)
			if err != nil || len(q.matchers) > 0 != (len(selector) > 0) {
				t.Fatalf("%v becomes %v, %v", q.matchers, selector, err)
			}
		}
	})
}
