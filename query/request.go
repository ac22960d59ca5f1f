package query

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/protobuf/encoding/protowire"
)

// What one request may hold. Requests are small; what they make the decoder and
// the regular expressions allocate is many times their size.
const (
	maxBodyBytes    = 1 << 20 // of the compressed body
	maxDecodedBytes = 4 << 20 // of the message in it
	maxQueries      = 1024
	maxMatchers     = 4096 // over all queries

	// bodyTimeout bounds how long a request may take to arrive, since it holds a place.
	bodyTimeout = 30 * time.Second
)

// refusal is a read that gets an answer other than its data.
type refusal struct {
	status int
	reason string // label of rwsink_read_refused_total
	text   string // valid UTF-8
}

func (r *refusal) Error() string { return r.text }

func badRequest(format string, args ...any) *refusal {
	text := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	return &refusal{http.StatusBadRequest, "bad_request", "remote read: " + text}
}

// request is a decoded ReadRequest.
type request struct {
	queries []query
	chunks  bool // answer STREAMED_XOR_CHUNKS
	samples bool // SAMPLES is understood by the client too
}

// query asks for the samples of matching series in [mint, maxt], both ends included.
type query struct {
	mint, maxt int64 // Unix milliseconds
	matchers   []*labels.Matcher
	labelsOnly bool // the hint says that labels alone are needed
}

// readBody reads the body of r, whose Content-Type is not looked at: clients send
// all sorts. A *refusal says that it is too large; another error means that it
// did not arrive.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // a writer without deadlines goes without
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	_ = rc.SetReadDeadline(time.Time{})
	if tooBig := new(http.MaxBytesError); errors.As(err, &tooBig) {
		return nil, badRequest("body is larger than %d bytes", tooBig.Limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return body, nil
}

// decodeRequest decodes a body: one snappy block that holds a ReadRequest.
func decodeRequest(body []byte) (*request, error) {
	n, err := snappy.DecodedLen(body)
	if err != nil {
		return nil, badRequest("body is no snappy block: %v", err)
	}
	if n > maxDecodedBytes {
		return nil, badRequest("decoded body has %d bytes, more than %d", n, maxDecodedBytes)
	}
	raw, err := snappy.Decode(nil, body)
	if err != nil {
		return nil, badRequest("body is no snappy block: %v", err)
	}
	if err := checkCounts(raw); err != nil {
		return nil, err
	}
	var msg prompb.ReadRequest
	if err := msg.Unmarshal(raw); err != nil {
		return nil, badRequest("decode request: %v", err)
	}
	req := &request{}
	if err := req.negotiate(msg.AcceptedResponseTypes); err != nil {
		return nil, err
	}
	budget := &regexBudget{bytes: maxRegexBytes, units: maxRegexUnits}
	for i, q := range msg.Queries {
		ms, err := decodeMatchers(q.Matchers, budget)
		if err != nil {
			return nil, badRequest("query %d: %v", i, err)
		}
		req.queries = append(req.queries, query{
			mint:       q.StartTimestampMs,
			maxt:       q.EndTimestampMs,
			matchers:   ms,
			labelsOnly: q.Hints != nil && q.Hints.Func == "series",
		})
	}
	return req, nil
}

// checkCounts bounds queries and matchers before anything is allocated for them.
func checkCounts(raw []byte) error {
	queries, matchers := 0, 0
	err := eachMessage(raw, 1, func(q []byte) error {
		queries++
		return eachMessage(q, 3, func([]byte) error { matchers++; return nil })
	})
	switch {
	case err != nil:
		return badRequest("decode request: %v", err)
	case queries > maxQueries:
		return badRequest("%d queries, more than %d", queries, maxQueries)
	case matchers > maxMatchers:
		return badRequest("%d matchers, more than %d", matchers, maxMatchers)
	}
	return nil
}

// eachMessage calls f with each length-delimited field of that number in msg.
func eachMessage(msg []byte, field protowire.Number, f func([]byte) error) error {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return protowire.ParseError(n)
		}
		msg = msg[n:]
		if num == field && typ == protowire.BytesType {
			v, n := protowire.ConsumeBytes(msg)
			if n < 0 {
				return protowire.ParseError(n)
			}
			if err := f(v); err != nil {
				return err
			}
			msg = msg[n:]
			continue
		}
		n = protowire.ConsumeFieldValue(num, typ, msg)
		if n < 0 {
			return protowire.ParseError(n)
		}
		msg = msg[n:]
	}
	return nil
}

// negotiate picks the first response type of the client's list that is known
// here; an empty list means SAMPLES.
func (r *request) negotiate(accepted []prompb.ReadRequest_ResponseType) error {
	picked := len(accepted) == 0
	r.samples = picked
	for _, t := range accepted {
		switch t {
		case prompb.ReadRequest_SAMPLES:
			r.samples = true
		case prompb.ReadRequest_STREAMED_XOR_CHUNKS:
			r.chunks = r.chunks || !picked
		default:
			continue
		}
		picked = true
	}
	if !picked {
		return badRequest("none of the accepted response types %v is known: "+
			"want SAMPLES (0) or STREAMED_XOR_CHUNKS (1)", accepted[:min(len(accepted), 10)])
	}
	return nil
}

// decodeMatchers builds matchers with Prometheus's semantics: regular
// expressions are anchored, a missing label is an empty one.
func decodeMatchers(in []*prompb.LabelMatcher, budget *regexBudget) ([]*labels.Matcher, error) {
	out := make([]*labels.Matcher, len(in))
	for i, m := range in {
		if m.Name == "" {
			return nil, fmt.Errorf("matcher %d has no label name", i)
		}
		var err error
		switch m.Type {
		case prompb.LabelMatcher_EQ:
			out[i], err = labels.NewMatcher(labels.MatchEqual, m.Name, m.Value)
		case prompb.LabelMatcher_NEQ:
			out[i], err = labels.NewMatcher(labels.MatchNotEqual, m.Name, m.Value)
		case prompb.LabelMatcher_RE:
			out[i], err = budget.compile(labels.MatchRegexp, m.Name, m.Value)
		case prompb.LabelMatcher_NRE:
			out[i], err = budget.compile(labels.MatchNotRegexp, m.Name, m.Value)
		default:
			err = fmt.Errorf("matcher on label %q has the unknown type %d", clip(m.Name), m.Type)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// clip shortens what a client sent for an error text.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
