package bench

import (
	"bytes"
	"context"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/rwsink/rwsink/bench/drive"
	"github.com/rwsink/rwsink/bench/load"
)

func TestFigures(t *testing.T) {
	f := figures{5, 1, 9, 3, 7}
	if f.median() != 5 || (figures{1, 2}).median() != 1.5 || (figures{}).median() != 0 {
		t.Error("median")
	}
	if got := f.spread("%.0f"); got != "5 (1-9)" {
		t.Error(got)
	}
	low, high := f.interval()
	if low < 1 || low >= 5 || high <= 5 || high > 9 {
		t.Errorf("interval %g to %g", low, high)
	}
	if low, high := (figures{2, 2, 2}).interval(); low != 2 || high != 2 {
		t.Errorf("interval of constants %g to %g", low, high)
	}
	if got := f.over(figures{5, 1, 9, 3, 7}); got.median() != 1 || got.times(3)[4] != 3 {
		t.Error(got)
	}
}

func TestVerdict(t *testing.T) {
	for want, got := range map[string]figures{
		"kept":                 {1, 1.1, 1.2},
		"MISSED":               {3, 3.1, 3.2},
		"kept by the median":   {1, 1.5, 3},
		"MISSED by the median": {1, 2.5, 3},
	} {
		if v := (&goal{limit: 2, got: got}).verdict(); v != want {
			t.Errorf("%v: %s, want %s", got, v, want)
		}
	}
}

func TestInterpolate(t *testing.T) {
	bounds, counts := []float64{1, 2, 4, math.Inf(1)}, []float64{0, 50, 90, 100}
	for q, want := range map[float64]float64{0.25: 1.5, 0.5: 2, 0.7: 3, 0.9: 4, 0.99: 4} {
		if got := interpolate(bounds, counts, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %g: %g, want %g", q, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	tab := table{head: []string{"a", "longer"}}
	tab.add("µ", "1")
	tab.add("22")
	tab.print(&b)
	want := "| a  | longer |\n| -- | ------ |\n| µ  | 1      |\n| 22 |        |\n\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	tab.begin(&b)
	tab.row(&b, tab.rows[0]...)
	if want := "| a | longer |\n| --- | --- |\n| µ | 1 |\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

// TestFloorDoesTheWork checks that the last step finds every series and appends
// every sample, in both protocols, and that what is not the generator's is named.
func TestFloorDoesTheWork(t *testing.T) {
	for _, protocol := range []int{1, 2} {
		spec := load.Canonical(protocol, 700, 12, 1_800_000_000_000)
		spec.Entry, spec.Request = 3, 500
		set, err := load.Prepare(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		w := newFloorWork(set, 1<<20)
		for _, b := range interleaved(set) {
			for i := range floorSteps {
				if err := w.step(i, b); err != nil {
					t.Fatalf("%d.0, %s: %v", protocol, floorSteps[i], err)
				}
			}
		}
		if err := w.check(set); err != nil {
			t.Error(err)
		}
		sums := map[uint64]int{}
		for i := range w.table.used {
			tail := &w.table.tails[i]
			if tail.n != uint64(set.Samples) {
				t.Fatalf("%d.0: a series has %d samples, want %d", protocol, tail.n, set.Samples)
			}
			for _, s := range tail.samples[:tail.n] {
				sums[s[0]]++
				sums[s[1]]++
			}
		}
		for i := range set.Series {
			for k := range set.Samples {
				ts, bits := uint64(set.Time(i, k)), math.Float64bits(set.Float(i, k))
				if sums[ts] == 0 || sums[bits] == 0 {
					t.Fatalf("%d.0: sample %d of series %d was not appended", protocol, k, i)
				}
				sums[ts]--
				sums[bits]--
			}
		}
		for cut := range 200 {
			body := bytes.Repeat([]byte{byte(cut), 0xff, 1<<3 | 2}, cut)
			if n, err := scan1(body, true, nil); err == nil && n > 0 {
				t.Errorf("scan1 finds %d samples in nonsense", n)
			}
			if n, err := (&scan2{}).body(body, true, nil); err == nil && n > 0 {
				t.Errorf("scan2 finds %d samples in nonsense", n)
			}
		}
	}
}

// TestLoadThatCannotBegin names what is wrong before the bodies are made, but no password.
func TestLoadThatCannotBegin(t *testing.T) {
	spec := load.Canonical(1, 10, 2, time.Now().UnixMilli())
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "admin APIs disabled", http.StatusInternalServerError)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String() + "/"
	listener.Close()
	locked := strings.Replace(plain.URL, "://", "://me:secret@", 1)
	for want, o := range map[string]LoadOptions{
		"cannot be parsed: want http":     {Drive: drive.Options{URL: "me:secret@nowhere"}},
		"or https":                        {Drive: drive.Options{URL: "http://me:secret@nowhere:port/"}},
		"process 2147483646":              {Drive: drive.Options{URL: "http://127.0.0.1:1/"}, PID: 2147483646},
		"--path=/nonexistent: ":           {Drive: drive.Options{URL: plain.URL}, Path: "/nonexistent"},
		"admin APIs disabled":             {Drive: drive.Options{URL: locked}, Settle: locked + "/flush"},
		"connect to " + nobody + ": ":     {Drive: drive.Options{URL: nobody}},
		"connect to " + secure.URL + ": ": {Drive: drive.Options{URL: secure.URL}},
	} {
		var out, log bytes.Buffer
		o.Spec = spec
		if err := Load(context.Background(), o, &out, &log); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") || log.Len()+out.Len() > 0 {
			t.Errorf("%s: %v\n%s%s", want, err, &log, &out)
		}
	}
	if p := newPass(&drive.Result{}); p.SamplesPerSecond != 0 { // of which there is no JSON, were it no number
		t.Errorf("%g samples a second of a pass that did not begin", p.SamplesPerSecond)
	}
}

// TestProgressOfWhatIsTaken counts no sample that a server refuses.
func TestProgressOfWhatIsTaken(t *testing.T) {
	ts := httptest.NewServer(http.NotFoundHandler())
	defer ts.Close()
	var log bytes.Buffer
	err := Load(context.Background(), LoadOptions{Spec: load.Canonical(1, 10, 2, 0), Drive: drive.Options{URL: ts.URL}}, io.Discard, &log)
	if err == nil || !strings.Contains(log.String(), "pass 1 of 1:   0 %, ") || !strings.Contains(log.String(), ", 0 samples/s") {
		t.Errorf("%v\n%s", err, &log)
	}
}

// TestCount writes numbers of series as a load has them.
func TestCount(t *testing.T) {
	for scale, want := range map[float64]string{1: "1,000,000", 0.01: "10,000", 0.0005: "500", 100: "100,000,000"} {
		if got := (&env{TrialOptions: TrialOptions{Scale: scale}}).count(1_000_000); got != want {
			t.Errorf("scale %g: %s, want %s", scale, got, want)
		}
	}
}

func TestTrialOptions(t *testing.T) {
	for want, o := range map[string]TrialOptions{
		"rounds":  {},
		"missing": {Rounds: 1, Dir: "/missing"},
	} {
		if err := Floor(context.Background(), o, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestNotReadBack gives no figure for a server that has nothing of what it took.
func TestNotReadBack(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := (&prompb.ReadResponse{Results: []*prompb.QueryResult{{}}}).Marshal()
		_, _ = w.Write(snappy.Encode(nil, raw))
	}))
	defer ts.Close()
	set, err := load.Prepare(context.Background(), load.Canonical(1, 10, 3, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	s := &server{program: program{name: "forgetful", read: "/read"}, addr: strings.TrimPrefix(ts.URL, "http://")}
	if err := s.verify(context.Background(), []*load.Set{set, set}); err == nil || !strings.Contains(err.Error(), "30 samples are missing") {
		t.Errorf("%v, want one that tells of 30 missing samples", err)
	}
	s.read = ""
	if err := s.verify(context.Background(), []*load.Set{set}); err != nil {
		t.Errorf("%v of a program without remote read", err)
	}
}

func TestChosen(t *testing.T) {
	name := func(m measurement) string { return m.name }
	for only, want := range map[string]int{"": len(measurements), "^late$": 1, "^(late|day)$": 2} {
		if got, err := chosen(only, "goal", measurements, name); err != nil || len(got) != want {
			t.Errorf("%q: %d, %v", only, len(got), err)
		}
	}
	for only, want := range map[string]string{
		"latecy": "--only=latecy matches no goal, there are canonical, new-series, late,", "(": "--only: error parsing",
	} {
		var out bytes.Buffer
		err := Goals(context.Background(), TrialOptions{Rounds: 1, Scale: 1, Only: only, Log: &out}, &out)
		if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%q: %v\n%s", only, err, &out)
		}
	}
	e := &env{TrialOptions: TrialOptions{Only: "prometheus"}}
	if _, err := e.peers(); err == nil || !strings.Contains(err.Error(), "matches no peer, there are rwsink, Prometheus, VictoriaMetrics") {
		t.Error(err)
	}
}

// TestPlace asks at every minute of a day: a load is neither of long ago nor further
// ahead than receivers take, and at the same distance from the border at every hour.
func TestPlace(t *testing.T) {
	for _, p := range []place{across, upTo} {
		for _, samples := range []int{1, 20, 100, 300, 6000} {
			s := load.Canonical(1, 10, samples, 0)
			past := p.past(&s)
			for now := time.Unix(1_800_000_000, 0); now.Before(time.Unix(1_800_086_400, 0)); now = now.Add(time.Minute) {
				s.EndAt(now.UnixMilli(), past)
				s.Start += shift(&s, now).Milliseconds()
				if into := s.End().Add(-past).UnixMilli() % load.Far.Milliseconds(); into != load.Far.Milliseconds()/2 {
					t.Fatalf("%d samples at %v: the border is %d ms into a range", samples, now, into)
				}
				if s.End().After(now.Add(9*time.Minute)) || s.Cold().Before(now.Add(goodFor)) {
					t.Fatalf("%d samples: at %v a load that ends at %v, cold at %v", samples, now, s.End(), s.Cold())
				}
			}
		}
	}
}

// TestRenew makes what has grown old again, the loads of all trials by as much.
func TestRenew(t *testing.T) {
	e := &env{TrialOptions: TrialOptions{Log: io.Discard}}
	var trials []trial
	var starts []int64
	for i := range 2 {
		spec := load.Canonical(1, 10, 20, time.Now().Add(-2*load.Far-time.Duration(1+i)*time.Second).UnixMilli())
		set, err := load.Prepare(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		trials, starts = append(trials, trial{sets: []*load.Set{set, set}}), append(starts, set.Start)
	}
	unlock, err := e.turn(context.Background(), trials...)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	later := trials[0].sets[0].Start - starts[0]
	if later == 0 || later%load.Far.Milliseconds() != 0 {
		t.Errorf("moved by %d ms", later)
	}
	for i, tr := range trials {
		set := tr.sets[0]
		if later := shift(&set.Spec, time.Now()); later != 0 {
			t.Errorf("load %d is not good: %v", i, set.End())
		}
		if set.Start-starts[i] != later || set.Requests() == 0 || set.Clients[0][0].Newest < set.Start {
			t.Errorf("load %d moved by %d ms, the other by %d", i, set.Start-starts[i], later)
		}
	}
}
