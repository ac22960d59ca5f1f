package receiver

import (
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

func TestExemplarLabels(t *testing.T) {
	l := label1Field
	var many [][]byte
	for range 200 {
		many = append(many, l("a", ""))
	}
	tests := []struct {
		name   string
		labels []byte
		want   labels.Labels
		bad    string
	}{
		{"none", nil, labels.EmptyLabels(), ""},
		{"sorted", join(l("a", "1"), l("b", "2")), labels.FromStrings("a", "1", "b", "2"), ""},
		{"unsorted", join(l("b", "2"), l("a", "1")), labels.FromStrings("a", "1", "b", "2"), ""},
		{"128 characters", l("a", strings.Repeat("é", 127)), labels.FromStrings("a", strings.Repeat("é", 127)), ""},
		{"129 characters", l("a", strings.Repeat("é", 128)), labels.EmptyLabels(), "more than 128 characters together: 129"},
		{"many labels", join(many...), labels.EmptyLabels(), "more than 128 characters together"},
		{"twice", join(l("a", "1"), l("b", "2"), l("a", "3")), labels.EmptyLabels(), `label name "a" is given twice`},
		{"no name", l("", "1"), labels.EmptyLabels(), "empty name"},
		{"bad UTF-8", l("a", "\xff"), labels.EmptyLabels(), `"a"="\xff" is not valid UTF-8`},
	}
	var sb labels.ScratchBuilder
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var x rawExemplar
			if err := x.decode1(join(test.labels, fieldDouble(2, 1.5), fieldVarint(3, 9)), 0); err != nil {
				t.Fatal(err)
			}
			got, bad := x.build(&sb)
			if !labels.Equal(got, test.want) || (bad == "") != (test.bad == "") || !strings.Contains(bad, test.bad) {
				t.Errorf("got %v %q, want %v %q", got, bad, test.want, test.bad)
			}
			if x.v != 1.5 || x.t != 9 {
				t.Errorf("got value %v and time %d, want 1.5 and 9", x.v, x.t)
			}
		})
	}
}

func TestExemplarReferences(t *testing.T) {
	var sb labels.ScratchBuilder
	_, s := only2(t, join(fieldString(4, ""), fieldString(4, "trace"), fieldString(4, "x"), fieldBytes(5)))
	many := make([]uint64, 1000)
	for i := range many {
		many[i] = 1
	}
	tests := []struct {
		name string
		refs []byte
		want labels.Labels
		bad  string
	}{
		{"packed", fieldBytes(1, packed(1, 2)), labels.FromStrings("trace", "x"), ""},
		{"single", join(fieldVarint(1, 1), fieldVarint(1, 2)), labels.FromStrings("trace", "x"), ""},
		{"odd", fieldBytes(1, packed(1)), labels.EmptyLabels(), "1 references"},
		{"out of range", fieldBytes(1, packed(1, 3)), labels.EmptyLabels(), "names symbol 3 of 3"},
		{"beyond 32 bits", fieldBytes(1, packed(1, 1<<32)), labels.EmptyLabels(), "names symbol 4294967296 of 3"},
		{"many", fieldBytes(1, packed(many...)), labels.EmptyLabels(), "more than 128 characters"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var x rawExemplar
			if err := x.decode2(test.refs, 0, s); err != nil {
				t.Fatal(err)
			}
			got, bad := x.build(&sb)
			if !labels.Equal(got, test.want) || (bad == "") != (test.bad == "") || !strings.Contains(bad, test.bad) {
				t.Errorf("got %v %q, want %v %q", got, bad, test.want, test.bad)
			}
		})
	}
}
