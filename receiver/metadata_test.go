package receiver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/receiver"
)

// gauges returns a request of 2.0 with an entry for each of the pairs of metric
// name and help, whose symbols it names, and a sample in each.
func gauges(symbols []string, pairs ...[2]uint32) *writev2.Request {
	req := &writev2.Request{Symbols: symbols}
	for i, p := range pairs {
		req.Timeseries = append(req.Timeseries, writev2.TimeSeries{
			LabelsRefs: []uint32{1, p[0]}, Samples: []writev2.Sample{{Timestamp: at(int64(i)), Value: 1}},
			Metadata: writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_GAUGE, HelpRef: p[1]},
		})
	}
	return req
}

// TestMetadataRepeated has metadata that a request tells again, as it was and changed.
func TestMetadataRepeated(t *testing.T) {
	symbols := []string{"", "__name__", "m", "n", "One.", "Two.", "\xff", "m", "One."}
	gauge := func(help string) head.Metadata { return head.Metadata{Type: "gauge", Help: help} }
	for name, c := range map[string]struct {
		pairs   [][2]uint32
		want    map[string]head.Metadata
		refused string // what the answer says, "" when nothing was refused
	}{
		"again":             {[][2]uint32{{2, 4}, {2, 4}, {3, 5}, {2, 4}}, map[string]head.Metadata{"m": gauge("One."), "n": gauge("Two.")}, ""},
		"one help of two":   {[][2]uint32{{2, 4}, {3, 4}}, map[string]head.Metadata{"m": gauge("One."), "n": gauge("One.")}, ""},
		"another":           {[][2]uint32{{2, 4}, {2, 5}}, map[string]head.Metadata{"m": gauge("Two.")}, ""},
		"another and back":  {[][2]uint32{{2, 4}, {2, 5}, {2, 4}}, map[string]head.Metadata{"m": gauge("One.")}, ""},
		"other symbols":     {[][2]uint32{{2, 4}, {7, 5}, {2, 4}, {7, 8}}, map[string]head.Metadata{"m": gauge("One.")}, ""},
		"out of range":      {[][2]uint32{{2, 77}, {2, 77}, {3, 4}, {2, 77}}, map[string]head.Metadata{"n": gauge("One.")}, "3 metadata refused: invalid metadata: help_ref names symbol 77 of 9"},
		"not UTF-8 at last": {[][2]uint32{{2, 4}, {2, 6}}, map[string]head.Metadata{"m": gauge("One.")}, "1 metadata refused: invalid metadata: a text is not valid UTF-8, series {\"__name__\"=\"m\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			for range 2 { // of new series, then of known ones
				code, written := 204, fmt.Sprintf("%d 0 0", len(c.pairs))
				if c.refused != "" {
					code = 400
				}
				expect(t, s.write2(gauges(symbols, c.pairs...)), code, written, c.refused)
				expectMetadata(t, s, c.want)
			}
		})
	}
}

// TestMetadataOfOddEntries has names that do not come first, none at all, and symbols[0] as one.
func TestMetadataOfOddEntries(t *testing.T) {
	s := newServer(t, nil)
	meta := writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_GAUGE, HelpRef: 3}
	req := &writev2.Request{Symbols: []string{"m", "__name__", "A", "Help.", ""}, Timeseries: []writev2.TimeSeries{
		{LabelsRefs: []uint32{2, 3, 1, 0}, Metadata: meta}, {LabelsRefs: []uint32{2, 3}, Metadata: meta}, {Metadata: meta},
		{LabelsRefs: []uint32{1, 4}, Metadata: meta}, {LabelsRefs: []uint32{1, 2, 2, 0}, Metadata: meta},
	}}
	expect(t, s.write2(req), 400, "0 0 0", "3 metadata refused: invalid metadata: the entry has no metric name")
	want := head.Metadata{Type: "gauge", Help: "Help."}
	expectMetadata(t, s, map[string]head.Metadata{"m": want, "A": want})
}

// TestMetadataOfRelabelledSeries follows the name that a series has, not that of the wire.
func TestMetadataOfRelabelledSeries(t *testing.T) {
	rule := relabel.DefaultRelabelConfig
	rule.SourceLabels, rule.TargetLabel = model.LabelNames{"to"}, model.MetricNameLabel
	rule.Regex, rule.NameValidationScheme = relabel.MustNewRegexp("(.+)"), model.UTF8Validation
	s := newServer(t, func(o *head.Options, _ *receiver.Options) { o.Relabel = []*relabel.Config{&rule} })
	for range 2 {
		b := new2()
		for _, to := range []string{"a", "b", "", "a"} {
			b.entry([]string{"__name__", "m", "to", to}, func(ts *writev2.TimeSeries) {
				ts.Samples = []writev2.Sample{{Timestamp: at(0), Value: 1}}
				ts.Metadata = writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_GAUGE, HelpRef: b.table.Symbolize("Help.")}
			})
		}
		expect(t, s.write2(b.request()), 204, "4 0 0")
		want := head.Metadata{Type: "gauge", Help: "Help."}
		expectMetadata(t, s, map[string]head.Metadata{"a": want, "b": want, "m": want})
	}
}

// TestOneHelpOfMany has a help that stands in the request once and is that of so
// many families that, told of each, it would fill the memory.
func TestOneHelpOfMany(t *testing.T) {
	s := newServer(t, nil)
	symbols := []string{"", "__name__", strings.Repeat("h", 15<<10)}
	var pairs [][2]uint32
	for i := range 3000 {
		symbols = append(symbols, "m"+strings.Repeat("x", i/60)+string(rune('A'+i%60)))
		pairs = append(pairs, [2]uint32{uint32(len(symbols) - 1), 2})
	}
	expect(t, s.write2(gauges(symbols, pairs...)), 400, "3000 0 0", "metadata refused: metadata limit: more than 32 MiB of metadata in the request")
	if n := len(s.head.Metadata()); n < 2000 || n > 2300 {
		t.Errorf("%d families told", n)
	}
}
