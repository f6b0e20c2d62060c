# Countersign. `make help` lists the targets.
include .tools.mk
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

BIN       := $(CURDIR)/bin
GO        ?= go
FUZZTIME  ?= 30s
UP_FLAGS  ?=
TESTFLAGS ?=

COMMANDS := controller proxy kubectl-countersign dev

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: cluster
cluster: ## Build the test cluster's binaries (etcd, API server, Tekton, ...) into bin/.
	@$(MAKE) --no-print-directory -C test/cluster
	@$(MAKE) --no-print-directory -C test/ecosystem

.PHONY: build
build: ## Build Countersign's own binaries into bin/.
	@for c in $(COMMANDS); do $(GO) build -o $(BIN)/$$c ./cmd/$$c; done

.PHONY: generate
generate: ## Make deep copies, CRDs and the API reference from the types.
	@$(CONTROLLER_GEN) object paths=./apis/...
	@$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=false 'paths=./apis/approval/...;./apis/connectors/...' output:crd:dir=config/crd/bases
	@$(CONTROLLER_GEN) crd 'paths=./apis/release/...' output:crd:dir=config/crd/release
	@$(GO) run ./test/reference > docs/reference.md

.PHONY: verify
verify: ## Prove that generated files, formatting and modules are current.
	@test/verify.sh

.PHONY: lint
lint: ## Run the linters.
	@$(GOLANGCI_LINT) run ./...

.PHONY: test
test: cluster build ## Run every test: unit, integration on a real API server, end to end.
	@test/run.sh

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME.
	@test/fuzz.sh $(FUZZTIME)

.PHONY: up
up: cluster build ## Start the development environment, or what of it is missing.
	@$(BIN)/dev up $(UP_FLAGS)

.PHONY: down
down: ## Stop the development environment and remove its state.
	@if [ -x $(BIN)/dev ]; then $(BIN)/dev down; else rm -rf .dev; fi

.PHONY: demo
demo: cluster build ## Tell the whole story on a real cluster, step by step, and clean up.
	@$(BIN)/dev demo

.PHONY: bench
bench: cluster build ## Measure the sizes of the design, as ratios of one run.
	@test/bench/run.sh

.PHONY: clean
clean: ## Remove what was built.
	@rm -rf $(BIN)
