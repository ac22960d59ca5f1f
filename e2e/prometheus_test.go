package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// startPrometheus runs Prometheus with the configuration given.
func startPrometheus(t *testing.T, dir, name, addr, config string, flags ...string) *process {
	t.Helper()
	file := filepath.Join(dir, name+".yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"--config.file=" + file,
		"--storage.tsdb.path=" + filepath.Join(dir, name),
		"--web.listen-address=" + addr,
		"--storage.remote.flush-deadline=1s", // rwsink may have gone first
	}, flags...)
	return start(t, dir, name, prometheusTool(t, "prometheus"), addr, "/-/ready", args...)
}

// senderConfig is the configuration of Prometheus A: many small requests, so that
// rwsink is always in the middle of some. Only protocol 2.0 carries histograms of
// custom buckets, so only there are classic ones made into such.
func senderConfig(message, external, self, node, odd, rwsink string) string {
	return fmt.Sprintf(`
global:
  scrape_interval: 1s
  scrape_timeout: 1s
  scrape_native_histograms: true
%s
scrape_configs:
  - {job_name: prometheus, static_configs: [{targets: [%q]}]}
  - {job_name: node, static_configs: [{targets: [%q]}]}
  - {job_name: rwsink, static_configs: [{targets: [%q]}]}
  - {job_name: odd, convert_classic_histograms_to_nhcb: %v, static_configs: [{targets: [%q]}]}
remote_write:
  - url: http://%s/api/v1/write
    protobuf_message: %s
    send_exemplars: true
    send_native_histograms: true
    metadata_config: {send_interval: 5s}
    queue_config: {min_shards: 4, max_shards: 4, max_samples_per_send: 50, batch_send_deadline: 100ms, max_backoff: 500ms}
`, external, self, node, rwsink, message == version2, odd, rwsink, message)
}

// readerConfig is the configuration of Prometheus B, which has nothing of its own.
func readerConfig(external, rwsink string) string {
	return fmt.Sprintf(`
global:
  scrape_interval: 1h
%s
remote_read:
  - url: http://%s/api/v1/read
    read_recent: true
`, external, rwsink)
}

// answer is what a query gave, in a form that two answers can be compared in.
type answer struct {
	kind   string
	series []string // each a JSON text of its labels and values, sorted
}

func (a answer) equal(b answer) bool { return a.kind == b.kind && slices.Equal(a.series, b.series) }

// query evaluates expr at instant at.
func (p *process) query(expr string, at time.Time) (answer, error) {
	return p.ask("query", url.Values{"query": {expr}, "time": {seconds(at)}})
}

// queryRange evaluates expr every step from from to to.
func (p *process) queryRange(expr string, from, to time.Time, step time.Duration) (answer, error) {
	return p.ask("query_range", url.Values{
		"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	})
}

func (p *process) ask(endpoint string, form url.Values) (answer, error) {
	var reply struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	resp, err := client.PostForm("http://"+p.addr+"/api/v1/"+endpoint, form)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return answer{}, fmt.Errorf("%s: %w", resp.Status, err)
	}
	if reply.Status != "success" {
		return answer{}, fmt.Errorf("%s: %s", resp.Status, reply.Error)
	}
	a := answer{kind: reply.Data.ResultType}
	if a.kind == "scalar" || a.kind == "string" {
		a.series = []string{string(reply.Data.Result)}
		return a, nil
	}
	var list []map[string]any
	dec := json.NewDecoder(bytes.NewReader(reply.Data.Result))
	dec.UseNumber() // numbers stay the text that they are
	if err := dec.Decode(&list); err != nil {
		return answer{}, err
	}
	for _, s := range list {
		text, err := json.Marshal(s) // keys are sorted
		if err != nil {
			return answer{}, err
		}
		a.series = append(a.series, string(text))
	}
	slices.Sort(a.series)
	return a, nil
}

// seconds formats an instant as the API takes it, to the millisecond.
func seconds(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// metric returns the sum of the samples of a metric on the process's own page.
func (p *process) metric(name string) float64 {
	p.t.Helper()
	page, err := get("http://" + p.addr + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	sum, found := 0.0, false
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(?:\{.*\})? (\S+)$`)
	for _, m := range line.FindAllSubmatch(page, -1) {
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			p.t.Fatal(err)
		}
		sum, found = sum+v, true
	}
	if !found {
		p.t.Fatalf("%s has no metric %s", p.name, name)
	}
	return sum
}

// waitSent waits until the sender has had everything acknowledged up to at. Its
// queues go on in order, each alone, and none lags far behind the furthest: the
// margin is many times the deadline of a batch and the longest pause after a failure.
func (p *process) waitSent(at time.Time) {
	p.t.Helper()
	const margin = 8 * time.Second
	var sent float64
	eventually(p.t, 90*time.Second, func() bool {
		sent = p.metric("prometheus_remote_storage_queue_highest_sent_timestamp_seconds")
		return sent >= float64(at.Add(margin).Unix())
	}, func() string { return fmt.Sprintf("sent up to %.0f, want %d", sent, at.Add(margin).Unix()) })
}
