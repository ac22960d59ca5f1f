package load

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// A target's series: variants of families.
const (
	targetSeries  = 200
	variants      = 5
	targetFamiles = targetSeries / variants
)

const (
	minLabels = 2
	maxLabels = 200
)

// target and family say where series i belongs.
func target(i int) int { return i / targetSeries }
func family(i int) int { return i % targetSeries / variants }

var (
	subjects = []string{
		"http_server_request", "container_receive", "grpc_client_call", "pod_status_change", "filesystem_write",
		"queue_consumer_message", "connection_pool", "cache_lookup", "scheduler_run", "volume_snapshot",
	}
	quantities = []string{"bytes", "seconds", "errors", "items"}
	handlers   = []string{
		"/api/v1/orders/checkout", "/api/v1/orders/{order_id}/items", "/api/v1/users/{user_id}/profile", "/internal/metrics/scrape", "/healthz/readiness",
	}
	codes      = []string{"200", "404", "499", "503", "302"}
	namespaces = []string{"payments-production", "search-production", "identity-staging", "monitoring-system", "catalog-production", "batch-processing", "edge-gateway"}
	services   = []string{"checkout-api", "query-frontend", "token-issuer", "metrics-agent", "product-index", "report-worker", "ingress-proxy", "ledger-writer"}
	zones      = []string{"eu-central-1a", "eu-central-1b", "eu-central-1c"}
)

// name is the metric name of series i, and whether it is that of a counter.
func (s *Spec) name(i int) (string, bool) {
	f := family(i)
	name := subjects[f%len(subjects)] + "_" + s.unit(i)
	if s.model(i) == Counters {
		return name + "_total", true
	}
	return name, false
}

// unit is the unit of the metric of series i.
func (s *Spec) unit(i int) string { return quantities[family(i)/len(subjects)] }

// help is the help of the metric of series i.
func (s *Spec) help(i int) string {
	name, _ := s.name(i)
	return "The " + strings.ReplaceAll(name, "_", " ") + " of this instance since its start."
}

// Successor says whether sample k of series i is of the series that follows it.
func (s *Spec) Successor(i, k int) bool { return k >= s.end(i) }

// end is the number of samples after which series i is followed by another one.
func (s *Spec) end(i int) int {
	h := mix(s.Seed^saltChurn, uint64(i), 0)
	if s.Churn == 0 || unit(h) >= s.Churn || s.Samples < 2 {
		return s.Samples
	}
	return 1 + int(scramble(h)%uint64(s.Samples-1))
}

// seeds is how many of them have series of their own.
const seeds = 20_000

// Instance is the label value that names the target of series i, or of its
// successor; see Successor. Loads of different seeds have different ones.
func (s *Spec) Instance(i int, successor bool) string {
	t, port := target(i), 8080+2*int(s.Seed%seeds)
	if successor {
		port++
	}
	return fmt.Sprintf("10.%d.%d.%d:%d", t>>16&0xff, t>>8&0xff, t&0xff, port)
}

// labelsOf returns the labels of series i, or of its successor, sorted by name.
func (s *Spec) labelsOf(i int, successor bool) []labels.Label {
	t := target(i)
	h := mix(s.Seed^saltLabels, uint64(t), 0)
	service := services[h%uint64(len(services))]
	name, _ := s.name(i)
	node := fmt.Sprintf("ip-10-%d-%d-%d.internal", 16+t>>12&0xf, t>>6&0x3f, t&0x3f)
	all := []labels.Label{ // the first ones make a series unique
		{Name: "instance", Value: s.Instance(i, successor)},
		{Name: "handler", Value: handlers[i%variants]},
		{Name: "pod", Value: fmt.Sprintf("%s-%x-%x", service, h&0xffffffff, h>>44)},
		{Name: "namespace", Value: namespaces[h>>16%uint64(len(namespaces))]},
		{Name: "job", Value: service},
		{Name: "node", Value: node},
		{Name: "container", Value: service},
		{Name: "cluster", Value: zones[t%len(zones)][:12]},
		{Name: "zone", Value: zones[t%len(zones)]},
		{Name: "endpoint", Value: "http-metrics"},
		{Name: "code", Value: codes[mix(h, uint64(i), 0)%uint64(len(codes))]},
	}
	n := int(s.Labels)
	if unit(mix(s.Seed^saltLabels, uint64(i), 1)) < s.Labels-float64(n) {
		n++
	}
	for j := len(all); j < n; j++ {
		all = append(all, labels.Label{Name: fmt.Sprintf("annotation_%03d", j), Value: fmt.Sprintf("value-%08x", mix(h, uint64(j), 0)&0xffffffff)})
	}
	all = append(all[:n:n], labels.Label{Name: labels.MetricName, Value: name})
	slices.SortFunc(all, func(a, b labels.Label) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// LabelsOf returns the labels of series i, or of the series that follows it.
func (s *Spec) LabelsOf(i int, successor bool) labels.Labels {
	return labels.New(s.labelsOf(i, successor)...)
}
