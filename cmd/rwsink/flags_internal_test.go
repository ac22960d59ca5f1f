package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/query"
	"github.com/rwsink/rwsink/wal"
)

func parse(t *testing.T, args ...string) (*config, error) {
	t.Helper()
	app := newApp(t)
	c := serveFlags(app.Command("serve", "").Default())
	app.Command("version", "")
	_, err := app.Parse(args)
	return c, err
}

func TestFlagDefaults(t *testing.T) {
	for _, args := range [][]string{nil, {"serve"}} {
		c, err := parse(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		if got := *c.web.WebListenAddresses; len(got) != 1 || got[0] != ":9201" {
			t.Errorf("listen addresses %q", got)
		}
		for _, tc := range []struct {
			name      string
			got, want any
		}{
			{"admin API", c.adminAPI, false},
			{"path", c.storage.path, "data"},
			{"retention", time.Duration(c.storage.retention), 15 * 24 * time.Hour},
			{"retention by size", c.storage.retentionSize, size(0)},
			{"head memory", c.storage.headMemory, size(256 << 20)},
			{"log size", c.storage.walMaxSize, size(2 << 30)},
			{"block duration", time.Duration(c.storage.blockDuration), 2 * time.Hour},
			{"sync", c.storage.syncPolicy(), wal.SyncAlways},
			{"encoding", c.storage.floatEncoding(), chunkenc.EncDelta},
			{"chunk samples", c.storage.chunkSamples, count(240)},
			{"exemplars", c.storage.exemplars, uint(100000)},
			{"trust clock", c.storage.trustClock, false},
			{"window", c.window, window(-1)},
			{"max future", time.Duration(c.limits.maxFuture), 10 * time.Minute},
			{"body", c.limits.body, size(32 << 20)},
			{"decoded", c.limits.decoded, size(32 << 20)},
			{"in flight", c.limits.inFlight, count(256)},
			{"series", c.limits.series, uint(0)},
			{"labels", c.limits.labels, count(256)},
			{"memory", c.limits.maxMemory, size(0)},
			{"refused status", c.write.refusedStatus, "400"},
			{"sample limit", c.read.sampleLimit, count(50_000_000)},
			{"concurrent reads", c.read.concurrency, count(10)},
			{"frame", c.read.maxFrameBytes, size(query.DefaultMaxFrameBytes)},
			{"external labels", c.externalLabels.labels().Len(), 0},
		} {
			if tc.got != tc.want {
				t.Errorf("%q: %s is %v, want %v", args, tc.name, tc.got, tc.want)
			}
		}
	}
}

func TestFlagValues(t *testing.T) {
	c, err := parse(t, "--ooo.window=90m", "--storage.retention.time=0", "--limits.body=1MiB", "--limits.max-memory=2GiB",
		"--storage.wal-sync=never", "--storage.chunk-encoding=raw", "--limits.decoded=7777",
		"--storage.head-memory=64MiB", "--storage.wal-max-size=1GiB", "--storage.retention.size=10GiB",
		"--external-label=b=2", "--external-label=a=x=y", "--web.listen-address=127.0.0.1:1", "--web.listen-address=127.0.0.1:2")
	if err != nil {
		t.Fatal(err)
	}
	if c.window != window(90*time.Minute) || c.storage.retention != 0 || c.limits.body != 1<<20 || c.limits.decoded != 7777 || c.limits.maxMemory != 2<<30 {
		t.Errorf("%+v", c)
	}
	if c.storage.headMemory != 64<<20 || c.storage.walMaxSize != 1<<30 || c.storage.retentionSize != 10<<30 {
		t.Errorf("sizes %+v", c.storage)
	}
	if c.storage.syncPolicy() != wal.SyncNever || c.storage.floatEncoding() != chunkenc.EncRaw {
		t.Errorf("%+v", c.storage)
	}
	if want := labels.FromStrings("a", "x=y", "b", "2"); !labels.Equal(c.externalLabels.labels(), want) {
		t.Errorf("external labels %v, want %v", c.externalLabels.labels(), want)
	}
	if got := *c.web.WebListenAddresses; len(got) != 2 {
		t.Errorf("addresses %q", got)
	}
}

func TestRelabelFile(t *testing.T) {
	if rules, err := loadRelabel(""); err != nil || len(rules) != 0 {
		t.Fatalf("no file: %v, %v", rules, err)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "no rule in it"},
		{"a comment", "# none yet\n", "no rule in it"},
		{"an empty list", "[]\n", ""},
		{"one rule", "- source_labels: [a]\n  regex: x|y\n  action: drop\n", ""},
		{"unknown field", "- source_label: [a]\n  action: drop\n", "source_label"},
		{"unknown field of the second", "- action: drop\n  source_labels: [a]\n- source_label: [a]\n", "rule 2: yaml: unmarshal errors:\n  line 3"},
		{"unknown action", "- action: dorp\n", `rule 1: unknown relabel action "dorp"`},
		{"bad regex", "- source_labels: [a]\n  regex: '('\n  action: drop\n", "rule 1: error parsing regexp: missing closing"},
		{"no target", "- source_labels: [a]\n  action: replace\n", "rule 1: "},
		{"a rule of nothing", "- action: drop\n  source_labels: [a]\n-\n", "rule 2 is empty"},
		{"not a list", "write_relabel_configs: []\n", "want a list of rules, without a key above it"},
		{"a text for a rule", "- drop\n", "rule 1: "},
		{"not YAML", "\t{", "yaml"},
	} {
		file := filepath.Join(t.TempDir(), "relabel.yml")
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := loadRelabel(file)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file)):
			t.Errorf("%s: error %v, want one with %q and the file's name", tc.name, err, tc.want)
		}
	}
	if _, err := loadRelabel(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "--write.relabel-config=/") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestReadmeListsFlags holds the table of flags in the README, which has those that
// are set most often, to the flags there are and their defaults.
func TestReadmeListsFlags(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	app := kingpin.New("rwsink", "")
	cmd := app.Command("serve", "").Default()
	serveFlags(cmd)
	defaults := map[string]string{}
	for _, f := range cmd.Model().Flags {
		defaults[f.Name] = strings.Join(f.Default, "")
		if f.IsBoolFlag() {
			defaults[f.Name] = "off"
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `--([^`]+)` \\| `?([^`|]*?)`? ?\\|").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 10 {
		t.Errorf("README lists %d flags", len(rows))
	}
	for _, row := range rows {
		want, ok := defaults[row[1]]
		if !ok || row[2] != want && row[1] != "limits.max-memory" {
			t.Errorf("README gives --%s the default %q, want %q of %v", row[1], row[2], want, ok)
		}
	}
}
