package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"

	"github.com/rwsink/rwsink/bench/load"
	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/query"
)

// commands are those with flags, each with the arguments that it must have.
var commands = []struct {
	name   string
	define func(app *kingpin.Application)
	args   []string
}{
	{"serve", func(app *kingpin.Application) { serveFlags(app.Command("serve", "")) }, nil},
	{"import", func(app *kingpin.Application) { importFlags(app.Command("import", "")) }, []string{"in"}},
	{"export", func(app *kingpin.Application) { exportFlags(app.Command("export", "")) }, []string{"out"}},
	{"bench load", func(app *kingpin.Application) { benchFlags(app) }, nil},
	{"bench floor", func(app *kingpin.Application) { benchFlags(app) }, nil},
	{"bench ooo", func(app *kingpin.Application) { benchFlags(app) }, nil},
	{"bench peers", func(app *kingpin.Application) { benchFlags(app) }, nil},
	{"bench goals", func(app *kingpin.Application) { benchFlags(app) }, nil},
	{"bench sink", func(app *kingpin.Application) { benchFlags(app) }, nil},
}

// values are what each flag takes and what it refuses, in all commands alike, and
// what the refusal says is allowed. A flag that takes any text refuses nothing.
var values = map[string]struct {
	taken, refused []string
	allowed        string
}{
	"web.listen-address": {[]string{":0", "127.0.0.1:9201"}, []string{""}, "want an address such as :9201"},
	"web.config.file":    {[]string{"", "web.yml"}, nil, ""},

	"storage.path":           {[]string{"data", "/a b"}, []string{""}, "want a directory"},
	"storage.retention.time": {[]string{"0", "0s", "1ms", "1s", "2h", "15d", "1y6w", "100y", "200y", "292y24w3d23h47m16s854ms"}, []string{"293y", "1000000y", "-15d", "15", "1.5d", "x", ""}, "want 0, or 1ms to 292y"},
	"storage.retention.size": {[]string{"0", "256MiB", "268435456", "1EiB"}, []string{"1", "255MiB", "2EiB", "-1", "-1GiB", "much", ""}, "want 0, or 256MiB to 1EiB"},
	"storage.wal-max-size":   {[]string{"128MiB", "2GiB", "1EiB"}, []string{"0", "0B", "1", "127MiB", "2EiB", "-1", "x", ""}, "want 128MiB to 1EiB"},
	"storage.block-duration": {[]string{"1m", "2h", "15d"}, []string{"0", "1ms", "59s", "32d", "-2h", "2", "x", ""}, "want 1m to 31d"},
	"storage.head-memory":    {[]string{"1MiB", "256MiB"}, []string{"0", "1", "1023KiB", "2PiB", "-1", "x", ""}, "want 1MiB to 1PiB"},
	"storage.wal-sync":       {[]string{"always", "interval", "never"}, []string{"sometimes", "Always", ""}, "always,interval,never"},
	"storage.chunk-encoding": {[]string{"delta", "raw"}, []string{"xor", ""}, "delta,raw"},
	"storage.chunk-samples":  {[]string{"1", "240", "8191"}, []string{"0", "8192", "-1", "1e3", "x", ""}, "want 1 to 8191"},
	"storage.exemplars":      {[]string{"0", "1", "10000000"}, []string{"10000001", "-1", "x", ""}, "want 0, or 1 to 10000000"},

	"ooo.window":        {[]string{"retention", "0", "0s", "1ms", "90m", "100y", "292y"}, []string{"293y", "-1m", "soon", "5", ""}, "want 0, or 1ms to 292y"},
	"limits.max-future": {[]string{"0", "1ms", "10m", "10y", "292y"}, []string{"293y", "-1s", "x", "5", ""}, "want 0, or 1ms to 292y"},

	"limits.body":       {[]string{"1KiB", "32MiB", "4294967295"}, []string{"0", "1", "1023", "4GiB", "-1", "-1MiB", "much", ""}, "want 1KiB to 4294967295"},
	"limits.decoded":    {[]string{"1KiB", "32MiB", "4294967295"}, []string{"0", "1", "1023", "4GiB", "-1", "x", ""}, "want 1KiB to 4294967295"},
	"limits.in-flight":  {[]string{"1", "1000000"}, []string{"0", "1000001", "-1", "x", ""}, "want 1 to 1000000"},
	"limits.series":     {[]string{"0", "1", "1000000000"}, []string{"1000000001", "-1", "x", ""}, "want 0, or 1 to 1000000000"},
	"limits.labels":     {[]string{"1", "100000"}, []string{"0", "100001", "-1", "x", ""}, "want 1 to 100000"},
	"limits.max-memory": {[]string{"0", "1GiB", "1PiB"}, []string{"1", "63MiB", "2PiB", "-1", "x", ""}, "want 0, or 64MiB to 1PiB"},

	"write.relabel-config": {[]string{"", "rules.yml"}, nil, ""},
	"write.refused-status": {[]string{"400", "204"}, []string{"500", "200", ""}, "400,204"},

	"read.sample-limit":     {[]string{"0", "1", "2147483648", "1000000000000"}, []string{"1000000000001", "-1", "x", ""}, "want 0, or 1 to 1000000000000"},
	"read.concurrent-limit": {[]string{"0", "1", "1000000"}, []string{"1000001", "-1", "x", ""}, "want 0, or 1 to 1000000"},
	"read.max-frame-bytes":  {[]string{"1KiB", "50000000"}, []string{"0", "1023", "50000001", "48MiB", "-1", "x", ""}, "want 1KiB to 50000000"},

	"external-label": {[]string{"a=1", "a=x=y"}, []string{"a", "=v", "a=", "a=\xff", "__name__=m", ""}, ""},
	"label":          {[]string{"a=1", "a=x=y", "ä.b=1"}, []string{"a", "=v", "a=", "a=\xff", "__name__=m", ""}, ""},

	"from":           {[]string{"0", "-1.5", "2024-01-01T00:00:00Z"}, []string{"soon", "NaN", "2024-01-01", ""}, "a time such as"},
	"to":             {[]string{"0", "-1.5", "2024-01-01T00:00:00Z"}, []string{"soon", "Inf", "2024-01-01", ""}, "a time such as"},
	"end":            {[]string{"0", "-1.5", "2024-01-01T00:00:00Z"}, []string{"soon", "1e300", "2024-01-01", ""}, "a time such as"},
	"format":         {[]string{"blocks", "json"}, []string{"csv", "JSON", ""}, "blocks"},
	"progress":       {[]string{"auto", "always", "never"}, []string{"often", ""}, "auto,always,never"},
	"match":          {[]string{"m", `{a="b"}`}, nil, ""}, // parsed when the command runs
	"block-duration": {[]string{"1m", "2h", "1y", "292y"}, []string{"0", "59s", "293y", "-1h", "x", ""}, "want 1m to 292y"},

	"url":            {[]string{"http://127.0.0.1:9201/api/v1/write"}, []string{""}, "want a URL"},
	"listen-address": {[]string{"127.0.0.1:0"}, []string{""}, "want an address such as :9301"},
	"protocol":       {[]string{"1", "2"}, []string{"0", "3", "-1", "x", ""}, "want 1 to 2"},
	"series":         {[]string{"1", "268435456"}, []string{"0", "268435457", "-1", "x", ""}, "want 1 to 268435456"},
	"samples":        {[]string{"1", "268435456"}, []string{"0", "268435457", "-1", "x", ""}, "want 1 to 268435456"},
	"interval":       {[]string{"4ms", "15s", "8760h"}, []string{"0", "3ms", "8761h", "-15s", "x", ""}, "want 4ms to 8760h"},
	"labels":         {[]string{"2", "10.4", "200"}, []string{"1.9", "200.5", "-1", "NaN", "x", ""}, "want 2 to 200"},
	"values":         {load.ValuesNames(), []string{"zeros", ""}, "mixed"},
	"churn":          {[]string{"0", "0.5", "100"}, []string{"100.5", "-1", "NaN", "x", ""}, "want 0 to 100"},
	"late":           {[]string{"0", "0.5", "100"}, []string{"100.5", "-1", "NaN", "x", ""}, "want 0 to 100"},
	"late-far":       {[]string{"0", "0.5", "100"}, []string{"100.5", "-1", "+Inf", "x", ""}, "want 0 to 100"},
	"late-bound":     {[]string{"1ms", "30m", "8760h"}, []string{"0", "8761h", "-1m", "x", ""}, "want 1ms to 8760h"},
	"request":        {[]string{"1", "1000000"}, []string{"0", "1000001", "-1", "x", ""}, "want 1 to 1000000"},
	"entry":          {[]string{"1", "1000000"}, []string{"0", "1000001", "-1", "x", ""}, "want 1 to 1000000"},
	"clients":        {[]string{"1", "10000"}, []string{"0", "10001", "-1", "x", ""}, "want 1 to 10000"},
	"seed":           {[]string{"0", "18446744073709551615"}, []string{"-1", "x", ""}, "want a number"},
	"in-flight":      {[]string{"1", "10000"}, []string{"0", "10001", "-1", "x", ""}, "want 1 to 10000"},
	"rate":           {[]string{"0", "0.001", "1e12"}, []string{"0.0001", "2e12", "-1", "NaN", "x", ""}, "want 0, or 0.001 to 1000000000000"},
	"duration":       {[]string{"0", "1ms", "8760h"}, []string{"1us", "8761h", "-1s", "x", ""}, "want 0, or 1ms to 8760h"},
	"pid":            {[]string{"0", "1", "4194304"}, []string{"4194305", "-1", "x", ""}, "want 0, or 1 to 4194304"},
	"path":           {[]string{"", "data"}, nil, ""},
	"rest":           {[]string{"0", "0s", "10s", "24h"}, []string{"25h", "-1s", "x", ""}, "want 0s to 24h"},
	"rounds":         {[]string{"1", "1000"}, []string{"0", "1001", "-1", "x", ""}, "want 1 to 1000"},
	"scale":          {[]string{"0.0001", "1", "100"}, []string{"0", "0.00001", "101", "-1", "NaN", "x", ""}, "want 0.0001 to 100"},
	"dir":            {[]string{"", "/tmp"}, nil, ""},
	"binary":         {[]string{"", "rwsink"}, nil, ""},
	"cache":          {[]string{".cache"}, nil, ""},
	"only":           {[]string{"", "a.*"}, nil, ""}, // compiled when the command runs
	"lock":           {[]string{"", "/tmp/lock"}, nil, ""},
}

// TestEveryFlagIsBounded tries every flag of every command.
func TestEveryFlagIsBounded(t *testing.T) {
	tried := map[string]bool{}
	for _, cmd := range commands {
		attempt := func(arg ...string) error {
			app := newApp(t)
			cmd.define(app)
			_, err := app.Parse(slices.Concat(strings.Fields(cmd.name), arg, cmd.args))
			return err
		}
		app := kingpin.New("rwsink", "")
		cmd.define(app)
		for _, f := range commandOf(t, app, cmd.name).Flags {
			if f.Name == "help" || f.IsBoolFlag() {
				continue
			}
			v, ok := values[f.Name]
			if !ok {
				t.Errorf("%s --%s: no values to try", cmd.name, f.Name)
				continue
			}
			tried[f.Name] = true
			for _, s := range v.taken {
				if err := attempt("--" + f.Name + "=" + s); err != nil {
					t.Errorf("%s --%s=%s is refused: %v", cmd.name, f.Name, s, err)
				}
			}
			for _, s := range v.refused {
				err := attempt("--" + f.Name + "=" + s)
				if err == nil || !strings.Contains(err.Error(), "--"+f.Name+"="+s+":") || strings.Contains(err.Error(), "strconv") {
					t.Errorf("%s --%s=%s: %v, want an error that names both, and no function", cmd.name, f.Name, s, err)
				} else if !strings.Contains(err.Error(), v.allowed) {
					t.Errorf("%s: %v, want %q", cmd.name, err, v.allowed)
				}
			}
			if s, ok := bounds[f.Name]; ok && !strings.Contains(f.Help, strings.TrimPrefix(v.allowed, "want ")) {
				t.Errorf("%s --%s: %+v are not in its help: %q", cmd.name, f.Name, s, f.Help)
			}
		}
	}
	for name := range values {
		if !tried[name] {
			t.Errorf("no command has --%s", name)
		}
	}
	for name := range bounds {
		if !tried[name] {
			t.Errorf("there are bounds for --%s, which no command has", name)
		}
	}
}

// commandOf returns what is known of a command, nested or not.
func commandOf(t *testing.T, app *kingpin.Application, name string) *kingpin.CmdModel {
	t.Helper()
	list := app.Model().Commands
	for {
		var found *kingpin.CmdModel
		word, rest, nested := strings.Cut(name, " ")
		for _, c := range list {
			if c.Name == word {
				found = c
			}
		}
		if found == nil {
			t.Fatalf("no command %s", word)
		}
		if !nested {
			return found
		}
		name, list = rest, found.Commands
	}
}

// TestFlagsThatContradict are refused together, each of them fine by itself.
func TestFlagsThatContradict(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string // "" is taken
	}{
		{[]string{"--storage.retention.time=1h"}, ""},
		{[]string{"--storage.retention.time=0", "--storage.block-duration=31d"}, ""},
		{[]string{"--limits.max-memory=256MiB"}, ""},
		{[]string{"--limits.max-memory=256MiB", "--storage.head-memory=256MiB"}, "--storage.head-memory=256MiB: want less than --limits.max-memory, which is 256MiB"},
		{[]string{"--limits.max-memory=256MiB", "--storage.head-memory=64MiB"}, ""},
		{[]string{"--external-label=a=1", "--external-label=a=2"}, "--external-label=a=2: label a is given twice"},
		{[]string{"--no-such-flag"}, "unknown"},
	} {
		if _, err := parse(t, tc.args...); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: error %v, want %q", tc.args, err, tc.want)
		}
	}
	for _, tc := range []struct {
		args []string
		want size
	}{
		{nil, 256 << 20},
		{[]string{"--limits.max-memory=200MiB"}, 50 << 20},
		{[]string{"--limits.max-memory=2GiB"}, 256 << 20},
		{[]string{"--limits.max-memory=300MiB", "--storage.head-memory=256MiB"}, 256 << 20},
	} {
		if c, err := parse(t, tc.args...); err != nil || c.storage.headMemory != tc.want {
			t.Errorf("%q: head memory %d, %v, want %d", tc.args, c.storage.headMemory, err, tc.want)
		}
	}
}

// TestBoundsFitThePackages holds the bounds to what the packages can do.
func TestBoundsFitThePackages(t *testing.T) {
	if most := int(bounds["storage.chunk-samples"].most); 4*most > chunkenc.MaxSamples/2 {
		t.Errorf("four times %d samples: a chunk has room for %d", most, chunkenc.MaxSamples/2)
	}
	if most := bounds["read.max-frame-bytes"].most; most < query.DefaultMaxFrameBytes {
		t.Errorf("frames of at most %g bytes, and the default is %d", most, query.DefaultMaxFrameBytes)
	}
	if widest := bounds["storage.block-duration"].most / 1e6 * math.Pow(3, 6); widest > math.MaxInt64/1e3 {
		t.Errorf("the widest ranges of merges are %g ms", widest)
	}
	for name, edges := range map[string]func(*load.Spec, int){
		"series":  func(s *load.Spec, n int) { s.Series = n },
		"samples": func(s *load.Spec, n int) { s.Samples = n },
		"labels":  func(s *load.Spec, n int) { s.Labels = float64(n) },
	} {
		for n, ok := range map[int]bool{int(bounds[name].least): true, int(bounds[name].most): true, int(bounds[name].least) - 1: false, int(bounds[name].most) + 1: false} {
			s := load.Canonical(1, 1000, 100, 0)
			s.Clients = 1
			if edges(&s, n); (s.Validate() == nil) != ok {
				t.Errorf("--%s=%d: the load says %v", name, n, s.Validate())
			}
		}
	}
}
