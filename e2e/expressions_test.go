package e2e

// expression is a query whose answer must be the same from both Prometheus servers.
// NOW stands for an instant that both have data for. Aggregations over floats
// whose result depends on the order of the series are left out: a server sums
// local series in one order and remote ones in another.
type expression struct {
	text  string
	empty bool   // the right answer is no series at all
	only  string // the message that such series come with; others see none
}

var expressions = []expression{
	// Raw selectors: everything there is, every sample, histograms included.
	{text: `{job=~".+"}[30s]`},
	{text: `{job="odd"}[25s] @ NOW`},
	{text: `up`},
	{text: `node_load1 @ NOW offset 5s`},
	{text: `prometheus_http_request_duration_seconds[20s]`},
	{text: `wait[20s]`, only: version2},
	{text: `rwsink_build_info`},
	// Matchers, with labels that some or all series lack.
	{text: `up{no_such_label=""}`},
	{text: `up{no_such_label!="x"}`},
	{text: `up{no_such_label=~"|x"}`},
	{text: `up{no_such_label!~".+"}`},
	{text: `up{no_such_label=~".+"}`, empty: true},
	{text: `up{no_such_label!=""}`, empty: true},
	{text: `{__name__=~"node_memory_(Mem|Swap).*"}`},
	{text: `node_cpu_seconds_total{mode!~"idle|user", cpu=~"[0-9]+"}`},
	{text: `{__name__!~"node_.*|go_.*", job="node"}`},
	{text: `{job=~"odd|node", mode=""}`},
	{text: `work_total{path=~".*日本.*"}`},
	{text: `{job=~"(?i:ODD)", kind!~"nan|mixed"}`},
	{text: `absent(up{job="nobody"})`},
	{text: `nothing_of_this_name`, empty: true},
	// Over time.
	{text: `rate(node_cpu_seconds_total[15s])`},
	{text: `irate(work_total[10s])`},
	{text: `increase(work_total[30s])`},
	{text: `resets(work_total[30s])`},
	{text: `count_over_time(up[30s])`},
	{text: `changes(flapping[30s])`},
	{text: `last_over_time(flapping[10s])`},
	{text: `present_over_time(churning[30s])`},
	{text: `quantile_over_time(0.9, node_load1[20s])`},
	{text: `stddev_over_time(odd_value{kind="tenths"}[20s])`},
	{text: `deriv(node_memory_MemFree_bytes[20s])`},
	{text: `predict_linear(odd_value{kind=~"pi|whole"}[20s], 60)`},
	{text: `timestamp(up)`},
	{text: `max_over_time(rate(node_cpu_seconds_total[5s])[20s:1s])`},
	{text: `count_over_time(flapping[1s:200ms])`},
	{text: `avg_over_time(absent(flapping{phase="0"})[20s:1s])`},
	// Native histograms, of exponential and of custom buckets.
	{text: `histogram_quantile(0.9, rate(prometheus_http_request_duration_seconds[20s]))`},
	{text: `histogram_count(prometheus_http_request_duration_seconds)`},
	{text: `histogram_fraction(0, 0.01, rate(prometheus_http_request_duration_seconds[20s]))`},
	{text: `histogram_quantile(0.5, wait)`, only: version2},
	{text: `histogram_avg(rate(wait[20s]))`, only: version2},
	{text: `histogram_quantile(0.5, sum by (le) (rate(wait_bucket[20s])))`, only: version1},
	// Aggregation and joins.
	{text: `count by (__name__, job) ({job=~".+"})`},
	{text: `sum by (job) (up)`},
	{text: `topk(3, node_filesystem_size_bytes)`},
	{text: `max without (cpu) (node_cpu_seconds_total)`},
	{text: `count(flapping) or vector(0)`},
	{text: `up * on (job, instance) group_left () scrape_samples_scraped`},
	{text: `odd_value == odd_value`},
	{text: `label_replace(up, "short", "$1", "instance", ".*:(.*)")`},
}
