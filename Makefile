# `make` or `make build` gives bin/rwsink; `make test` passes every test of the program.

SHELL   := /bin/bash
GO      ?= go
# What end-to-end tests build once: Prometheus and, where there is an engine, the compose tool.
CACHE   ?= $(or $(RWSINK_CACHE),$(CURDIR)/.cache)
VERSION ?= $(shell cat VERSION)
REVISION := $(shell git rev-parse --short HEAD 2>/dev/null)
V       := github.com/prometheus/common/version
LDFLAGS := -s -w -X $(V).Version=$(VERSION) -X $(V).Revision=$(REVISION) -X $(V).Branch=main

FUZZTIME ?= 20s
COUNT    ?= 6
REF      ?= main
PKG      ?= ./...

export RWSINK_CACHE := $(CACHE)

.PHONY: all build test vet unit race bench bench-codec bench-compare fuzz soak e2e e2e-short image up clean

all: build

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/rwsink ./cmd/rwsink

# Everything twice: as it runs in production, where allocations are counted, and under the race detector.
test: vet unit race

vet:
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt wants: $$out"; exit 1; }
	$(GO) vet ./...
	$(GO) -C e2e vet ./...

unit:
	$(GO) test ./...

race:
	CGO_ENABLED=1 $(GO) test -race ./...

bench:
	$(GO) test -run '^$$' -bench . -benchmem $(PKG)
