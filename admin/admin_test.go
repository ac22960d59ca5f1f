package admin_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"

	"github.com/rwsink/rwsink/admin"
	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is the handler over a store, registered where it is to be.
type api struct {
	t   *testing.T
	dir string
	st  *store.Store
	mux *http.ServeMux
}

func newAPI(t *testing.T, enabled, replay bool) *api {
	t.Helper()
	a := &api{t: t, dir: t.TempDir(), mux: http.NewServeMux()}
	var err error
	if a.st, err = store.Open(store.Options{Path: a.dir, Head: head.Options{Accept: head.Accept{Window: -1}}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.st.Close(); err != nil {
			t.Error(err)
		}
	})
	if replay {
		if err := a.st.Replay(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	a.mux.Handle(admin.Path, admin.New(admin.Options{Store: a.st, Enabled: enabled}))
	return a
}

// ask sends a request; the parameters go into the URL.
func (a *api) ask(method, what string, params url.Values) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	a.mux.ServeHTTP(rec, httptest.NewRequest(method, "/api/v1/admin/tsdb/"+what+"?"+params.Encode(), nil))
	return rec
}

// write acknowledges samples of the series named metric.
func (a *api) write(metric string, times ...int64) {
	a.t.Helper()
	s, _, err := a.st.Head().Resolve(head.Key{Hi: 1, Lo: uint64(metric[0])}, []head.Label{{Name: []byte("__name__"), Value: []byte(metric)}})
	if err != nil {
		a.t.Fatal(err)
	}
	b := a.st.Head().NewBatch()
	defer b.Release()
	for _, at := range times {
		b.Float(s, at, 0, 1)
	}
	if _, err := a.st.Head().Commit(context.Background(), b); err != nil {
		a.t.Fatal(err)
	}
}

// times returns what there is of the series named metric.
func (a *api) times(metric string) (out []int64) {
	a.t.Helper()
	v := a.st.View()
	defer v.Close()
	list, err := v.Select(context.Background(), math.MinInt64, math.MaxInt64, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, metric))
	if err != nil {
		a.t.Fatal(err)
	}
	r := v.NewReader()
	for i := range list {
		err := r.Read(&list[i], math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
			out = append(out, run.T...)
			return nil
		})
		if err != nil {
			a.t.Fatal(err)
		}
	}
	return out
}

// failure is an answer of an error.
type failure struct{ Status, ErrorType, Error string }

func decode(t *testing.T, rec *httptest.ResponseRecorder, v any) {
	t.Helper()
	if err := json.Unmarshal(rec.Body.Bytes(), v); err != nil || rec.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %q: %v", rec.Code, rec.Header(), rec.Body, err)
	}
}

var everything = []string{"flush", "delete_series", "clean_tombstones", "snapshot"}

func TestNotEnabled(t *testing.T) {
	a := newAPI(t, false, true)
	a.write("m", 1000)
	for _, what := range everything {
		rec := a.ask("POST", what, url.Values{"match[]": {"m"}})
		var got failure
		decode(t, rec, &got)
		if want := (failure{"error", "unavailable", "admin APIs disabled: start rwsink with --web.enable-admin-api"}); rec.Code != http.StatusInternalServerError || got != want {
			t.Errorf("%s: %d %+v, want 500 %+v", what, rec.Code, got, want)
		}
	}
	if got := a.times("m"); len(got) != 1 {
		t.Errorf("times %v after a delete that was refused", got)
	}
}

func TestNotReady(t *testing.T) {
	a := newAPI(t, true, false)
	for _, what := range everything {
		rec := a.ask("POST", what, url.Values{"match[]": {"m"}})
		var got failure
		decode(t, rec, &got)
		if rec.Code != http.StatusServiceUnavailable || got.ErrorType != "unavailable" || !strings.Contains(got.Error, "replay") || rec.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %+v %v", what, rec.Code, got, rec.Header())
		}
	}
}

func TestRoutes(t *testing.T) {
	a := newAPI(t, true, true)
	for _, what := range everything {
		for _, method := range []string{"GET", "HEAD", "DELETE", "PATCH", "OPTIONS"} {
			rec := a.ask(method, what, url.Values{"match[]": {"m"}})
			if rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") != "POST, PUT" {
				t.Errorf("%s %s: %d, Allow %q", method, what, rec.Code, rec.Header().Get("Allow"))
			}
		}
	}
	for _, what := range []string{"nothing", "flush/", "Flush", "flush/now", ""} {
		if rec := a.ask("POST", what, nil); rec.Code != http.StatusNotFound {
			t.Errorf("%q: %d", what, rec.Code)
		}
	}
}

// TestBadParameters names the parameter that is wrong, and does nothing.
func TestBadParameters(t *testing.T) {
	a := newAPI(t, true, true)
	a.write("m", 1000)
	for _, tc := range []struct {
		what   string
		params url.Values
		want   string
	}{
		{"delete_series", nil, "no match[] parameter provided"},
		{"delete_series", url.Values{"match[]": {"m", "m{"}}, `"match[]": "m{"`},
		{"delete_series", url.Values{"match[]": {"{}"}}, "a selector without a matcher"},
		{"delete_series", url.Values{"match[]": {""}}, `"match[]"`},
		{"delete_series", url.Values{"match[]": {"m"}, "start": {"soon"}}, `"start"`},
		{"delete_series", url.Values{"match[]": {"m"}, "end": {"NaN"}}, `"end"`},
		{"delete_series", url.Values{"match[]": {"m"}, "start": {"2"}, "end": {"1.999"}}, `"end"`},
		{"snapshot", url.Values{"skip_head": {"perhaps"}}, `"skip_head": got "perhaps", want true or false`},
	} {
		rec := a.ask("POST", tc.what, tc.params)
		var got failure
		decode(t, rec, &got)
		if rec.Code != http.StatusBadRequest || got.Status != "error" || got.ErrorType != "bad_data" || !strings.Contains(got.Error, tc.want) {
			t.Errorf("%s %v: %d %+v, want 400 with %q", tc.what, tc.params, rec.Code, got, tc.want)
		}
	}
	if got := a.times("m"); len(got) != 1 {
		t.Errorf("times %v after nothing but bad requests", got)
	}
	if list, err := os.ReadDir(filepath.Join(a.dir, "snapshots")); err == nil && len(list) > 0 {
		t.Errorf("a snapshot was made: %v", list)
	}
	// A body that is no form.
	req := httptest.NewRequest("POST", "/api/v1/admin/tsdb/delete_series", strings.NewReader("match[]=%"))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rec := httptest.NewRecorder()
	if a.mux.ServeHTTP(rec, req); rec.Code != http.StatusBadRequest {
		t.Errorf("a broken form: %d %s", rec.Code, rec.Body)
	}
}

// TestEachDoesWhatItSays goes through all of them with either method.
func TestEachDoesWhatItSays(t *testing.T) {
	a := newAPI(t, true, true)
	now := time.Now().UnixMilli()
	first := now - now%1000 - 5000
	a.write("m", first, first+1000, first+2000)
	a.write("n", first)
	done := func(method, what string, params url.Values) {
		t.Helper()
		if rec := a.ask(method, what, params); rec.Code != http.StatusNoContent || rec.Body.Len() > 0 {
			t.Fatalf("%s %s: %d %q", method, what, rec.Code, rec.Body)
		}
	}
	done("PUT", "flush", nil)
	if n := len(a.st.Head().Containers()); n != 0 {
		t.Errorf("%d containers after a flush", n)
	}
	at := func(t int64) string { return time.UnixMilli(t).UTC().Format(time.RFC3339Nano) }
	done("POST", "delete_series", url.Values{"match[]": {"m", `{__name__="o"}`}, "start": {at(first + 1000)}, "end": {at(first + 1000)}})
	if got := a.times("m"); len(got) != 2 {
		t.Errorf("times %v after one of three was deleted", got)
	}
	done("POST", "clean_tombstones", nil)
	done("PUT", "delete_series", url.Values{"match[]": {"m"}})
	if m, n := a.times("m"), a.times("n"); len(m) != 0 || len(n) != 1 {
		t.Errorf("times %v and %v after all of the first were deleted", m, n)
	}
	for _, skip := range []string{"", "true"} {
		rec := a.ask("POST", "snapshot", url.Values{"skip_head": {skip}})
		var got struct {
			Status string
			Data   struct{ Name string }
		}
		decode(t, rec, &got)
		if _, err := os.Stat(filepath.Join(a.dir, "snapshots", got.Data.Name, "VERSION")); err != nil || rec.Code != http.StatusOK || got.Status != "success" {
			t.Errorf("snapshot, skip_head %q: %d %+v, %v", skip, rec.Code, got, err)
		}
	}
}

// TestFailures gives what the store refuses for now, or cannot do, a status of 5xx.
func TestFailures(t *testing.T) {
	a := newAPI(t, true, true)
	a.write("m", time.Now().UnixMilli())
	blocks := filepath.Join(a.dir, "blocks")
	if err := os.RemoveAll(blocks); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blocks, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var got failure
	rec := a.ask("POST", "flush", nil)
	if decode(t, rec, &got); rec.Code != http.StatusInternalServerError || got.ErrorType != "internal" {
		t.Errorf("a flush to no directory: %d %+v", rec.Code, got)
	}
	a.st.Head().Close() // no commit any more
	rec = a.ask("POST", "delete_series", url.Values{"match[]": {"m"}})
	if decode(t, rec, &got); rec.Code != http.StatusServiceUnavailable || got.ErrorType != "unavailable" || rec.Header().Get("Retry-After") == "" {
		t.Errorf("a delete of a closed head: %d %+v", rec.Code, got)
	}
}

// TestClientGone ends a flush, and what was not flushed stays.
func TestClientGone(t *testing.T) {
	a := newAPI(t, true, true)
	a.write("m", time.Now().UnixMilli())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	rec := httptest.NewRecorder()
	a.mux.ServeHTTP(rec, httptest.NewRequest("POST", "/api/v1/admin/tsdb/flush", nil).WithContext(ctx))
	if rec.Code < 500 {
		t.Errorf("a flush for nobody: %d %q", rec.Code, rec.Body)
	}
	rec = httptest.NewRecorder()
	a.mux.ServeHTTP(rec, httptest.NewRequest("POST", "/api/v1/admin/tsdb/delete_series?match[]=n", nil).WithContext(ctx))
	if rec.Code != http.StatusNoContent {
		t.Errorf("a delete for nobody: %d %q", rec.Code, rec.Body)
	}
	if got := a.times("m"); len(got) != 1 {
		t.Errorf("times %v", got)
	}
}
