package query

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"unicode/utf8"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// FuzzHandler sends any body: the answer is 400 with a text, or a reply that is
// sound in form. in is the body itself, or a message to be compressed.
func FuzzHandler(f *testing.F) {
	r := newRig(f, Options{ExternalLabels: labels.FromStrings("region", "foo"), SampleLimit: 5000})
	rng := rand.New(rand.NewPCG(9, 9))
	for _, a := range randAnswers(rng, longAgo, 5, 100) {
		r.write(f, a.labels, a.points...)
	}
	h := r.srv.Config.Handler
	for _, modes := range [][]prompb.ReadRequest_ResponseType{nil, {1}, {1, 0}, {99}} {
		for _, ms := range [][]*prompb.LabelMatcher{
			nil,
			{eq("__name__", "m")},
			{{Type: prompb.LabelMatcher_RE, Name: "i", Value: "00[1-3]"}, {Type: prompb.LabelMatcher_NRE, Name: "region", Value: "x|"}},
		} {
			raw, err := (&prompb.ReadRequest{AcceptedResponseTypes: modes, Queries: []*prompb.Query{
				{StartTimestampMs: -1, EndTimestampMs: 1 << 60, Matchers: ms},
				{StartTimestampMs: 1_700_000_100_000, EndTimestampMs: 1_700_000_200_000, Matchers: ms, Hints: &prompb.ReadHints{Func: "series"}},
			}}).Marshal()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw, true)
			f.Add(snappy.Encode(nil, raw), false)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, compress bool) {
		if compress {
			in = snappy.Encode(nil, in)
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(in)))
		switch rec.Code {
		case http.StatusBadRequest:
			if rec.Body.Len() == 0 || !utf8.Valid(rec.Body.Bytes()) {
				t.Errorf("text %q", rec.Body)
			}
		case http.StatusOK:
			req, err := decodeRequest(in)
			if err != nil {
				t.Fatal(err)
			}
			decodeReply(t, rec.Result(), rec.Body.Bytes(), len(req.queries))
		default:
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
		if s := r.log.String(); s != "" {
			t.Errorf("log: %s", s)
		}
	})
}
