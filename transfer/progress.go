package transfer

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress shows in one line of a terminal how far a transfer is: what is done
// of the whole, in its own unit, and the samples so far. A nil *Progress shows
// nothing.
type Progress struct {
	w   io.Writer
	now func() time.Time

	mu      sync.Mutex // guards what follows
	what    string
	began   time.Time
	shown   time.Time
	done    float64 // of whole
	whole   float64 // 0: not known
	samples uint64
	width   int // of the line that is shown
}

// NewProgress shows progress on w, a terminal.
func NewProgress(w io.Writer) *Progress { return &Progress{w: w, now: time.Now} }

// progressEvery is how often the line changes.
const progressEvery = 200 * time.Millisecond

// begin begins a step. whole is 0 when nobody knows how much there is.
func (p *Progress) begin(what string, whole float64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.whole, p.done, p.samples, p.began, p.shown = what, whole, 0, 0, p.now(), time.Time{}
}

// at says how far the step is.
func (p *Progress) at(done float64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
	p.show(false)
}

// add says how many samples more are through.
func (p *Progress) add(samples int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples += uint64(samples)
	p.show(false)
}

// end takes the line away: the step is over.
func (p *Progress) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.what = ""
}

func (p *Progress) clear() {
	if p.width > 0 {
		fmt.Fprint(p.w, "\r"+strings.Repeat(" ", p.width)+"\r")
	}
	p.width = 0
}

// Aside returns a writer to the same terminal, for whole lines of others: the
// progress makes room for them. Of a nil *Progress it is w.
func (p *Progress) Aside(w io.Writer) io.Writer {
	if p == nil {
		return w
	}
	return aside{p, w}
}

type aside struct {
	p *Progress
	w io.Writer
}

// Write writes what stands beside the progress.
func (a aside) Write(b []byte) (int, error) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.p.clear()
	n, err := a.w.Write(b)
	if a.p.what != "" {
		a.p.show(true)
	}
	return n, err
}

// barWidth is how many characters the bar has.
const barWidth = 30

func (p *Progress) show(now bool) {
	at := p.now()
	if !now && at.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = at
	line := p.what
	spent := at.Sub(p.began)
	if p.whole > 0 {
		part := min(1, max(0, p.done/p.whole))
		full := int(part * barWidth)
		line += fmt.Sprintf(" [%s%s] %3.0f%%", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*part)
		if part > 0.01 && spent > 2*time.Second {
			line += fmt.Sprintf(" %v left", time.Duration(float64(spent)*(1-part)/part).Round(time.Second))
		}
	}
	line += fmt.Sprintf(" %s samples", short(float64(p.samples)))
	if spent > time.Second {
		line += fmt.Sprintf(", %s/s", short(float64(p.samples)/spent.Seconds()))
	}
	pad := max(0, p.width-len(line))
	fmt.Fprint(p.w, "\r"+line+strings.Repeat(" ", pad))
	p.width = len(line)
}

// short formats a number in few characters.
func short(v float64) string {
	for _, unit := range []string{"", "k", "M", "G"} {
		if v < 1000 {
			if unit == "" || v >= 100 {
				return fmt.Sprintf("%.0f%s", v, unit)
			}
			return fmt.Sprintf("%.1f%s", v, unit)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.1fT", v)
}
