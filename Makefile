# `make` or `make build` gives bin/rwsink; `make test` passes every test of the program.

SHELL   := /bin/bash
GO      ?= go
# What end-to-end tests build once: Prometheus and, where there is an engine, the compose tool.
CACHE   ?= $(or $(RWSINK_CACHE),$(CURDIR)/.cache)
VERSION ?= $(shell cat VERSION)
REVISION := $(shell git rev-parse --short HEAD 2>/dev/null)
V       := github.com/prometheus/common/version
LDFLAGS := -s -w -X $(V).Version=$(VERSION) -X $(V).Revision=$(REVISION)

FUZZTIME ?= 20s
COUNT    ?= 6
REF      ?= main
PKG      ?= ./...
TESTFLAGS ?= # for the tests of make test, such as -v

export RWSINK_CACHE := $(CACHE)
# Everything but the race detector builds in one way, so that what is compiled is shared; bin/rwsink,
# and what is tested end to end, are optimised by the profile in cmd/rwsink.
export CGO_ENABLED := 0
PLAIN := $(shell $(GO) env GOFLAGS)
export GOFLAGS := $(PLAIN) -trimpath -pgo=off

.PHONY: all help build test vet unit race pgo bench bench-all bench-codec bench-compare bench-floor bench-ooo bench-goals bench-peers fuzz soak e2e e2e-short image up clean

all: build

help:
	@printf '%-12s %s\n' build 'bin/rwsink, what make alone makes' test 'vet, unit and race: every test of the program' \
	  vet 'gofmt and go vet' unit 'the tests as they are' race 'the tests under the race detector' \
	  e2e 'real Prometheus servers, kill -9, the compose stack; e2e-short is the same for less long' \
	  fuzz 'every fuzz target for FUZZTIME' soak 'longer runs of the tests that are drawn' \
	  bench 'benchmarks of PKG; bench-compare sets those of REF beside them, bench-codec the goals of the codec' \
	  bench-floor 'what receiving costs; bench-ooo, bench-goals and bench-peers too, bench-all all of them: docs/bench.md' \
	  pgo 'the profile that bin/rwsink is optimised by, made anew: two idle CPUs for two minutes (docs/bench.md)' \
	  image 'the image IMAGE; up starts the compose stack with it' clean 'removes bin and .cache'

build:
	$(GO) build -pgo=auto -ldflags '$(LDFLAGS)' -o bin/rwsink ./cmd/rwsink

# Everything twice: as it runs in production but for the profile, where allocations are counted, and under the race detector.
test: vet unit race

vet:
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt wants: $$out"; exit 1; }
	$(GO) vet ./...
	$(GO) -C e2e vet ./...

# The longest begin first: at the end both CPUs have something to do.
LONGEST := ./acceptance ./transfer ./store
unit:
	$(GO) test -timeout 20m $(TESTFLAGS) $(LONGEST) ./...

# The race detector is linked by a C compiler; .ci/run sees to it that there is one. Of the
# acceptance tests it watches those in which things run at once; a program of one request at a
# time has no races, and runs ten times as long under it. For the same reason -short cuts what
# one goroutine does over and over (testing.Short), and the tests of the tree are left out; the
# plain run does all of it. Before it ends, a process under the race detector sleeps a second, for
# what may still run; the tests wait for what they start, and end hundreds of processes.
AT_ONCE := Race|Parallel|Concurrent|Across|SIGTERM|GoAway|Alias|Connections
race:
	@if command -v $${CC:-gcc} >/dev/null; \
	then set -ex; export CGO_ENABLED=1 GOFLAGS='$(PLAIN) -pgo=off' GORACE="atexit_sleep_ms=20 $$GORACE"; \
	  $(GO) test -race -short -timeout 20m $(TESTFLAGS) $$($(GO) list $(LONGEST) ./... | grep -vE '/acceptance$$|/internal/tidy$$'); \
	  $(GO) test -race -short -timeout 20m $(TESTFLAGS) -run '$(AT_ONCE)' ./acceptance; \
	else echo "no C compiler: not run under the race detector"; fi

bench:
	$(GO) test -run '^$$' -bench . -benchmem $(PKG)

# Figures of the codec and of the merge beside their goals; CODEC_DATA names a directory with fuller series.
bench-codec:
	$(GO) test -run '^$$' -bench '^BenchmarkTable$$' -benchtime 1x -p 1 ./chunkenc ./ooo

# The profile that the compiler optimises bin/rwsink by. It needs two CPUs that do nothing else for two minutes.
pgo: build
	GO='$(GO)' cmd/rwsink/pgo.sh
	$(MAKE) build

# The benchmarks of REF and of the work tree, interleaved, as benchstat tells them apart:
# make bench-compare REF=main PKG=./receiver
bench-compare:
	@set -e; dir=$$(mktemp -d); trap 'git worktree remove --force $$dir/ref; rm -rf $$dir' EXIT; \
	git worktree add --quiet --detach $$dir/ref $(REF); \
	for i in $$(seq $(COUNT)); do \
	  $(GO) -C $$dir/ref test -run '^$$' -bench . -benchmem $(PKG) >>$$dir/old.txt; \
	  $(GO) test -run '^$$' -bench . -benchmem $(PKG) >>$$dir/new.txt; \
	done; \
	$(GO) run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da $(REF)=$$dir/old.txt new=$$dir/new.txt

# What receiving costs; the servers run on the first CPU, the client on the last. BENCHFLAGS goes to
# rwsink bench, such as --rounds=3, --only=late or --lock=FILE where others measure too.
BENCHFLAGS ?=
bench-floor bench-ooo bench-goals: build
	bin/rwsink bench $(@:bench-%=%) $(BENCHFLAGS)

# Prometheus and VictoriaMetrics beside it, each built once; VictoriaMetrics with the C library for
# zstd where there is a compiler, as it is delivered.
PROMETHEUS      := $(CACHE)/prometheus-v0.316.0
VICTORIAMETRICS := $(CACHE)/victoria-metrics-v1.151.0
bench-peers: build $(PROMETHEUS) $(VICTORIAMETRICS)
	bin/rwsink bench peers --cache=$(CACHE) $(BENCHFLAGS)

# The tables of docs/BENCHMARKS.md from its goals to the receive path, without those of the codec and the store:
# hours on a machine that does nothing else. BENCHFLAGS is what all of them take: --lock, --dir, --binary.
bench-all:
	$(MAKE) bench-goals
	$(MAKE) bench-floor BENCHFLAGS="$(BENCHFLAGS) --samples=20"
	$(MAKE) bench-peers BENCHFLAGS="$(BENCHFLAGS) --rounds=1 --rest=3s"
	$(MAKE) bench-peers BENCHFLAGS="$(BENCHFLAGS) --series=20000 --rounds=1 --rest=3s"
	$(MAKE) bench-peers BENCHFLAGS="$(BENCHFLAGS) --series=20000 --samples=1000 --rounds=1 --rest=3s"
	$(MAKE) bench-peers BENCHFLAGS="$(BENCHFLAGS) --series=1000 --samples=1000 --rounds=1 --rest=3s"
	$(MAKE) bench-ooo BENCHFLAGS="$(BENCHFLAGS) --series=200"
	$(GO) test ./receiver -run '^$$' -bench 'Fill|Snappy' -benchtime 600x
	$(GO) test ./head -run '^$$' -bench 'Commit|Memory|Stream'

$(PROMETHEUS):
	@mkdir -p $(CACHE)
	$(GO) -C e2e build -tags remove_all_sd -o $(abspath $@).new github.com/prometheus/prometheus/cmd/prometheus
	mv $@.new $@

$(VICTORIAMETRICS):
	@mkdir -p $(CACHE)
	CGO_ENABLED=$$(command -v $${CC:-gcc} >/dev/null && echo 1 || echo 0) GOBIN=$(abspath $(CACHE)) \
	$(GO) install github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics@v1.151.0
	mv $(CACHE)/victoria-metrics $@

# Every fuzz target for FUZZTIME, one after another.
fuzz:
	@set -e; $(GO) list -f '{{.Dir}}' ./... | while read -r dir; do \
	  grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go 2>/dev/null | cut -d' ' -f2 | while read -r f; do \
	    echo "== $$dir $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$dir; \
	  done; \
	done

# Longer runs of what tests do in short: many rounds, a backfill of 346 million samples, and more checks of every property.
soak:
	RWSINK_SOAK=1 $(GO) test -count 1 -timeout 60m ./acceptance ./transfer ./store
	RWSINK_SOAK=1 $(GO) test -count 1 -timeout 60m -run '^$$' -bench '^BenchmarkBackfill$$' -benchtime 1x ./store
	grep -rl pgregory.net/rapid --include='*_test.go' . | xargs -n1 dirname | sort -u \
	| xargs -I{} $(GO) test -count 1 -timeout 60m {} -rapid.checks=5000

e2e:
	RWSINK_E2E=long $(GO) -C e2e test -count 1 -parallel 8 -timeout 40m -v .

e2e-short:
	$(GO) -C e2e test -count 1 -parallel 8 -timeout 30m -v .

# The static binary and an empty data directory, as compose/Dockerfile wants them, and the image.
IMAGE ?= rwsink:local
image: build
	@set -e; dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; \
	mkdir $$dir/data; cp bin/rwsink $$dir/rwsink; \
	docker build --quiet --tag $(IMAGE) --file compose/Dockerfile $$dir

# The whole stack, with either generation of the compose tool.
up: image
	@if docker compose version >/dev/null 2>&1; \
	then docker compose -p rwsink -f compose/docker-compose.yml up --wait; \
	else docker-compose -p rwsink -f compose/docker-compose.yml up -d; fi

clean:
	rm -rf bin .cache
