package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is text in columns, as Markdown.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// begin writes the head of a table whose rows follow one by one.
func (t *table) begin(w io.Writer) {
	t.row(w, t.head...)
	t.row(w, slices.Repeat([]string{"---"}, len(t.head))...)
}

// row writes a row at once.
func (t *table) row(w io.Writer, cells ...string) {
	fmt.Fprintln(w, "| "+strings.Join(cells, " | ")+" |")
}

// print writes the table, its columns aligned.
func (t *table) print(w io.Writer) {
	width := make([]int, len(t.head))
	all := append([][]string{t.head}, t.rows...)
	for _, row := range all {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	line := func(row []string) {
		var b strings.Builder
		for i := range width {
			cell := ""
			if i < len(row) {
				cell = row[i]
			}
			b.WriteString("| " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+1))
		}
		fmt.Fprintln(w, b.String()+"|")
	}
	line(t.head)
	rule := make([]string, len(width))
	for i, n := range width {
		rule[i] = strings.Repeat("-", n)
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
	fmt.Fprintln(w)
}

// mb writes bytes in units of a million.
func mb(n int64) string { return fmt.Sprintf("%.0f", float64(n)/1e6) }
