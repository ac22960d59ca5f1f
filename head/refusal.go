package head

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
)

// Item says what was refused.
type Item uint8

// The items, in the order in which a body of errors lists them.
const (
	ItemSample Item = iota
	ItemHistogram
	ItemExemplar
	ItemMetadata
	numItems
)

// String names the item in the plural, as answers and metrics do.
func (i Item) String() string {
	return [numItems]string{"samples", "histograms", "exemplars", "metadata"}[i]
}

// Reasons of the head. A reason is a metric label; in an answer its underscores read as spaces.
const (
	ReasonTooOld         = "too_old"          // older than retention reaches
	ReasonTooLate        = "too_late"         // late, and older than the out-of-order window
	ReasonTooNew         = "too_new"          // further in the future than max-future
	ReasonNoMetricName   = "no_metric_name"   // no label __name__, or an empty one
	ReasonLabelName      = "label_name"       // a label name that is empty
	ReasonLabelUTF8      = "label_utf8"       // a name or value that is not UTF-8
	ReasonDuplicateLabel = "duplicate_label"  // a label name given twice
	ReasonLabelLimit     = "label_limit"      // more labels or label bytes than the limit
	ReasonSeriesLimit    = "series_limit"     // a new series above the limit
	ReasonExemplarOrder  = "exemplar_order"   // older than the newest of its series in the ring
	ReasonExemplar       = "exemplar"         // labels too long or not valid
	ReasonExemplarsOff   = "exemplars_off"    // the ring is off
	ReasonMetadata       = "invalid_metadata" // no name, bad UTF-8, or bad references
	ReasonMetadataLimit  = "metadata_limit"   // the metadata table is full, or an entry too long
	ReasonRequestLimit   = "request_limit"    // more than a frame of the log holds
)

// Refusal is why something valid in form was not stored.
type Refusal struct {
	Item   Item
	Reason string // a metric label and, with spaces, the words of the answer
	Detail string // what exactly, as valid UTF-8: got and want
	Series string // the label set, escaped; empty when there is none
	T      int64  // Unix milliseconds
	Value  string // the value, formatted; empty when there is none
}

// Error is the refusal in one line of valid UTF-8.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(r.Reason, "_", " "))
	if r.Detail != "" {
		b.WriteString(": " + r.Detail)
	}
	if r.Series != "" {
		b.WriteString(", series " + truncate(r.Series))
	}
	if r.Value != "" {
		fmt.Fprintf(&b, ", timestamp %d, value %s", r.T, truncate(r.Value))
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// maxNamed bounds one name in an answer: senders log no more of it.
const maxNamed = 512

// clip returns as much of a name as an answer tells; it may end inside a rune.
func clip(name []byte) []byte { return name[:min(len(name), maxNamed)] }

// truncate cuts s at a rune boundary.
func truncate(s string) string {
	if len(s) <= maxNamed {
		return s
	}
	cut := maxNamed
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// Refusals count what was refused, by item and reason, and keep the first of each.
// The zero value is ready.
type Refusals struct {
	list []refusalCount
}

type refusalCount struct {
	n     int
	first Refusal
}

// Add counts n items under r's item and reason.
func (rs *Refusals) Add(n int, r *Refusal) {
	if n == 0 {
		return
	}
	if c := rs.find(r.Item, r.Reason); c != nil {
		c.n += n
		return
	}
	rs.list = append(rs.list, refusalCount{n, *r})
}

// Count counts one more of a reason that has been named already; false when it
// has not, so that the caller formats an offender only once.
func (rs *Refusals) Count(item Item, reason string) bool {
	c := rs.find(item, reason)
	if c != nil {
		c.n++
	}
	return c != nil
}

func (rs *Refusals) find(item Item, reason string) *refusalCount {
	for i := range rs.list {
		if c := &rs.list[i]; c.first.Item == item && c.first.Reason == reason {
			return c
		}
	}
	return nil
}

// anyOf says whether anything was refused for one of the reasons.
func (rs *Refusals) anyOf(reasons ...string) bool {
	return slices.ContainsFunc(rs.list, func(c refusalCount) bool {
		return slices.Contains(reasons, c.first.Reason)
	})
}

// Merge adds those of other.
func (rs *Refusals) Merge(other *Refusals) {
	for i := range other.list {
		rs.Add(other.list[i].n, &other.list[i].first)
	}
}

// Len returns how many of an item were refused.
func (rs *Refusals) Len(item Item) int {
	n := 0
	for i := range rs.list {
		if rs.list[i].first.Item == item {
			n += rs.list[i].n
		}
	}
	return n
}

// Any says whether anything was refused.
func (rs *Refusals) Any() bool { return len(rs.list) > 0 }

// Each calls f for every item and reason with its count, in the order of an answer.
func (rs *Refusals) Each(f func(n int, first *Refusal)) {
	for item := range numItems {
		for i := range rs.list {
			if rs.list[i].first.Item == item {
				f(rs.list[i].n, &rs.list[i].first)
			}
		}
	}
}

// Error lists, a line each, the count and the first offender of every item and reason.
func (rs *Refusals) Error() string {
	var b strings.Builder
	rs.Each(func(n int, first *Refusal) {
		fmt.Fprintf(&b, "%d %s refused: %s\n", n, first.Item, first.Error())
	})
	return strings.TrimSuffix(b.String(), "\n")
}

// FormatLabels writes labels as they came, escaped, for an answer.
func FormatLabels(wire []Label) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, l := range wire {
		if i > 0 {
			b.WriteByte(',')
		}
		if b.Len() > maxNamed {
			b.WriteString("...")
			break
		}
		b.WriteString(strconv.QuoteToASCII(string(clip(l.Name))))
		b.WriteByte('=')
		b.WriteString(strconv.QuoteToASCII(string(clip(l.Value))))
	}
	b.WriteByte('}')
	return b.String()
}

// FormatFamily writes the name of a metric family for an answer.
func FormatFamily(name string) string {
	return FormatLabels([]Label{{Name: []byte(labels.MetricName), Value: []byte(name[:min(len(name), maxNamed)])}})
}

// FormatFloat writes a value for an answer.
func FormatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// seriesText writes a series for an answer, or the first labels of a very long one.
func seriesText(ls labels.Labels) string {
	var head []labels.Label
	size := 0
	cut := ls.Validate(func(l labels.Label) error {
		if size += len(l.Name) + len(l.Value); size > maxNamed {
			return errLong
		}
		head = append(head, l)
		return nil
	})
	if cut == nil {
		return ls.String()
	}
	return strings.TrimSuffix(labels.New(head...).String(), "}") + ", ..."
}

// errLong ends the walk over the labels of seriesText.
var errLong = errors.New("long")
