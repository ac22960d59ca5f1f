package chunkenc

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/prometheus/prometheus/model/value"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Dump prints a chunk or time column field by field: the offset of each in bytes,
// its name, and what it says. It prints as far as the bytes make sense; the error
// says where they stop doing so.
func Dump(w io.Writer, data []byte) error {
	h, err := readHeader(data)
	if err != nil {
		return err
	}
	p := &dumper{w: w, data: data, h: &h, at: h.size}
	p.header()
	switch {
	case h.enc == EncTime:
		p.ints("times", h.n)
	case isFloat(h.enc):
		if !h.shared() {
			p.ints("times", h.n)
		}
		if h.start() {
			p.ints("starts", h.n)
		}
		p.values()
	default:
		if h.start() {
			p.ints("starts", h.n)
		}
		p.histogram()
	}
	if p.err == nil && p.at != len(data) {
		p.fail("%d bytes follow", len(data)-p.at)
	}
	return p.err
}

// dumper walks over a chunk; the first fault ends the printing.
type dumper struct {
	w    io.Writer
	data []byte
	h    *header
	at   int
	err  error
}

// print prints a field that starts at an offset.
func (p *dumper) print(at int, name, format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf("%6d  %-22s  %s", at, name, fmt.Sprintf(format, args...)), " "))
	}
}

func (p *dumper) fail(format string, args ...any) {
	if p.err == nil {
		p.err = corrupt(p.h.enc, min(p.at, len(p.data)), format, args...)
	}
}

func (p *dumper) header() {
	p.print(0, "encoding", "0x%02x %v", p.data[0], p.h.enc)
	var flags []string
	if p.h.shared() {
		flags = append(flags, "shared times")
	}
	if p.h.start() {
		flags = append(flags, "starts")
	}
	if isFloat(p.h.enc) {
		flags = append(flags, "values as "+schemeName(p.h.flags>>schemeShift))
	}
	p.print(1, "flags", "0x%02x %s", p.h.flags, strings.Join(flags, ", "))
	at := refOffset
	if ref, ok := TimeRef(p.data); ok {
		p.print(at, "time reference", "%d", ref)
		at += 8
	}
	p.print(at, "n", "%d", p.h.n)
}

func schemeName(scheme byte) string {
	e := scheme & 15
	switch {
	case scheme >= schemeULP:
		return fmt.Sprintf("ulp, e=%d", e)
	case scheme >= schemeDecimal:
		return fmt.Sprintf("decimal, e=%d", e)
	case scheme >= schemeConstDec:
		return fmt.Sprintf("constdec, e=%d", e)
	case scheme <= schemePlain:
		return [...]string{"bits", "const", "xor", "plain"}[scheme]
	}
	return fmt.Sprintf("unknown scheme %d", scheme)
}

// varint, uvarint and bytes take a field, print it when it has a name, and return it.
func (p *dumper) varint(name string) int64 {
	v, size := binary.Varint(p.data[p.at:])
	return p.took(name, size, v)
}

func (p *dumper) uvarint(name string) int {
	v, size := binary.Uvarint(p.data[p.at:])
	if v > MaxSamples {
		p.fail("%s is %d", name, v)
		return 0
	}
	return int(p.took(name, size, int64(v)))
}

func (p *dumper) took(name string, size int, v int64) int64 {
	if size <= 0 {
		p.fail("%s cut short", name)
	}
	if p.err != nil {
		return 0
	}
	p.print(p.at, name, "%d", v)
	p.at += size
	return v
}

func (p *dumper) bytes(name string, n int, format string, args ...any) []byte {
	if p.err == nil && (n < 0 || n > len(p.data)-p.at) {
		p.fail("%s: %d bytes of %d", name, n, len(p.data)-p.at)
	}
	if p.err != nil {
		return make([]byte, max(0, min(n, MaxSamples)))
	}
	b := p.data[p.at : p.at+n]
	p.print(p.at, name, "%s", strings.TrimSpace(fmt.Sprintf("<%db> ", n)+fmt.Sprintf(format, args...)))
	p.at += n
	return b
}

// ints prints a column of n integers.
func (p *dumper) ints(name string, n int) {
	if p.h.enc == EncRaw {
		p.bytes(name, 8*n, "")
		return
	}
	if p.err != nil || p.at >= len(p.data) {
		p.fail("%s cut short", name)
		return
	}
	mode := p.data[p.at]
	pred, shift := mode&predMask, mode>>2
	if pred == predOther {
		p.form(name, n, shift)
		return
	}
	p.print(p.at, name, "%s of %d, shift %d", [...]string{"delta", "raw", "linear"}[pred], n, shift)
	p.at++
	p.varint("  x[0]")
	if pred == predLinear {
		p.varint("  slope")
	}
	if shift == shiftAll0 {
		return
	}
	for i := 1; i < n && p.err == nil; i += blockLen {
		p.block(min(blockLen, n-i))
	}
}

func (p *dumper) block(m int) {
	if p.at >= len(p.data) {
		p.fail("block cut short")
		return
	}
	head := p.data[p.at]
	width := int(head & widthMask)
	p.print(p.at, "  block", "%d of width %d", m, width)
	p.at++
	p.varint("    base")
	if head&excFlag != 0 {
		e := p.bytes("    exceptions", 2, "")
		count, excWidth := int(e[0])+1, int(e[1])
		if posBits*count >= m || excWidth > maxPaired {
			p.bytes("      bitmap", (m+7)/8, "")
		} else {
			excWidth += posBits
		}
		p.bytes("      numbers", (count*excWidth+7)/8, "%d of width %d", count, excWidth)
	}
	p.bytes("    numbers", (m*width+7)/8, "")
}

// form prints a column with predictor 3.
func (p *dumper) form(name string, n int, form byte) {
	at := p.at
	switch form {
	case formBits:
		var r intReader
		_, next, err := r.read(nil, p.data, at, n, p.h.enc)
		if err != nil {
			p.err = err
			return
		}
		p.print(at, name, "XOR bits of %d", n)
		p.at++
		p.varint("  x[0]")
		p.bytes("  differences", next-p.at, "")
	case formRunList:
		p.print(at, name, "list of runs of %d", n)
		p.at++
		k := p.uvarint("  k-1")
		p.ints("  lengths", k)
		p.ints("  values", k+1)
	case formRunMap:
		p.print(at, name, "bitmap of runs of %d", n)
		p.at++
		k := 1
		for _, b := range p.bytes("  bitmap", (n+6)/8, "") {
			for ; b != 0; b &= b - 1 {
				k++
			}
		}
		p.ints("  values", k)
	default:
		p.fail("unknown form %d", form)
	}
}

// values prints the column of values.
func (p *dumper) values() {
	scheme := p.h.flags >> schemeShift
	switch {
	case scheme == schemeBits:
		p.ints("bits", p.h.n)
	case scheme == schemeConst:
		p.float("value", binary.LittleEndian)
	case scheme == schemeXOR:
		next, err := readValueBits(make([]float64, p.h.n), p.data, min(p.at, len(p.data)), p.h.enc)
		if err != nil {
			p.err = err
			return
		}
		start := p.at
		p.float("value[0]", binary.BigEndian)
		p.bytes("XOR bits", next-start-8, "")
	case scheme == schemePlain:
		p.bytes("values", 8*p.h.n, "")
	case scheme >= schemeDecimal:
		p.exceptions()
		p.ints("decimals", p.h.n)
		if scheme >= schemeULP {
			p.ints("ulps", p.h.n)
		}
	case scheme >= schemeConstDec:
		p.varint("decimal")
	}
}

func (p *dumper) float(name string, order binary.ByteOrder) {
	at := p.at
	if len(p.data)-at >= 8 {
		p.bytes(name, 8, "%v", math.Float64frombits(order.Uint64(p.data[at:])))
	} else {
		p.fail("%s cut short", name)
	}
}

func (p *dumper) exceptions() {
	count := p.uvarint("exceptions")
	k := 0
	for i := 0; i < count && p.err == nil; i++ {
		at := p.at
		gap, size := binary.Uvarint(p.data[at:])
		if size <= 0 || gap>>1 >= uint64(p.h.n) {
			p.fail("exception cut short or out of place")
			return
		}
		p.at += size
		k += int(gap >> 1)
		u := value.StaleNaN
		if gap&1 == 0 {
			if len(p.data)-p.at < 8 {
				p.fail("exception cut short")
				return
			}
			u = binary.LittleEndian.Uint64(p.data[p.at:])
			p.at += 8
		}
		p.print(at, fmt.Sprintf("  value[%d]", k), "%016x", u)
	}
}

// histogram prints what is around a Prometheus chunk.
func (p *dumper) histogram() {
	size := p.uvarint("len")
	at := p.at
	b := p.bytes("Prometheus chunk", size, "")
	if p.err != nil {
		return
	}
	if at, err := checkLayout(b, p.h.n, p.h.enc == EncFloatHistogram); err != nil {
		p.err = corrupt(p.h.enc, p.at-size+at, "%w", err)
		return
	}
	p.print(at, "  count", "%d", binary.BigEndian.Uint16(b))
	known := promenc.CounterResetHeader(b[promFlags] & promenc.CounterResetHeaderMask)
	p.print(at+promFlags, "  flags", "%s", map[promenc.CounterResetHeader]string{
		promenc.GaugeType: "gauge", promenc.CounterReset: "counter reset",
		promenc.NotCounterReset: "no counter reset", promenc.UnknownCounterReset: "unknown",
	}[known])
}
