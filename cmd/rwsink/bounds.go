package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"
)

// span is what the number of a flag may be, both ends included; zero says that
// 0 is something of its own and allowed, too.
type span struct {
	least, most float64 // nanoseconds, bytes, things or percent, as the flag has it
	zero        bool
}

const (
	minute = float64(time.Minute)
	day    = 24 * float64(time.Hour)
	year   = 365 * day
	// longest is the longest duration that there is, which reaches beyond any sample.
	longest = float64(math.MaxInt64)
)

// bounds are what the numbers among the flags may be, by flag, in all commands
// alike. Outside of them a value is a slip, does nothing, or breaks something later.
var bounds = map[string]span{
	"storage.retention.time": {float64(time.Millisecond), longest, true},
	// A segment of the log is 128 MiB, and removed as a whole; two are the least
	// that leave room for blocks.
	"storage.retention.size": {256 << 20, 1 << 60, true},
	"storage.wal-max-size":   {128 << 20, 1 << 60, false},
	// Merges make ranges of 729 times as long, in milliseconds.
	"storage.block-duration": {minute, 31 * day, false},
	"storage.head-memory":    {1 << 20, 1 << 50, false},
	// A chunk of a block has four times as many and must have room for as many again.
	"storage.chunk-samples": {1, 8191, false},
	"storage.exemplars":     {1, 10_000_000, true}, // 100 bytes each, taken at start
	"ooo.window":            {float64(time.Millisecond), longest, true},
	"limits.max-future":     {float64(time.Millisecond), longest, true},
	"limits.body":           {1 << 10, 4<<30 - 1, false}, // snappy's lengths have 32 bits
	"limits.decoded":        {1 << 10, 4<<30 - 1, false},
	"limits.in-flight":      {1, 1_000_000, false},
	"limits.series":         {1, 1e9, true},
	"limits.labels":         {1, 100_000, false},
	"limits.max-memory":     {64 << 20, 1 << 50, true},
	"read.sample-limit":     {1, 1e12, true},
	"read.concurrent-limit": {1, 1_000_000, true},
	"read.max-frame-bytes":  {1 << 10, 50_000_000, false}, // clients refuse more

	"block-duration": {minute, longest, false}, // of export

	"protocol":   {1, 2, false},
	"series":     {1, 1 << 28, false},
	"samples":    {1, 1 << 28, false},
	"interval":   {4 * float64(time.Millisecond), year, false}, // shorter than what scrapes are late
	"labels":     {2, 200, false},
	"churn":      {0, 100, false},
	"late":       {0, 100, false},
	"late-far":   {0, 100, false},
	"late-bound": {float64(time.Millisecond), year, false},
	"request":    {1, 1_000_000, false},
	"entry":      {1, 1_000_000, false},
	"clients":    {1, 10_000, false},
	"in-flight":  {1, 10_000, false},
	"rate":       {0.001, 1e12, true},
	"duration":   {float64(time.Millisecond), year, true},
	"pid":        {1, 1 << 22, true},
	"rest":       {0, day, false},
	"rounds":     {1, 1000, false},
	"scale":      {0.0001, 100, false},
}

// needed are the texts among the flags that may not be empty, and what they are.
var needed = map[string]string{
	"storage.path":       "a directory",
	"web.listen-address": "an address such as :9201",
	"url":                "a URL",
	"listen-address":     "an address such as :9301",
}

// headShare is the part of --limits.max-memory that samples of long ago take at most, unless told.
const headShare = 4

// relations are those between flags of serve; each is judged once all are read.
func (c *config) relations() error {
	most := c.limits.maxMemory
	switch {
	case most == 0:
	case !c.storage.headMemorySet:
		c.storage.headMemory = min(c.storage.headMemory, most/headShare)
	case c.storage.headMemory >= most:
		return fmt.Errorf("--storage.head-memory=%s: want less than --limits.max-memory, which is %s", &c.storage.headMemory, &most)
	}
	return nil
}

// checked gives the numbers among the flags of a command their bounds, which the
// help of each tells, too, and has the errors of all values say which flag they are of.
func checked(cmd *kingpin.CmdClause) {
	for _, f := range cmd.Model().Flags {
		if f.IsBoolFlag() {
			continue
		}
		v := named{Value: f.Value, flag: f.Name}
		clause := cmd.GetFlag(f.Name)
		_, form, ok := quantity(f.Value)
		if s, bounded := bounds[f.Name]; bounded != ok {
			panic(fmt.Sprintf("BUG: flag --%s is a number: %t, has bounds: %t", f.Name, ok, bounded))
		} else if ok {
			v.span, v.form = &s, form
			clause.Help(fmt.Sprintf("%s (%s)", f.Help, s.text(form)))
		}
		clause.SetValue(v)
	}
}

// named is a flag's value that knows the flag's name and bounds.
type named struct {
	kingpin.Value
	flag string
	span *span // nil for what is not a number
	form func(float64) string
}

func (n named) Set(s string) error {
	err := n.Value.Set(s)
	var num *strconv.NumError
	switch notANumber := errors.As(err, &num); {
	case err == nil:
	case notANumber && n.span != nil:
		return fmt.Errorf("--%s=%s: want %s", n.flag, s, n.span.text(n.form))
	case notANumber:
		return fmt.Errorf("--%s=%s: want a number: %w", n.flag, s, num.Err)
	case n.span != nil:
		return fmt.Errorf("--%s=%s: want %s: %w", n.flag, s, n.span.text(n.form), err)
	default:
		return fmt.Errorf("--%s=%s: %w", n.flag, s, err)
	}
	if what, ok := needed[n.flag]; ok && s == "" {
		return fmt.Errorf("--%s=: want %s", n.flag, what)
	}
	if n.span == nil {
		return nil
	}
	if got, _, _ := quantity(n.Value); !n.span.holds(got) {
		return fmt.Errorf("--%s=%s: want %s", n.flag, s, n.span.text(n.form))
	}
	return nil
}

func (n named) IsCumulative() bool {
	v, ok := n.Value.(interface{ IsCumulative() bool })
	return ok && v.IsCumulative()
}

// holds says whether v is allowed; no NaN is.
func (s *span) holds(v float64) bool {
	return v >= s.least && v <= s.most || s.zero && v == 0
}

// text says what is allowed.
func (s *span) text(form func(float64) string) string {
	text := form(s.least) + " to " + form(s.most)
	if s.zero {
		return "0, or " + text
	}
	return text
}

// quantity returns the number that a flag's value is, and how such a number is
// written; ok is false when it is something else.
func quantity(v kingpin.Value) (n float64, form func(float64) string, ok bool) {
	switch v := v.(type) {
	case *model.Duration:
		return float64(*v), duration, true
	case *window:
		return float64(max(0, *v)), duration, true
	case *size:
		return float64(*v), byteSize, true
	case *count:
		return float64(*v), number, true
	case kingpin.Getter:
		switch x := v.Get().(type) {
		case time.Duration:
			return float64(x), goDuration, true
		case int:
			return float64(x), number, true
		case uint:
			return float64(x), number, true
		case float64:
			return x, number, true
		}
	}
	return 0, nil, false
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// duration writes nanoseconds.
func duration(v float64) string {
	switch {
	case v == 0:
		return "0s"
	case v >= longest: // which no int64 holds, rounded as it is
		return number(math.Floor(v/year)) + "y"
	case math.Mod(v, year) == 0:
		return number(v/year) + "y"
	case math.Mod(v, day) == 0:
		return number(v/day) + "d"
	}
	return model.Duration(v).String()
}

// goDuration writes nanoseconds for the flags that take no days.
func goDuration(v float64) string {
	s := time.Duration(v).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// byteSize writes a size: with a unit where that is a whole number, or else as it is.
func byteSize(v float64) string {
	if n := int64(v); n%(1<<10) == 0 && n > 0 {
		return units.Base2Bytes(n).String()
	}
	return number(v)
}
