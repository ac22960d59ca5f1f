package receiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/rwsink/rwsink/head"
)

func TestStatuses(t *testing.T) {
	refused := &refusedError{&head.Refusals{}}
	later := &head.UnavailableError{RetryAfter: 2500 * time.Millisecond, Err: head.ErrReplaying}
	tests := []struct {
		err   error
		want  int
		after string
	}{
		{nil, 204, ""},
		{errMethod, 405, ""},
		{&mediaError{"x"}, 415, ""},
		{refused, 400, ""},
		{&wireError{fault: faultTag}, 400, ""},
		{&schemaError{}, 400, ""},
		{&tooManyError{}, 400, ""},
		{&tooLargeError{}, 400, ""},
		{&bodyError{"x"}, 400, ""},
		{errors.New("something not thought of"), 400, ""},
		{fmt.Errorf("reading the body: %w", io.ErrClosedPipe), 400, ""},
		{fmt.Errorf("reading the body: %w", os.ErrDeadlineExceeded), 503, "1"},
		{errBusy, 503, "1"},
		{later, 503, "3"},
		{unavailable(context.Canceled), 503, "1"},
		{unavailable(later), 503, "3"},
		{unavailable(errors.New("no space left on device")), 503, "1"},
	}
	for _, test := range tests {
		code := status(test.err, 400)
		w := httptest.NewRecorder()
		answer(w, version2, written{1, 2, 3}, code, test.err)
		if code != test.want || w.Code != code || w.Header().Get("Retry-After") != test.after {
			t.Errorf("%v: got %d with Retry-After %q, want %d with %q", test.err, code, w.Header().Get("Retry-After"), test.want, test.after)
		}
		if w.Header().Get(headerSamples)+w.Header().Get(headerHistograms)+w.Header().Get(headerExemplars) != "123" {
			t.Errorf("%v: counts %v", test.err, w.Header())
		}
		w = httptest.NewRecorder()
		if answer(w, version1, written{1, 2, 3}, code, test.err); w.Header().Get(headerSamples) != "" {
			t.Errorf("%v: a 1.0 answer has counts", test.err)
		}
	}
	if got := status(refused, 204); got != 204 {
		t.Errorf("refused with the switch: got %d, want 204", got)
	}
}
